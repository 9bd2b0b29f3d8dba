"""`local_steps="auto"` against a lab node with real doors; computing is the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.client.run import Run
from gpugoblin.errors import ClientError
from server_stub.node.state.links import Link
from server_stub.node.training import pacing
from tests.helpers.node import LabNode
from tests.helpers.trainings import Linear

MODEL = Linear()


def squares(weights: Mapping[str, gg.Array], x: gg.Array, y: gg.Array) -> gg.Array:
    gap = (x * weights["w"]).sum(axis=1) - y
    return (gap * gap).mean()


def trained(steps: int, **fields: Any) -> Run:
    given: dict[str, Any] = {
        "parameters": {"w": np.zeros(3, np.float32)}, "data": MODEL.data, "batch": 2,
        "optimizer": gg.SGD(0.05), "local_steps": "auto", "shards": 2, "name": "line",
        "numeric_class": "exact",
    }  # fmt: skip
    return gg.train(squares, steps=steps, **{**given, **fields})


def test_steps_are_chosen_once_shown_and_kept(
    short_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUGOBLIN_CONFIG", str(short_path / "none.toml"))
    with LabNode(short_path) as node, gg.connect(f"unix:{node.settings.socket_path}"):
        monkeypatch.setattr(pacing, "Link", lambda *_: Link(0, 0.0, 1e9, 1.0))
        run = trained(12).wait(timeout=60)
        found = run.training()
        assert found.chosen is not None
        steps = found.local_steps
        assert (found.chosen.steps, found.steps) == (steps, 12 // steps)
        assert f"{steps}, chosen:" in dict(run.view().rows())["local steps"]
        assert {row.local_steps for row in run.rounds()} == {steps}
        assert "steps" in str(run.table())
        plain = trained(12, local_steps=steps, name="plain").wait(timeout=60)
        assert np.array_equal(plain.losses, run.losses)
        assert plain.training().chosen is None
        path = run.checkpoint(tmp_path / "a.safetensors")
        # The link is another one now: what has a number of steps keeps it.
        other = Link(0, 1e6, 1e3, 1e9)
        monkeypatch.setattr(pacing, "Link", lambda *_: other)
        assert trained(12).attached
        rest = trained(12, name="rest", resume=path).wait(timeout=60)
        assert rest.training().local_steps == steps
        fresh = trained(12, name="fresh").wait(timeout=60).training()
        assert fresh.local_steps > steps
        assert trained(12, local_steps=fresh.local_steps, name="fresh").attached


def test_what_auto_is_refused_for(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUGOBLIN_CONFIG", str(short_path / "none.toml"))
    with LabNode(short_path) as node, gg.connect(f"unix:{node.settings.socket_path}"):
        cases: list[dict[str, Any]] = [
            {"shards": 11},  # Two local steps read more than there is.
            {"numeric_class": "float32"},
            {"local_steps": "much"},
            {"micro_batch": 1},
        ]
        for fields in cases:
            with pytest.raises(ClientError) as caught:
                trained(12, **fields)
            assert caught.value.code == "training_refused"
        with pytest.raises(gg.errors.GoblinError) as prime:
            trained(11)
        assert prime.value.code == "local_steps_not_found"
        assert gg.jobs() == []
