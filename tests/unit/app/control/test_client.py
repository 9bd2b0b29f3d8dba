"""The small client: clear words when nobody, or somebody else, is there."""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from app.control.client import ControlClient, ControlRefusal
from app.control.messages import VERSION, Answer, Delta, Refused, Snapshot, Welcome, encode
from app.control.paths import socket_path
from gpugoblin.errors import AgentError


class Script:
    """A server that answers each line with the next of its answers."""

    def __init__(self, directory: Path, *answers: Answer | bytes) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        with socket_path(directory) as path:
            self.listener.bind(path)
        self.listener.listen(1)
        self.answers = answers
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        connection, _ = self.listener.accept()
        with connection, connection.makefile("rb") as lines:
            for answer in self.answers:
                if not isinstance(answer, Delta):
                    lines.readline()
                connection.sendall(answer if isinstance(answer, bytes) else encode(answer))
        self.listener.close()

    def join(self) -> None:
        self.thread.join(5)


def test_nobody_there(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "missing"):
        with pytest.raises(AgentError, match="No agent listens") as caught:
            ControlClient(directory)
        assert caught.value.code == "control_away"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Welcome(9, "x"), "control_version"),
        (Snapshot(1, 1, ()), "control_version"),
        (b"nonsense\n", "control_malformed"),
        (b"", "control_away"),
    ],
)
def test_somebody_else_there(tmp_path: Path, answer: Answer | bytes, code: str) -> None:
    script = Script(tmp_path, answer)
    with pytest.raises(AgentError) as caught:
        ControlClient(tmp_path)
    script.join()
    assert caught.value.code == code


def test_a_missing_change_is_noticed(tmp_path: Path) -> None:
    script = Script(tmp_path, Welcome(VERSION, "x"), Snapshot(1, 4, ()), Delta(6, (), ("a",)))
    with ControlClient(tmp_path) as client:
        changes = client.follow()
        assert next(changes) == {}
        with pytest.raises(AgentError, match="a change is missing"):
            next(changes)
    script.join()


def test_a_refusal_travels() -> None:
    refusal = ControlRefusal(Refused(1, "card_unknown", "No.", "Look."))
    again = pickle.loads(pickle.dumps(refusal))  # noqa: S301 - our own error
    assert (str(again), again.code) == ("No. Look. [card_unknown]", "card_unknown")


def test_it_loads_no_loop_and_nothing_of_the_agent() -> None:
    program = (
        "import sys, app.control.client\n"
        "print([n for n in sys.modules if n in ('asyncio', 'requests', 'numpy', 'rich')"
        " or n.startswith('app.agent')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
