"""Which blobs an answer names first, and that answers reach their handler."""

from __future__ import annotations

import pytest

from server_stub.node import answers
from server_stub.node.state.words import RunWork, Step
from server_stub.node.work import (
    ArrayFile,
    BlobOutput,
    Box,
    Checked,
    Compute,
    Computed,
    Folded,
    Prepare,
    Prepared,
    Recompute,
    RegionInput,
    RegionOutput,
)
from tests.simulation.world import Shape, World

__all__: list[str] = []

FILE = ArrayFile("raw", "/x", "float32", (2,))
PLACE = RegionOutput(FILE, Box((0,), (2,)), "float32", (2,))
KEPT = BlobOutput("float32", (2,))


def compute(verify: str) -> Compute:
    return Compute("w", b"", "float32", (), (PLACE, KEPT), verify, 1, 1)  # type: ignore[arg-type]


def computed(verified: bool) -> Computed:
    return Computed(
        "w", (), ("a", "b"), (8, 8), verified, "", "e", "d", "k", "none", 0.1, 1
    )  # fmt: skip


def test_blobs_that_a_transaction_is_the_first_to_name() -> None:
    assert answers.kept_blobs(compute("product"), computed(True)) == ["b"]
    assert answers.kept_blobs(compute("product"), computed(False)) == []
    assert answers.kept_blobs(compute("recompute"), computed(False)) == ["a", "b"]
    packed = Prepare("w", RegionInput(FILE, Box((0,), (2,))), True)
    assert answers.kept_blobs(packed, Prepared("w", "p", 8)) == ["p"]
    validator = Recompute("w", b"", "float32", (), (), (PLACE, KEPT), True, True, 1, 1)
    repaired = Checked("w", False, "x", 0.0, 1.0, ("a", "b"))
    assert answers.kept_blobs(validator, repaired) == ["b"]
    assert answers.kept_blobs(validator, Checked("w", True, "", 0.0, 1.0)) == []
    assert answers.kept_blobs(validator, Folded("w")) == []


def test_an_answer_of_the_wrong_kind_is_a_bug(world: World) -> None:
    def body(step: Step) -> None:
        answers.apply(step, RunWork("check", 1, "lease_a"), Folded("w"))

    with pytest.raises(TypeError, match="check"):
        world.handle(body)


def test_an_array_that_changed_ends_its_job(world: World) -> None:
    job = world.submit(Shape(1))
    world.generate(job)
    first, other = Prepared("w", "a" * 64, 8), Prepared("w", "b" * 64, 8)
    world.handle(lambda s: answers.apply(s, RunWork("prepare", 1), first))
    world.handle(lambda s: answers.apply(s, RunWork("prepare", 1), other))
    row = world.connection.execute("select state, error_code from job").fetchone()
    assert row == ("failed", "input_changed")


def test_a_job_says_what_it_waits_for(world: World) -> None:
    from gpugoblin.errors import NodeError

    job = world.submit(Shape(1))
    world.generate(job)
    error = NodeError("user_unknown", name="x")
    for effect in (RunWork("prepare", 1), RunWork("check", 1, "lease_a")):
        world.handle(lambda s, e=effect: answers.waiting(s, e, error))  # type: ignore[misc]
        row = world.connection.execute("select state, error_code from job").fetchone()
        assert row == ("running", "user_unknown")
