"""The lab node of this machine: attach to the one that runs, or start it.

Owns: its place on disk, the lock that keeps two clients from starting two, and the wait for its
socket. The node is a process of its own that outlives every client. Must not: import the server;
it is started with `python -I -m`, so that nothing of the researcher's program is in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpugoblin.errors import ClientError, GoblinError
from gpugoblin.wire.transport import Endpoint, Transport

__all__ = ["LocalLimits", "LocalNode", "attach", "stop"]

START_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.02
LONGEST_SOCKET_PATH: Final = 100
LOG_TAIL_BYTES: Final = 2000


PROBE_TIMEOUT_S: Final = 60.0
_PROBE: Final = (
    "import sys; from pathlib import Path; from app.sandbox.probe import probe; "
    "from app.sandbox.runtime import stage; state = Path(sys.argv[1]); probe(stage(state), state)"
)
"""Ends with status 0 where engines can be walled in. It runs in a process of its own."""


LARGEST_SLOT_BYTES: Final = 256 * 2**20
TAKEN_S: Final = 10.0
"""How long a node that is just ending may keep its state directory."""


@dataclass(frozen=True, slots=True)
class LocalLimits:
    """What a node that is started here may take.

    Args:
        memory_bytes: inputs, outputs and intermediates of one task; 0: as the node's own default.
        idle_exit_s: it ends by itself after this without a question and without an unfinished job.
    """

    memory_bytes: int = 0
    idle_exit_s: float = 3600.0

    def settings(self) -> dict[str, int | float]:
        """The node's settings that follow."""
        chosen: dict[str, int | float] = {"idle_exit_s": self.idle_exit_s}
        if self.memory_bytes:
            chosen["engine_memory_bytes"] = self.memory_bytes
            chosen["slot_bytes"] = min(LARGEST_SLOT_BYTES, self.memory_bytes // 4)
        return chosen


@dataclass(frozen=True, slots=True)
class LocalNode:
    """Where the node of one state directory is."""

    state_dir: Path

    @property
    def config(self) -> Path:
        return self.state_dir / "local.toml"

    @property
    def log(self) -> Path:
        return self.state_dir / "local.log"

    @property
    def lock(self) -> Path:
        return self.state_dir / "local.lock"

    @property
    def socket(self) -> Path:
        """In the state directory, unless that path is too long for a Unix socket."""
        plain = self.state_dir / "node.sock"
        if len(os.fsencode(plain)) <= LONGEST_SOCKET_PATH:
            return plain
        name = hashlib.sha256(os.fsencode(self.state_dir)).hexdigest()[:16]
        base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
        return Path(base) / f"gpugoblin-{os.getuid()}" / f"{name}.sock"

    @property
    def node_state(self) -> Path:
        return self.state_dir / "node"

    @property
    def engine_level(self) -> str:
        """`full` or `none`: the walls of the node's engines, as it was started with."""
        level = self._started_with("engine_level")
        return level if isinstance(level, str) else ""

    @property
    def memory_bytes(self) -> int:
        """The limit of one task that the node was started with; 0: the node's own default."""
        limit = self._started_with("engine_memory_bytes")
        return limit if isinstance(limit, int) else 0

    def _started_with(self, name: str) -> object:
        with contextlib.suppress(OSError, tomllib.TOMLDecodeError):
            return tomllib.loads(self.config.read_text(encoding="utf-8")).get(name)
        return None

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(f"unix:{self.socket}")


def attach(state_dir: Path, limits: LocalLimits | None = None) -> LocalNode:
    """The running node of `state_dir`; starts it when there is none.

    Args:
        limits: for a node that is started now; one that runs keeps its own.

    Raises:
        ClientError: `local_unsupported`, `local_start_failed` (with the end of the node's log).
    """
    if not hasattr(socket, "AF_UNIX") or os.name != "posix":
        raise ClientError("local_unsupported", missing="Unix sockets")
    node = LocalNode(state_dir.expanduser().resolve())
    if _answers(node):
        return node
    _private_directory(node.state_dir)
    _private_directory(node.socket.parent)
    with _locked(node.lock):
        if not _answers(node):
            _start(node, limits or LocalLimits())
    return node


def stop(node: LocalNode) -> None:
    """Ends the running node; its jobs go on when it is started again.

    Raises:
        ClientError: `local_unsupported` where the system does not tell who listens.
    """
    if not hasattr(socket, "SO_PEERCRED") or not hasattr(os, "pidfd_open"):
        raise ClientError("local_unsupported", missing="SO_PEERCRED and pidfd")
    pid = _listener(node)
    if pid is None:
        return
    process = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
        select.select([process], [], [], STOP_TIMEOUT_S)
    finally:
        os.close(process)


def _listener(node: LocalNode) -> int | None:
    """The process that listens on the node's socket, as the kernel says."""
    with socket.socket(socket.AF_UNIX) as link:
        try:
            link.connect(str(node.socket))
        except OSError:
            return None
        peer = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(peer[:4], sys.byteorder)


def _answers(node: LocalNode) -> bool:
    if not node.socket.exists():
        return False
    transport = Transport(node.endpoint, sleep=lambda _: None)
    try:
        transport.fetch("GET", "/v1/health", max_bytes=64 * 1024, read_timeout_s=10.0)
    except GoblinError:
        return False
    finally:
        transport.close()
    return True


def _start(node: LocalNode, limits: LocalLimits) -> None:
    _private_directory(node.node_state)
    node.config.write_text(_config_text(node, _walls(node), limits), encoding="utf-8")
    deadline_s = time.monotonic() + TAKEN_S
    while True:
        try:
            _launch(node)
            return
        except ClientError as error:
            # A node that ends for lack of use may not have left yet.
            is_taken = "state_dir_taken" in str(error) and time.monotonic() < deadline_s
            if not is_taken:
                raise
        time.sleep(10 * POLL_S)


def _launch(node: LocalNode) -> None:
    launcher = subprocess.Popen(
        [
            sys.executable, "-I", "-m", "gpugoblin.client.launcher", str(node.log),
            *_node_command(node),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=node.state_dir,
        start_new_session=True,
    )  # fmt: skip
    try:
        _wait_until_ready(node, launcher)
    finally:
        launcher.communicate()  # closes its input: the node is on its own from here


def _node_command(node: LocalNode) -> list[str]:
    return [*_isolated("server_stub.node"), "serve", "--config", str(node.config)]


def _isolated(module: str) -> list[str]:
    return [sys.executable, "-I", "-m", module]


def _wait_until_ready(node: LocalNode, launcher: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s:
        if _answers(node):
            return
        if launcher.poll() is not None:
            status = (launcher.stdout.read() if launcher.stdout else b"").split()[-1:]
            shown = status[0].decode() if status else "unknown"
            raise _failed(node, f"it ended with status {shown}")
        time.sleep(POLL_S)
    raise _failed(node, f"it was not ready within {START_TIMEOUT_S:g} s")


def _failed(node: LocalNode, reason: str) -> ClientError:
    tail = ""
    with contextlib.suppress(OSError):
        tail = node.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip()
    last = " ".join(tail.splitlines()[-2:]) if tail else "its log is empty"
    return ClientError("local_start_failed", reason=f"{reason} ({last})", log=node.log)


def _walls(node: LocalNode) -> str:
    """`full` where the sandbox can be had, else `none`: a plain child for the user's own jobs."""
    try:
        probe = subprocess.run(
            [sys.executable, "-I", "-c", _PROBE, str(node.node_state)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=node.state_dir,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "none"
    if probe.returncode:
        node.log.write_bytes(probe.stderr)
    return "none" if probe.returncode else "full"


def _config_text(node: LocalNode, level: str, limits: LocalLimits) -> str:
    """TOML; JSON's quoting of a text is also TOML's."""
    settings = {
        "state_dir": str(node.node_state),
        "socket": str(node.socket),
        "engine_level": level,
        **limits.settings(),
    }
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())


def _private_directory(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = path.stat().st_uid
    if owner != os.getuid():
        raise ClientError(
            "local_unsupported", missing=f"a directory of your own at {path} (it has owner {owner})"
        )


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Held by one client at a time; the system lets go of it when a client dies."""
    fcntl = importlib.import_module("fcntl")  # not there on every system that runs the client
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
