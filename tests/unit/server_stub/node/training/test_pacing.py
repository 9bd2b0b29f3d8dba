from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpugoblin.errors import PlanError
from gpugoblin.graph.check import LIMITS
from gpugoblin.graph.serialize import encode
from gpugoblin.optim.adam import AdamW
from gpugoblin.optim.words import words_of
from gpugoblin.plan.microbatches import micro_batch
from gpugoblin.wire.messages.training import ChosenSteps, GraphSlot, LocalStepsAsk, NamedTensor
from server_stub.node.executors.base import Fleet
from server_stub.node.state.links import ASSUMED, Link
from server_stub.node.training import pacing
from server_stub.node.training.building import alone
from server_stub.node.training.local_rounds import local_graph
from server_stub.node.training.pacing import choose
from tests.helpers.lab import Lab, refused
from tests.helpers.node import LabNode
from tests.helpers.trainings import SLOTS, linear_loss

FLEET = Fleet(4, 1 << 30, 1 << 28, 1, 4e9, 0.0, 0)
LINK = Link(3, 0.001, 1e6, 1e6)
"""Devices of 10^6 operations a second."""

MICRO = micro_batch(linear_loss(4), SLOTS)


def asking(rows: int = 4, **fields: Any) -> LocalStepsAsk:
    given: dict[str, Any] = {
        "graph": encode(linear_loss(rows)),
        "slots": tuple(GraphSlot(one.kind, one.array, one.offset) for one in SLOTS),
        "updates": (),
        "tensors": (NamedTensor("parameter", "w", 0, (3,)), NamedTensor("parameter", "c", 3, (1,))),
        "optimizer": msgspec.json.encode(words_of(AdamW(1e-3))).decode(), "steps": 40,
        "micro": rows, "examples": 10_000, "shards": 4,
    }  # fmt: skip
    return LocalStepsAsk(**{**given, **fields})


def test_bytes_are_those_of_a_task_and_more_latency_means_more_steps() -> None:
    found = choose(asking(), FLEET, LINK)
    # Weights, levels, scale and loss once; the number, and four rows of x and y, each step.
    assert (found.round_bytes, found.step_bytes) == (16 + 256 + 4 + 4, 8 + 4 * 16)
    assert (found.devices, found.latency_s, found.bytes_per_s) == (3, 0.001, 1e6)
    assert found.utilisation >= 0.85 or found.steps == 40
    slower = choose(asking(), FLEET, dataclasses.replace(LINK, latency_s=0.003))
    assert slower.steps > found.steps
    assert choose(asking(), FLEET, LINK) == found


def test_the_data_the_graph_and_the_engine_bound_it(monkeypatch: pytest.MonkeyPatch) -> None:
    far = dataclasses.replace(LINK, latency_s=100.0)
    assert choose(asking(examples=16 * 7), FLEET, far).steps == 5
    nodes = len(local_graph(alone(asking(), MICRO), 1).nodes)
    monkeypatch.setattr(pacing, "LIMITS", dataclasses.replace(LIMITS, nodes=9 * nodes))
    assert choose(asking(), FLEET, far).steps == 8
    small = dataclasses.replace(FLEET, slot_bytes=4 * 12 * 7)
    assert choose(asking(steps=20), small, far).steps == 5
    with pytest.raises(PlanError) as caught:
        choose(asking(steps=7, examples=16 * 6), FLEET, far)
    assert caught.value.code == "local_steps_not_found"


def test_rates_that_nobody_measured() -> None:
    known = choose(asking(steps=4), FLEET, ASSUMED)
    assert known.devices == 0
    assert known.step_s == pytest.approx(choose(asking(steps=4), FLEET, LINK).step_s / 1e3)
    nobody = dataclasses.replace(FLEET, engines=0, flops_per_s=0.0)
    assert choose(asking(steps=4), nobody, ASSUMED).step_s > 0


def test_the_node_answers(short_path: Path) -> None:
    with LabNode(short_path) as node, Lab(node, short_path) as lab:
        found = lab.client.call("POST", "/v1/pace", ChosenSteps, body=asking())
        assert (found.devices, found.latency_s) == (0, 0.0)  # Its own engine computes.
        bad = asking(tensors=(NamedTensor("parameter", "w", 1, (3,)),))
        refused(
            "training_malformed",
            lambda: lab.client.call("POST", "/v1/pace", ChosenSteps, body=bad),
        )
