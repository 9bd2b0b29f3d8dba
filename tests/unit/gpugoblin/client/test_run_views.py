from __future__ import annotations

import io

import msgspec
import numpy as np
import pytest
from rich.console import Console

from gpugoblin.client.run_views import RunView, choose_run_renderer, rounds_table, spark
from gpugoblin.client.views import StatusView
from gpugoblin.wire.messages.training import ChosenSteps, RoundRow, TrainingInfo
from tests.helpers.messages import example

INFO: TrainingInfo = example(TrainingInfo, bare=True)


def test_a_curve_in_one_line() -> None:
    assert spark([]) == ""
    assert spark([1.0, 1.0]) == "▁▁"
    assert spark([3.0, 2.0, 1.0, float("nan")]) == "█▅▁"
    assert len(spark(list(range(1000)))) == 24


def test_a_line_and_a_table() -> None:
    view = RunView(INFO, np.array([2.5, 1.25], np.float32))
    assert "loss 1.25" in view.line()
    target = io.StringIO()
    Console(file=target, width=100).print(view)
    assert "█▁" in target.getvalue()
    assert "<table>" in view._repr_html_()
    assert "loss" not in RunView(INFO, np.zeros(0, np.float32)).line()


def test_rounds_of_local_steps_are_called_rounds() -> None:
    info = msgspec.structs.replace(INFO, local_steps=5, micro=8, batch=80, done=3, steps=4)
    view = RunView(info, np.array([2.5, 1.25], np.float32))
    assert ", round 3 of 4, loss 1.25" in view.line()
    told = dict(view.rows())
    assert told["round"] == "80 examples in tasks of 40, 5 steps of 8 in each"
    assert told["weights"] == f"after {info.version} rounds"
    plain = RunView(msgspec.structs.replace(info, local_steps=1), view.losses)
    assert ", step 3 of 4, loss 1.25" in plain.line()
    assert dict(plain.rows())["batch"] == "80 examples in tasks of 8"


def test_rounds_are_lines() -> None:
    row = RoundRow(7, 3, 5, 4, 1, 2, 1, 1000, 2000, 10.0, 12.5)
    target = io.StringIO()
    Console(file=target, width=140).print(rounds_table([row]))
    for words in ("contributors", "7", "1000 B", "2.5 s"):
        assert words in target.getvalue(), words


def test_why_there_are_so_many_local_steps() -> None:
    chosen = ChosenSteps(20, 3, 0.5, 0.25, 1e6, 1_500_000, 10, 0.851)
    info = msgspec.structs.replace(INFO, local_steps=20, chosen=chosen)
    told = dict(RunView(info, np.zeros(0, np.float32)).rows())["local steps"]
    for words in ("20, chosen", "0.5 s a step", "1.75 s", "3 measured", "85% of the time"):
        assert words in told, told
    local = msgspec.structs.replace(info, chosen=msgspec.structs.replace(chosen, devices=0))
    assert "assumed" in dict(RunView(local, np.zeros(0, np.float32)).rows())["local steps"]
    row = RoundRow(7, 3, 5, 4, 1, 2, 1, 1000, 2000, 10.0, 12.5, 20)
    assert "steps" in str(rounds_table([row]))


def test_where_nobody_looks_a_line_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, now_s = io.StringIO(), [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    renderer = choose_run_renderer(lambda: RunView(INFO, np.ones(1, np.float32)), stream)
    status = StatusView(INFO.job)
    renderer.update(status)
    assert stream.getvalue() == ""
    now_s[0] = 61.0
    renderer.update(status)
    renderer.update(status)
    renderer.close()
    assert stream.getvalue().count("loss 1") == 1
