"""From a submitted graph to a job: what is computed, and everything that is refused before."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.exact import interpret_exact
from gpugoblin.graph.serialize import decode as decode_graph
from gpugoblin.graph.serialize import encode as encode_graph
from gpugoblin.wire.messages.job import (
    ArrayInfo,
    JobEvents,
    JobList,
    OutputSave,
)
from gpugoblin.wire.messages.task import Constraints
from gpugoblin.wire.remote import RemoteError
from tests.helpers.device import capabilities
from tests.helpers.lab import (
    LAB,
    Lab,
    on_grid,
    product,
    refused,
    row_sums,
    work_until,
)
from tests.helpers.node import LabNode

__all__: list[str] = []


def test_a_product_is_computed_checked_and_named(lab: Lab) -> None:
    a, b, graph = product(300, 40, 70)
    inputs = lab.file(a, "a.npy"), lab.file(b, "b.npy")
    save = OutputSave("npy", str(lab.root / "c.npy"))
    job = lab.wait(lab.submit(graph, *inputs, outputs=(save,), name="gram"))
    assert job.state == "done"
    assert job.used == job.verified == job.tasks == job.verified_by.product
    np.testing.assert_allclose(np.load(lab.root / "c.npy"), a @ b, rtol=1e-4, atol=1e-4)
    events = lab.client.call("GET", "/v1/jobs/gram/events", JobEvents).events
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert [event.kind for event in events][:3] == ["submitted", "started", "leased"]
    assert events[-1].kind == "done"


def test_what_is_no_product_is_recomputed_by_the_validator(lab: Lab) -> None:
    values = np.arange(60, dtype=np.float32).reshape(12, 5)
    job = lab.wait(lab.submit(row_sums(values.shape), lab.file(values, "v.npy")))
    assert job.state == "done"
    assert job.verified_by.recompute == job.tasks
    np.testing.assert_allclose(lab.result(job.outputs[0]), values.sum(1))
    assert "Recompute" in lab.node.workers.done


def test_a_wrong_product_of_the_own_engine_is_repaired(lab: Lab) -> None:
    lab.node.workers.falsify = True
    a, b, graph = product(300, 40, 70)
    job = lab.wait(lab.submit(graph, lab.file(a, "a.npy"), lab.file(b, "b.npy")))
    assert job.state == "done"
    assert job.lost.rejected == 1
    assert job.verified_by.recompute == 1
    np.testing.assert_allclose(lab.result(job.outputs[0]), a @ b, rtol=1e-4, atol=1e-4)


def test_the_same_name_and_content_attaches(lab: Lab) -> None:
    values = np.ones((4, 4), np.float32)
    array = lab.file(values, "v.npy")
    first = lab.wait(lab.submit(row_sums((4, 4)), array, name="once"))
    again = lab.submit(row_sums((4, 4)), array, name="once")
    assert again.attached
    assert again.job == first.job
    other = lab.file(np.zeros((5, 4), np.float32), "w.npy")
    refused("job_name_taken", lambda: lab.submit(row_sums((5, 4)), other, name="once"))
    assert len(lab.client.call("GET", "/v1/jobs", JobList).jobs) == 1


@pytest.mark.parametrize(
    ("numeric_class", "within"), [("exact", 1e-6), ("bfloat16", 1e-2), ("int8", 3e-2)]
)
def test_a_job_carries_its_numeric_class(lab: Lab, numeric_class: str, within: float) -> None:
    a, b, graph = product(30, 40, 20)
    arrays = [lab.file(a, "a.npy"), lab.file(b, "b.npy")]
    job = lab.wait(lab.submit(graph, *arrays, numeric_class=numeric_class))
    assert job.state == "done"
    found = lab.result(job.outputs[0])
    assert 0 < np.abs(found - a.astype(float) @ b).max() < within * 40
    if numeric_class == "exact":
        assert job.verified_by.recompute == 1
        np.testing.assert_array_equal(found, interpret_exact(decode_graph(graph), [a, b])[0])


def _factor(shape: tuple[int, int]) -> bytes:
    builder = GraphBuilder()
    values = builder.input(TensorSpec("float32", shape))
    return encode_graph(builder.build([builder.add("cholesky", [values])]))


def test_a_dry_run_stores_nothing(lab: Lab) -> None:
    array = lab.file(np.ones((4, 4), np.float32), "v.npy")
    info = lab.submit(row_sums((4, 4)), array, dry_run=True)
    assert info.state == "planned"
    assert info.plan.tasks >= 1
    assert lab.client.call("GET", "/v1/jobs", JobList).jobs == ()


def test_refusals_before_a_job_starts(lab: Lab, tmp_path: Path) -> None:
    array = lab.file(np.ones((4, 4), np.float32), "v.npy")
    graph = row_sums((4, 4))
    refused("array_mismatch", lambda: lab.submit(row_sums((4, 5)), array))
    refused("array_mismatch", lambda: lab.submit(row_sums((4, 4), "int32"), array))
    refused("inputs_mismatch", lambda: lab.submit(graph))
    refused("unknown_array", lambda: lab.submit(graph, _with_id(array, "array_aaaa")))
    unordered = _factor((4, 4))
    refused("class_not_for_graph", lambda: lab.submit(unordered, array, numeric_class="exact"))
    refused("audited_not_offered", lambda: lab.submit(graph, array, assurance="audited"))
    refused("executor_unavailable", lambda: lab.submit(graph, array, executor="grid"))
    bad = (OutputSave("npy", "relative.npy"),)
    refused("output_path", lambda: lab.submit(graph, array, outputs=bad))
    nowhere = (OutputSave("npy", str(tmp_path / "no" / "c.npy")),)
    refused("output_path", lambda: lab.submit(graph, array, outputs=nowhere))
    (tmp_path / "there.npy").write_bytes(b"mine")
    there = (OutputSave("npy", str(tmp_path / "there.npy")),)
    refused("array_exists", lambda: lab.submit(graph, array, outputs=there))
    assert (tmp_path / "there.npy").read_bytes() == b"mine"
    refused("unknown_job", lambda: lab.job("nobody"))
    assert lab.client.call("GET", "/v1/jobs", JobList).jobs == ()


def _with_id(info: ArrayInfo, array: str) -> ArrayInfo:
    return msgspec.structs.replace(info, array=array)


def test_results_that_do_not_fit_the_disk(tmp_path: Path) -> None:
    with LabNode(tmp_path, reserve_bytes=1 << 60) as node, Lab(node, tmp_path) as lab:
        array = lab.file(np.ones((4, 4), np.float32), "v.npy")
        error = refused("results_do_not_fit", lambda: lab.submit(row_sums((4, 4)), array))
        assert error.status == 507


def test_a_task_larger_than_the_engine(tmp_path: Path) -> None:
    with (
        LabNode(tmp_path, slot_bytes=2**20, engine_memory_bytes=64 * 2**20) as node,
        Lab(node, tmp_path) as lab,
    ):
        array = lab.file(np.ones(2**21, np.float32), "v.npy")
        builder = GraphBuilder()
        value = builder.input(TensorSpec("float32", (2**21,)))
        ordered = builder.add_many("topk", (value,), axis=0, k=2**20)
        graph = encode_graph(builder.build((ordered[0],)))
        with pytest.raises(RemoteError) as caught:
            lab.submit(graph, array)
        assert caught.value.status == 400
        assert "MiB" in caught.value.what or "bytes" in caught.value.what, "it says the figure"


def test_jobs_may_leave_only_with_the_labs_word(tmp_path: Path) -> None:
    with LabNode(tmp_path, lab=LAB) as node, Lab(node, tmp_path) as lab:
        array = lab.file(np.ones((4, 4), np.float32), "v.npy")
        refused("not_confirmed", lambda: lab.submit(row_sums((4, 4)), array, executor="grid"))
        assert lab.submit(row_sums((4, 4)), array).plan.executor == "local"


def test_a_condition_that_no_lease_follows_is_refused(grid: Lab) -> None:
    array = grid.file(np.ones((4, 4), np.float32), "v.npy")
    link = Constraints(min_link_bytes_per_s=10**6)
    refused("link_not_offered", lambda: grid.submit(row_sums((4, 4)), array, constraints=link))


def test_a_job_that_the_grid_would_slow_down_is_refused_with_the_figure(grid: Lab) -> None:
    array = grid.file(np.ones((4, 4), np.float32), "v.npy")
    with grid.device() as device:
        device.exchange(capabilities=capabilities(flops_per_s=1.0, bytes_per_s=1.0))
        error = refused(
            "slower_than_alone",
            lambda: grid.submit(row_sums((4, 4)), array, executor="grid",
                                constraints=Constraints(sandbox="none")),
        )  # fmt: skip
        assert "s" in error.fields["grid"]


def test_a_job_of_float64_is_computed_by_those_who_have_it(grid: Lab) -> None:
    array = grid.file(np.arange(12.0).reshape(3, 4), "w.npy")
    graph = row_sums((3, 4), "float64")
    with grid.device() as without, grid.device() as having:
        without.exchange(capabilities=capabilities(dtypes=("float32",), arithmetic=("float32",)))
        job = on_grid(grid, graph, array)
        assert without.exchange(want=4).leases == ()
        job = work_until(grid, job, [without, having])
        assert job.state == "done"
        np.testing.assert_array_equal(grid.result(job.outputs[0]), [6.0, 22.0, 38.0])
