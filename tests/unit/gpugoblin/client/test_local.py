"""The node of this machine: started once, shared, found again, and its refusals."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import gpugoblin as gg
from gpugoblin.client import local
from gpugoblin.client.local import LocalNode, attach
from gpugoblin.client.notices import NO_SANDBOX
from gpugoblin.errors import ClientError
from tests.helpers.fake_node import FakeNode

ROOT = Path(__file__).parents[4]

SERVE = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tests.helpers.fake_node import FakeNode
with open(sys.argv[3], "a") as file:
    file.write(f"{os.getpid()}\\n")
with FakeNode(Path(sys.argv[2])):
    time.sleep(60)
"""


class Stand:
    """A state directory whose nodes are small ones, and which ends them."""

    def __init__(self, path: Path) -> None:
        self.state_dir = path / "state"
        self.pids = path / "pids"
        self.started = 0

    def command(self, node: LocalNode) -> list[str]:
        self.started += 1
        return [sys.executable, "-c", SERVE, str(ROOT), str(node.socket), str(self.pids)]

    def running(self) -> list[int]:
        return [int(line) for line in self.pids.read_text().split()] if self.pids.exists() else []

    def close(self) -> None:
        for pid in self.running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def stand(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    made = Stand(short_path)
    monkeypatch.setattr(local, "_node_command", made.command)
    monkeypatch.setattr(local, "_walls", lambda node: "full")
    yield made
    made.close()


def test_the_node_is_started_once_and_found_again(stand: Stand) -> None:
    with gg.connect("local", state_dir=stand.state_dir) as first:
        assert first.is_local
        with gg.connect("local", state_dir=stand.state_dir) as second:
            assert second.address == first.address
            assert gg.array([1, 2]).sum().compute() == 3
    assert stand.started == 1
    (pid,) = stand.running()
    assert psutil.pid_exists(pid)
    assert psutil.Process(pid).ppid() != os.getpid()
    assert oct(stand.state_dir.stat().st_mode)[-3:] == "700"
    node = LocalNode(stand.state_dir.resolve())
    assert tomllib.loads(node.config.read_text()) == {
        "state_dir": str(node.node_state), "socket": str(node.socket), "engine_level": "full",
        "idle_exit_s": 3600.0,
    }  # fmt: skip
    first.stop_node()
    assert local._listener(node) is None
    first.stop_node()


def test_clients_that_start_at_once_start_one(stand: Stand, tmp_path: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from gpugoblin.client import local\n"
        "from tests.unit.gpugoblin.client.test_local import SERVE, ROOT\n"
        "local._node_command = lambda node: [sys.executable, '-c', SERVE, str(ROOT),"
        " str(node.socket), sys.argv[3]]\n"
        "local._walls = lambda node: 'full'\n"
        "local.attach(Path(sys.argv[2]))\n"
    )
    clients = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(ROOT), str(stand.state_dir), str(stand.pids)]
        )
        for _ in range(3)
    ]
    assert [client.wait(60) for client in clients] == [0, 0, 0]
    assert len(stand.running()) == 1


def test_a_node_that_died_is_started_again(stand: Stand) -> None:
    stand.state_dir.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(LocalNode(stand.state_dir.resolve()).socket))
    with gg.connect("local", state_dir=stand.state_dir) as session:
        stand.close()
        session.reconnect()
        assert gg.array([1, 2]).sum().compute() == 3
    assert stand.started == 2


def test_a_node_that_does_not_start_says_why(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = [sys.executable, "-c", "import sys; print('no disk left'); sys.exit(3)"]
    monkeypatch.setattr(local, "_node_command", lambda node: failing)
    with pytest.raises(ClientError) as caught:
        gg.connect("local", state_dir=stand.state_dir)
    assert caught.value.code == "local_start_failed"
    assert "status 3 (no disk left)" in str(caught.value)
    assert "local.log" in caught.value.next_step


def test_a_node_that_is_never_ready_is_given_up(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "START_TIMEOUT_S", 0.2)
    monkeypatch.setattr(local, "_node_command", lambda node: ["sleep", "1"])
    with pytest.raises(ClientError, match=r"not ready within 0\.2 s"):
        attach(stand.state_dir)


def test_without_a_sandbox_it_is_said_once_a_session(
    short_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = LocalNode(short_path.resolve())
    node.config.write_text('engine_level = "none"\n')
    with FakeNode(node.socket), gg.connect("local", state_dir=short_path):
        assert capsys.readouterr().err == f"{NO_SANDBOX}\n"
        gg.array([1]).sum().compute()
        assert capsys.readouterr().err == ""


def test_only_the_node_of_this_machine_is_stopped(node: FakeNode) -> None:
    with gg.connect(node.address) as session, pytest.raises(ClientError, match="not_connected"):
        session.stop_node()


def test_walls_that_cannot_be_had_are_none(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = LocalNode(short_path)
    node.node_state.mkdir()
    monkeypatch.setattr(local, "_PROBE", "import sys; sys.exit('no bwrap here')")
    assert local._walls(node) == "none"
    assert "no bwrap here" in node.log.read_text()
    monkeypatch.setattr(local, "_PROBE", "pass")
    assert local._walls(node) == "full"


def test_a_long_path_gets_a_short_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    node = LocalNode(tmp_path / ("x" * 100))
    assert len(str(node.socket)) < 100
    assert str(node.socket).startswith("/run/user/7/gpugoblin-")
    assert node.socket != LocalNode(tmp_path / ("y" * 100)).socket


def test_a_system_without_unix_sockets(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")
    with pytest.raises(ClientError, match="local_unsupported"):
        attach(stand.state_dir)


def test_a_node_that_has_ended_is_started_again_by_the_next_question(stand: Stand) -> None:
    with gg.connect("local", state_dir=stand.state_dir) as session:
        (pid,) = stand.running()
        os.kill(pid, signal.SIGKILL)
        psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=5)
        LocalNode(stand.state_dir.resolve()).socket.unlink(missing_ok=True)
        assert session.jobs() == []
    assert stand.started == 2


def test_the_limits_are_the_nodes_settings(stand: Stand) -> None:
    with gg.connect("local", state_dir=stand.state_dir, memory_bytes=256 << 20):
        pass
    node = LocalNode(stand.state_dir.resolve())
    settings = tomllib.loads(node.config.read_text())
    assert settings["engine_memory_bytes"] == node.memory_bytes == 256 << 20
    assert settings["slot_bytes"] == 64 << 20
    assert settings["idle_exit_s"] == 3600.0


def test_a_running_node_keeps_its_limit_and_that_is_said(
    stand: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    with gg.connect("local", state_dir=stand.state_dir):
        pass
    assert "another limit of memory" not in capsys.readouterr().err
    with gg.connect("local", state_dir=stand.state_dir, memory_bytes=256 << 20):
        pass
    assert "another limit of memory" in capsys.readouterr().err


def test_a_limit_that_is_too_small(stand: Stand) -> None:
    with pytest.raises(ClientError) as caught:
        gg.connect("local", state_dir=stand.state_dir, memory_bytes=1 << 20)
    assert caught.value.code == "local_memory_refused"
    assert stand.started == 0


def test_a_node_that_is_just_leaving_is_waited_for(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch, tries = local._launch, []

    def taken(node: LocalNode) -> None:
        tries.append(1)
        if len(tries) < 3:
            reason = "it ended [state_dir_taken]"
            raise ClientError("local_start_failed", reason=reason, log=node.log)
        launch(node)

    monkeypatch.setattr(local, "_launch", taken)
    with gg.connect("local", state_dir=stand.state_dir):
        pass
    assert len(tries) == 3
