"""The program's words: arguments, exit statuses, and what is loaded for them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import main
from app.control.client import ControlClient
from app.control.messages import Finish, Pause, Quit, Resume, Stop
from gpugoblin.errors import AgentError
from tests.helpers.agent_network import FakeCoordinator, eventually, settings_text
from tests.helpers.agent_run import Scene
from tests.helpers.stub_engine import StubMaker


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[FakeCoordinator]:
    made = FakeCoordinator(tmp_path)
    yield made
    made.close()


def config(tmp_path: Path, coordinator: FakeCoordinator) -> list[str]:
    path = tmp_path / "a.toml"
    path.write_text(settings_text(tmp_path / "state", coordinator))
    return ["--config", str(path)]


class Asked:
    """Stands for the control client; keeps what was asked."""

    requests: list[object]

    def __init__(self, directory: Path) -> None:
        Asked.requests = []

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def number(self) -> int:
        return 1

    def ask(self, request: object) -> None:
        self.requests.append(request)

    def status(self) -> dict[str, object]:
        return {}


@pytest.mark.parametrize(
    ("words", "kind", "cards"),
    [
        (["pause"], Pause, ()),
        (["pause", "--card", "0", "--card", "2"], Pause, (0, 2)),
        (["finish"], Finish, ()),
        (["stop", "--card", "1"], Stop, (1,)),
        (["resume"], Resume, ()),
    ],
)
def test_verbs_become_requests(
    monkeypatch: pytest.MonkeyPatch, words: list[str], kind: type, cards: tuple[int, ...]
) -> None:
    monkeypatch.setattr("app.control.client.ControlClient", Asked)
    assert main.agent_command(words) == 0
    (request,) = Asked.requests
    assert type(request) is kind
    assert request.cards == cards  # type: ignore[attr-defined]
    assert request.intent.startswith("intent_")  # type: ignore[attr-defined]


def test_stop_exit_ends_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.control.client.ControlClient", Asked)
    main.agent_command(["stop", "--exit"])
    assert Asked.requests == [Quit(1)]


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("30m", 1800), ("2h", 7200), ("1d", 86400)]
)
def test_a_pause_for_a_while(monkeypatch: pytest.MonkeyPatch, text: str, seconds: int) -> None:
    monkeypatch.setattr("app.control.client.ControlClient", Asked)
    before_s = time.time()
    main.agent_command(["pause", "--for", text])
    until_s = Asked.requests[0].until_s  # type: ignore[attr-defined]
    assert before_s + seconds <= until_s <= time.time() + seconds


@pytest.mark.parametrize("text", ["", "h", "1", "1w", "1 h", "1.5h", "9999999h"])
def test_a_length_that_is_none(text: str) -> None:
    with pytest.raises(AgentError) as caught:
        main.agent_command(["pause", "--for", text])
    assert caught.value.code == "duration_malformed"


def test_nobody_to_tell(tmp_path: Path, coordinator: FakeCoordinator) -> None:
    for verb in ("status", "pause", "finish", "stop", "resume"):
        with pytest.raises(AgentError) as caught:
            main.agent_command([verb, *config(tmp_path, coordinator)])
        assert caught.value.code == "control_away"


def test_enrol_shows_the_code_once_and_is_idempotent(
    tmp_path: Path, coordinator: FakeCoordinator, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["enrol", *config(tmp_path, coordinator)]
    assert main.agent_command(words) == 0
    assert "ABCD-2345" in capsys.readouterr().out
    assert main.agent_command(words) == 0
    assert "ABCD-2345" not in capsys.readouterr().out
    assert coordinator.requests["POST /v1/enrol/start"] == 1


def test_doctor_without_an_agent(
    tmp_path: Path,
    coordinator: FakeCoordinator,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from app.agent import doctor

    alone = doctor.examine_alone
    monkeypatch.setattr(
        doctor, "examine_alone", lambda settings, look: alone(settings, StubMaker())
    )
    words = ["doctor", *config(tmp_path, coordinator)]
    assert main.agent_command(words) == main.ILL
    assert "This device is not enrolled." in capsys.readouterr().out
    main.agent_command(["enrol", *config(tmp_path, coordinator)])
    assert main.agent_command(words) == 0


def test_status_and_doctor_of_a_running_agent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(tmp_path)
    statuses: list[int] = []

    def script() -> None:
        def agent_state() -> object:
            with ControlClient(scene.state / "control") as control:
                return getattr(control.status()["agent"], "state", None)

        eventually(lambda: scene.said("granted to a lab"))
        eventually(lambda: agent_state() == "working")
        for verb in ("status", "doctor"):
            statuses.append(main.agent_command([verb, "--config", str(scene.config)]))

    try:
        scene.lend(script, StubMaker())
    finally:
        scene.close()
    assert statuses == [0, 0]
    out = capsys.readouterr().out
    assert "waiting for work" in out
    assert "well      Coordinator" in out


def test_w76_f251_f102_the_console_needs_its_word_and_its_coordinator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main.main([])
    path = tmp_path / "a.toml"
    path.write_text(
        f'state_directory = "{tmp_path / "state"}"\n[coordinator]\naddress = "c.example.org"\n'
    )
    assert main.main(["--console", "--config", str(path)]) == main.FAILED
    assert "c.example.org cannot be used" in capsys.readouterr().err
    assert main.main(["--console", "--config", str(tmp_path / "no.toml")]) == main.FAILED


def test_asking_loads_neither_the_loop_nor_the_agent() -> None:
    program = (
        "import sys, app.main\n"
        "print([n for n in sys.modules if n in ('requests', 'numpy', 'rich', 'cryptography')"
        " or n.startswith(('app.agent', 'PySide'))])\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
