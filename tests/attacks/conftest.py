"""The ground of the attack suite: a runtime with the attacks in it, bait, and engines to attack.

Owns: what the attacks aim at. All of it is made here and removed afterward: a process, files,
listeners, a shared memory segment. Nothing else on the machine is a target.
"""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.host.arena import Arena
from app.sandbox.identity import Drop, drop_for
from app.sandbox.launch import Walls, launch
from app.sandbox.process import EngineProcess
from app.sandbox.runtime import stage_files
from app.sandbox.runtime_files import PYTHON, SourceFile
from app.sandbox.spec import NO_CARD, CardAccess, EngineLaunch, Level, Runtime
from gpugoblin.units import MIB
from tests.helpers.runtime_home import runtime_home

ENTRY = "attack_inside/entry.py"
MEMORY_BYTES = 512 * MIB
ARENA_BYTES = 16 * MIB


@dataclass(frozen=True)
class Answer:
    """The outcome of one attack, or the status with which the engine ended instead."""

    kind: str
    answer: str
    figure: int
    status: int | None


def who() -> Drop:
    """The user that engines run as here."""
    return drop_for(os.geteuid()) or Drop(os.geteuid(), os.getegid())


def as_engine_user() -> dict[str, Any]:
    """Arguments for Popen that make a child the engine's user."""
    if os.geteuid() != 0:
        return {}
    return {"user": who().uid, "group": who().gid, "extra_groups": []}


@pytest.fixture(scope="session")
def runtime() -> Runtime:
    """The engine's runtime with the attacks beside it."""
    here = Path(__file__).parent / "inside"
    extra = tuple(
        SourceFile(f"app/attack_inside/{path.name}", path) for path in sorted(here.glob("*.py"))
    )
    return stage_files(runtime_home() / "runtime", extra)


class _Segments:
    """A System V shared memory segment and a semaphore under one key, open to everybody."""

    def __init__(self) -> None:
        self.key = secrets.randbelow(2**31 - 1) + 1
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._memory = self._libc.shmget(self.key, 4096, 0o1666)
        self._semaphore = self._libc.semget(self.key, 1, 0o1666)

    def remove(self) -> None:
        self._libc.shmctl(self._memory, 0, None)
        self._libc.semctl(self._semaphore, 0, 0)


def _own_directory() -> Path:
    own = Path(tempfile.mkdtemp(prefix="gg-attack-own-"))
    (own / "doomed_directory").mkdir()
    for name in ("file", "doomed", "renamed"):
        (own / name).write_text("bait", encoding="ascii")
    if os.geteuid() == 0:
        for path in (own, *own.iterdir()):
            os.chown(path, who().uid, who().gid)
    return own


@pytest.fixture(scope="session")
def bait() -> Iterator[Mapping[str, Any]]:
    """Targets that belong to this test, reachable by the engine's user where no wall stands.

    Their names are of this run alone: others may attack on the same machine at the same time."""
    own = _own_directory()
    secret = Path(tempfile.mkdtemp(prefix="gg-attack-bait-"))
    secret.chmod(0o755)
    (secret / "secret").write_text("bait", encoding="ascii")
    (secret / "secret").chmod(0o644)
    shared_memory = Path("/dev/shm") / own.name
    segments = _Segments()
    # It waits for the end of its input: it lives as long as the suite, however long that takes.
    victim = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, env={}, **as_engine_user())
    abstract = own.name
    with (
        socket.create_server(("127.0.0.1", 0), backlog=64) as tcp,
        socket.socket(socket.AF_UNIX) as by_path,
        socket.socket(socket.AF_UNIX) as by_name,
    ):
        by_path.bind(str(secret / "socket"))
        (secret / "socket").chmod(0o666)
        by_path.listen(64)
        by_name.bind("\0" + abstract)
        by_name.listen(64)
        yield {
            "file": str(secret / "secret"),
            "own": str(own),
            "own_file": str(own / "file"),
            "pid": victim.pid,
            "tcp_port": tcp.getsockname()[1],
            "unix_path": str(secret / "socket"),
            "abstract_name": abstract,
            "shm_key": segments.key,
            "shm_file": str(shared_memory),
        }
    victim.kill()
    victim.communicate()
    segments.remove()
    shutil.rmtree(own)
    shutil.rmtree(secret)
    shared_memory.unlink(missing_ok=True)


class Subject:
    """One engine under attack: `attack` by name until it dies, then `close`."""

    def __init__(
        self,
        runtime: Runtime,
        bait: Mapping[str, Any],
        level: Level,
        numpy: bool = False,
        card: CardAccess = NO_CARD,
    ) -> None:
        self.inputs = Arena(ARENA_BYTES, "input")
        self.outputs = Arena(ARENA_BYTES, "output")
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel.settimeout(20)
        environment = {"ATTACK_NUMPY": "1"} if numpy else {}
        spec = EngineLaunch(
            runtime=runtime,
            control_fd=theirs.fileno(),
            input_fd=self.inputs.fd,
            output_fd=self.outputs.fd,
            input_bytes=ARENA_BYTES,
            output_bytes=ARENA_BYTES,
            threads=1,
            memory_bytes=MEMORY_BYTES,
            level=level,
            environment=environment,
            card=card,
        )
        root = "/runtime" if level == "full" else str(runtime.root)
        self._bait = {
            **bait,
            "runtime": root,
            "python": f"{root}/bin/{PYTHON}",
            "library": str(
                next((runtime.root / "lib" / PYTHON).glob("lib-dynload/_lsprof*.so"))
            ).replace(str(runtime.root), root),
        }
        self.process: EngineProcess | None = None
        self._plain: subprocess.Popen[bytes] | None = None
        with theirs:
            if level == "none":
                self._plain = _unwalled(spec)
            else:
                started = launch(spec, Walls(entry=ENTRY))
                assert isinstance(started, EngineProcess)
                self.process = started
        self.report = self._receive()

    def _receive(self) -> dict[str, Any] | None:
        """The next JSON object; attacks may have sent other things before it. None: it died."""
        while data := self.channel.recv(65536):
            try:
                message = json.loads(data)
            except ValueError:
                continue
            if isinstance(message, dict) and message.get("kind") != "hundred":
                return message
        return None

    def attack(self, name: str) -> Answer:
        self.channel.sendall(json.dumps({"attack": name, "bait": self._bait}).encode())
        message = self._receive()
        if message is not None:
            return Answer(message["kind"], message["answer"], message["figure"], None)
        assert self.process is not None
        return Answer("ended", "", 0, self.process.wait(10))

    def last_words(self) -> str:
        return "" if self.process is None else self.process.stderr_tail()

    def close(self) -> None:
        if self.process is not None:
            self.process.end()
        if self._plain is not None:
            self._plain.kill()
            self._plain.wait()
        self.channel.close()
        self.inputs.close()
        self.outputs.close()

    def __enter__(self) -> Subject:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _unwalled(spec: EngineLaunch) -> subprocess.Popen[bytes]:
    """The same program as the same user, with no wall at all."""
    words = [str(spec.runtime.python), "-I", "-S", "-B", str(spec.runtime.app / ENTRY)]
    numbers = (spec.control_fd, spec.input_fd, spec.input_bytes, spec.output_fd)
    return subprocess.Popen(
        [*words, *map(str, numbers)],
        env={"LD_LIBRARY_PATH": str(spec.runtime.root / "lib")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(spec.control_fd, spec.input_fd, spec.output_fd),
        **as_engine_user(),
    )
