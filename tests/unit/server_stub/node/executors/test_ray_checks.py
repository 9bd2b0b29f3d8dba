"""Checks on Ray machines: never a machine's own result, and only the node convicts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gpugoblin.errors import EngineError
from tests.helpers.hands import Hands
from tests.helpers.lab import (
    Lab,
    died,
    grid_settings,
    on_grid,
    product,
    row_sums,
    until,
    work_until,
)
from tests.helpers.node import LabNode

__all__: list[str] = []

JUDGING = {"Check", "Recompute", "Compare"}


class Case:
    def __init__(self, lab: Lab, hands: Hands) -> None:
        self.lab = lab
        self.hands = hands
        self.done = lab.node.workers.done

    def judged_by(self) -> list[str]:
        return [seat for seat, kind, _ in self.hands.done if kind in JUDGING]

    def only_judges(self) -> None:
        """The machines compute no task of a volunteer."""
        self.lab.node.node.ray._takes = ("ray",)  # type: ignore[union-attr]


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    hands = Hands("a", "b")
    given = {**grid_settings(), "executor": "local, grid, ray", "ray_address": "test:1",
             "validators_on": "ray"}  # fmt: skip
    with LabNode(tmp_path, link=hands, **given) as node, Lab(node, tmp_path) as lab:
        yield Case(lab, hands)


def test_another_machine_checks_and_the_node_folds(case: Case) -> None:
    a, b, graph = product(1300, 400, 4000)
    files = (case.lab.file(a, "a.npy"), case.lab.file(b, "b.npy"))
    ended = case.lab.wait(case.lab.submit(graph, *files, executor="ray"))
    assert ended.tasks > 1
    assert ended.state == "done"
    assert ended.verified_by.product == ended.tasks
    computed = {task: seat for seat, kind, task in case.hands.done if kind == "Compute"}
    judged = {task: seat for seat, kind, task in case.hands.done if kind in JUDGING}
    assert len(judged) == ended.tasks
    assert all(judged[task] != computed[task] for task in judged)
    assert "Fold" in case.done
    np.testing.assert_allclose(case.lab.result(ended.outputs[0]), a @ b, rtol=1e-3, atol=1e-3)


def test_the_only_machine_does_not_check_itself(case: Case) -> None:
    case.lab.node.call(case.hands.lose("b"))
    array = case.lab.file(np.ones((6, 5), np.float32), "v.npy")
    ended = case.lab.wait(case.lab.submit(row_sums((6, 5)), array, executor="ray"))
    assert ended.state == "done"
    assert [kind for _, kind, _ in case.hands.done] == ["Compute"] * ended.tasks
    assert "Recompute" in case.done


def test_volunteers_are_checked_on_the_cluster(case: Case) -> None:
    case.only_judges()
    array = case.lab.file(np.ones((6, 5), np.float32), "v.npy")
    job = on_grid(case.lab, row_sums((6, 5)), array)
    with case.lab.device() as device:
        ended = work_until(case.lab, job, [device])
    assert ended.state == "done"
    assert len(case.judged_by()) == ended.tasks


def test_a_liar_is_convicted_by_the_nodes_own_validator(case: Case) -> None:
    case.only_judges()
    values = np.arange(30, dtype=np.float32).reshape(6, 5)
    job = on_grid(case.lab, row_sums((6, 5)), case.lab.file(values, "v.npy"))
    with case.lab.device() as device:
        device.spoil = lambda arrays: [array + 1 for array in arrays]
        ended = work_until(case.lab, job, [device])
    assert ended.state == "done"
    assert ended.lost.rejected == 1
    assert case.judged_by()
    # The node's pool counts what hands did through it, too: the last one was the node's own.
    assert case.done.count("Recompute") == len(case.judged_by()) + 1
    assert np.array_equal(case.lab.result(ended.outputs[0]), values.sum(1))


def test_a_machine_that_vanishes_over_a_check_costs_nothing(case: Case) -> None:
    case.only_judges()
    gone: list[str] = []

    def meddle(item: object) -> EngineError | None:
        if type(item).__name__ == "Recompute" and not gone:
            gone.append("x")
            time.sleep(0.2)
            return died()
        return None

    case.lab.node.workers.meddle = meddle
    array = case.lab.file(np.ones((6, 5), np.float32), "v.npy")
    job = on_grid(case.lab, row_sums((6, 5)), array)
    with case.lab.device() as device:
        until(lambda: device.work())
    until(lambda: gone)
    ended = case.lab.wait(job)
    assert ended.state == "done"
    assert case.judged_by() == []
    assert case.done.count("Recompute") == 1


def computed_there(case: Case) -> None:
    array = case.lab.file(np.ones((6, 5), np.float32), "v.npy")
    ended = case.lab.wait(case.lab.submit(row_sums((6, 5)), array, executor="ray"))
    assert ended.state == "done"
    assert ended.verified_by.recompute == ended.tasks
    assert [kind for _, kind, _ in case.hands.done] == ["Compute"] * ended.tasks


def test_a_computer_with_two_ids_does_not_check_itself(case: Case) -> None:
    """Ray was started twice on it, or again under another name."""
    for machine in ("a", "b"):
        case.lab.node.call(case.hands.lose(machine))
    case.lab.node.call(case.hands.add("c", "name:c", "boot_id:1"))
    case.lab.node.call(case.hands.add("d", "name:d", "boot_id:1"))
    computed_there(case)


def test_where_a_maker_is_not_known_any_more_the_node_checks(case: Case) -> None:
    """It may have come back under another id since the node was started."""
    case.hands.known = {}
    computed_there(case)
