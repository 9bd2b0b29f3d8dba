"""The agent from end to end: a coordinator, a lab, an engine, real HTTPS on loopback."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from app.agent.fleet import start_engine
from app.control.client import ControlClient
from app.control.messages import (
    AgentItem,
    CardItem,
    Doctor,
    Finish,
    Pause,
    Quit,
    Report,
    Resume,
    SettingsAre,
    SettingsGet,
    SettingsSet,
    Stop,
    TotalsItem,
)
from gpugoblin.blobs.chunk import CHUNK_BYTES
from gpugoblin.catalog.spec import DTYPES
from tests.helpers.agent_network import FakeLab, eventually
from tests.helpers.agent_run import Scene

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()
    problems = [*made.coordinator.problems, *(p for lab in made.labs for p in lab.problems)]
    assert problems == []


def control(scene: Scene) -> ControlClient:
    return ControlClient(scene.state / "control")


def card(scene: Scene) -> CardItem:
    with control(scene) as asking:
        item = asking.status()["card-0"]
    assert isinstance(item, CardItem)
    return item


def test_from_a_code_to_verified_results(scene: Scene) -> None:
    scene.lab.add_products(8)
    status = scene.lend(lambda: eventually(lambda: scene.lab.verified() == 8))
    assert status == 0
    assert scene.said("approve the code ABCD-2345")
    assert scene.said("This device is enrolled")
    assert scene.said("A result was sent")
    first = next(exchange for exchange in scene.lab.exchanges if exchange.capabilities)
    assert first.capabilities is not None
    assert first.capabilities.flops_per_s > 1e8
    assert first.capabilities.dtypes == tuple(sorted(DTYPES)), "it is a processor"
    assert first.capabilities.convolutions == first.capabilities.arithmetic == tuple(sorted(DTYPES))
    # The shared right-hand matrix went over the network once.
    assert len([r for r in scene.lab.requests if r.endswith("/manifest")]) == 9
    assert max(n for r, n in scene.lab.requests.items() if r.endswith("/manifest")) == 1


@pytest.mark.slow
def test_a_second_start_is_enrolled_already(scene: Scene) -> None:
    scene.lab.add_products(1)
    scene.lend(lambda: eventually(lambda: scene.lab.verified() == 1))
    scene.lab.add_products(1)
    scene.lend(lambda: eventually(lambda: scene.lab.verified() == 2))
    assert scene.coordinator.requests["POST /v1/enrol/start"] == 1


@pytest.mark.slow
def test_blobs_of_several_chunks(scene: Scene) -> None:
    side = 1500
    assert side * side * 4 > 2 * CHUNK_BYTES
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((side, side), dtype=np.float32) for _ in range(2))
    scene.lab.add_task("matmul", (a, b))
    scene.lend(lambda: eventually(lambda: scene.lab.verified() == 1))


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_in_the_full_sandbox(scene: Scene) -> None:
    scene.lab.add_products(3)
    levels: list[str] = []

    def script() -> None:
        eventually(lambda: scene.lab.verified() == 3)
        levels.append(card(scene).sandbox_level)

    scene.lend(script, start_engine)
    assert levels == ["full"]


def test_i1559_pause_frees_the_card_and_resume_lends_again(scene: Scene) -> None:
    scene.lab.add_products(30, rows=512, inner=1024, columns=1024)

    def script() -> None:
        eventually(lambda: scene.lab.verified() > 0)
        eventually(lambda: card(scene).queued == 2)
        with control(scene) as asking:
            assert asking.ask(Pause(1, "intent_a")).is_new  # type: ignore[union-attr]
            assert not asking.ask(Pause(2, "intent_a")).is_new  # type: ignore[union-attr]
        eventually(lambda: card(scene).engine == "absent")
        eventually(lambda: not scene.lab.open)
        stopped = card(scene)
        assert (stopped.ruling, stopped.doing) == ("STOP", "stopped")
        assert [reason.code for reason in stopped.reasons] == ["owner_paused"]
        before = scene.lab.verified()
        with control(scene) as asking:
            asking.ask(Resume(1, "intent_b"))
        eventually(lambda: scene.lab.verified() > before)

    scene.lend(script)
    assert scene.said("not lending, because you paused it")
    assert "owner" in scene.lab.fate.values()


@pytest.mark.slow
def test_a_pause_survives_a_restart_and_ends_with_its_time(scene: Scene) -> None:
    scene.lab.add_products(1)

    def pause() -> None:
        eventually(lambda: scene.agent is not None and (scene.state / "control").exists())
        with control(scene) as asking:
            asking.ask(Pause(1, "intent_a", until_s=time.time() + 2.0))

    scene.lend(pause)
    scene.lines.clear()
    scene.lend(lambda: eventually(lambda: scene.lab.verified() == 1))
    assert scene.said("you paused it, until")
    assert scene.said("lending, because nothing forbids it")


def test_f53_w42_finish_lets_the_running_task_end(scene: Scene) -> None:
    scene.lab.add_products(300)

    def script() -> None:
        eventually(lambda: scene.lab.verified() > 0)
        with control(scene) as asking:
            asking.ask(Finish(1, "intent_a"))
        eventually(lambda: card(scene).engine == "absent" and not scene.lab.open)
        assert [reason.code for reason in card(scene).reasons] == ["owner_finished"]

    scene.lend(script)
    assert "engine_failed" not in scene.lab.fate.values()


def test_stop_gives_the_grants_up(scene: Scene) -> None:
    scene.lab.add_products(300)

    def script() -> None:
        eventually(lambda: scene.lab.verified() > 0)
        with control(scene) as asking:
            asking.ask(Stop(1, "intent_a"))

            def grants() -> list[str]:
                return [key for key in asking.status() if key.startswith("grant")]

            eventually(lambda: not grants())
        assert not list((scene.state / "cache").iterdir())

    scene.lend(script)
    assert scene.said("the grant is given up")


def test_status_deltas_settings_and_doctor(scene: Scene) -> None:
    scene.lab.add_products(4)

    def script() -> None:
        with eventually_control(scene) as asking, control(scene) as following:
            seen = following.follow()
            first = next(seen)
            assert isinstance(first["agent"], AgentItem)

            def sent() -> int:
                totals = next(seen)["totals"]
                assert isinstance(totals, TotalsItem)
                return totals.results_sent

            eventually(lambda: sent() == 4)
            got = asking.ask(SettingsGet(1))
            assert isinstance(got, SettingsAre)
            changed = asking.ask(SettingsSet(2, got.revision, {"queue.prefetch": 3}))
            assert isinstance(changed, SettingsAre)
            assert (changed.revision, changed.values["queue.prefetch"]) == (1, 3)
            report = asking.ask(Doctor(3))
            assert isinstance(report, Report)
            assert all(finding.is_well for finding in report.findings)
            probes = {"idle", "play", "power", "network", "load", "cards"}
            assert {finding.subject for finding in report.findings} == {
                "host", "enrolment", "sandbox", "coordinator", "clock", "disk",
                *(f"probe_{name}" for name in probes),
            }  # fmt: skip

    scene.lend(script)
    assert scene.agent is not None
    assert scene.agent.machine.model.limits.prefetch == 3


def eventually_control(scene: Scene) -> ControlClient:
    eventually(lambda: (scene.state / "control" / "control.sock").exists())
    return control(scene)


def test_quit_over_the_control_socket(scene: Scene) -> None:
    def script() -> None:
        with eventually_control(scene) as asking:
            asking.ask(Quit(1))
        eventually(lambda: scene.said("Ended"))

    assert scene.lend(script) == 0


def test_two_labs_never_share_an_engine(scene: Scene, tmp_path: Path) -> None:
    scene.lab.add_products(2)
    other = FakeLab(tmp_path, scene.coordinator, "other")
    scene.labs.append(other)
    other.add_products(2)
    pids: set[int] = set()

    def engines() -> set[int]:
        return {
            child.pid
            for child in psutil.Process().children()
            if "child.py" in " ".join(child.cmdline())
        } - of_other_tests

    of_other_tests: set[int] = set()
    of_other_tests.update(engines())

    def script() -> None:
        eventually(lambda: scene.lab.verified() == 2)
        pids.update(engines())
        scene.coordinator.lab = other
        eventually(lambda: other.verified() == 2)
        assert not pids & engines()

    scene.lend(script)
    assert len(pids) == 1


def program(scene: Scene, level: str = "none") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.helpers.agent_plain", level, str(scene.config)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_sigterm_ends_everything_and_gives_the_leases_back(scene: Scene) -> None:
    scene.lab.add_products(40, rows=256, inner=512, columns=512)
    with program(scene) as process:
        eventually(lambda: scene.lab.verified() > 0)
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=20)
    assert process.returncode == 0, output
    assert scene.lab.open == {}
    assert "shutdown" in scene.lab.fate.values()
    assert not [child for child in children if child.is_running()]
    assert "Ended. 0 leases are left" in output
    assert not list((scene.state / "cache").iterdir())
    assert not (scene.state / "control" / "control.sock").exists()


def test_the_program_loads_neither_numpy_nor_qt(scene: Scene) -> None:
    scene.lab.add_products(1)
    with program(scene) as process:
        eventually(lambda: scene.lab.verified() == 1)
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        process.terminate()
        process.communicate(timeout=20)
    assert "numpy" not in maps
    assert "PySide" not in maps


def test_a_second_agent_is_told_of_the_first(scene: Scene) -> None:
    def script() -> None:
        eventually_control(scene).close()
        with program(scene) as process:
            output, _ = process.communicate(timeout=20)
        assert process.returncode != 0
        assert f"An agent (process {os.getpid()}) already uses" in output

    scene.lend(script)
