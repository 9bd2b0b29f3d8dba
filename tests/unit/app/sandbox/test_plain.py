"""The plain child: what it is given, and what it is not."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from app.host.arena import Arena
from app.host.channel import Channel
from app.sandbox.plain import engine_arguments, installed_runtime, launch_plain
from app.sandbox.spec import EngineLaunch, Runtime
from gpugoblin.errors import EngineError
from gpugoblin.units import MIB

REPORTER = """
import json, os, resource, sys
files = {name: os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")
         if os.path.exists(f"/proc/self/fd/{name}")}
sys.stderr.write(json.dumps({"env": dict(os.environ), "argv": sys.argv[1:], "files": files,
    "data": resource.getrlimit(resource.RLIMIT_DATA), "isolated": sys.flags.isolated,
    "site": sys.flags.no_site, "cwd": os.getcwd()}))
"""


def runtime_with(tmp_path: Path, script: str) -> Runtime:
    """A runtime whose engine is another script."""
    child = tmp_path / "app" / "engine" / "child.py"
    child.parent.mkdir(parents=True)
    child.write_text(script)
    return replace(installed_runtime(), app=tmp_path)


class Rig:
    """A channel, two arenas and the launch order for them."""

    def __init__(self, runtime: Runtime) -> None:
        self.channel = Channel()
        self.arenas = Arena.pair(4096, 8192)
        self.order = EngineLaunch(
            runtime=runtime,
            control_fd=self.channel.engine_fd,
            input_fd=self.arenas[0].fd,
            output_fd=self.arenas[1].fd,
            input_bytes=4096,
            output_bytes=8192,
            threads=2,
            memory_bytes=512 * MIB,
            level="none",
            environment={"EXTRA": "1"},
        )

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()
        for arena in self.arenas:
            arena.close()


def test_nothing_of_this_process_reaches_the_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    monkeypatch.setenv("SECRET_TOKEN", "canary")
    with Rig(runtime_with(tmp_path, REPORTER)) as rig, (tmp_path / "open").open("w") as other:
        os.set_inheritable(other.fileno(), True)
        process = launch_plain(rig.order)
        assert process.wait(20.0) == 0
        seen = json.loads(process.stderr_tail())
        kept = {rig.order.control_fd, rig.order.input_fd, rig.order.output_fd}
        expected = [4096, rig.order.output_fd, 8192, 2, 512 * MIB]
        assert seen["argv"][2:] == [*map(str, expected), "cpu"]
    assert "canary" not in json.dumps(seen)
    assert seen["env"]["OPENBLAS_NUM_THREADS"] == "1"
    assert seen["env"]["EXTRA"] == "1"
    assert "HOME" not in seen["env"]
    assert {int(name) for name in seen["files"]} <= {0, 1, 2} | kept
    assert seen["files"]["0"] == seen["files"]["1"] == "/dev/null"
    assert (seen["isolated"], seen["site"], seen["cwd"]) == (1, 1, "/")


def test_arguments_are_those_of_every_level() -> None:
    with Rig(installed_runtime()) as rig:
        arguments = engine_arguments(rig.order)
    assert arguments[1:4] == ["-I", "-S", "-B"]
    assert arguments[4].endswith("app/engine/child.py")
    assert len(arguments) == 13


def test_last_words_are_capped(tmp_path: Path) -> None:
    script = "import os\nfor _ in range(300): os.write(2, b'x' * 1000)\nos.write(2, b'end')\n"
    with Rig(runtime_with(tmp_path, script)) as rig:
        process = launch_plain(rig.order)
        assert process.wait(20.0) == 0
        words = process.stderr_tail()
    assert len(words) == 64 * 1024
    assert words.endswith("end")


def test_kill_and_wait(tmp_path: Path) -> None:
    with Rig(runtime_with(tmp_path, "import time\ntime.sleep(60)\n")) as rig:
        process = launch_plain(rig.order)
        assert process.wait(0.0) is None
        assert process.level == "none"
        process.attest()
        process.kill()
        assert process.wait(20.0) == -signal.SIGKILL
        assert process.wait(0.0) == -signal.SIGKILL
        process.kill()


def test_memory_is_limited(tmp_path: Path) -> None:
    script = "kept = bytearray(600 << 20)\n"
    with Rig(runtime_with(tmp_path, script)) as rig:
        process = launch_plain(rig.order)
        assert process.wait(20.0) == 1
        assert "MemoryError" in process.stderr_tail()


def test_an_interpreter_that_is_not_there() -> None:
    runtime = replace(installed_runtime(), python=Path("/nonexistent/python"))
    with Rig(runtime) as rig, pytest.raises(EngineError) as caught:
        launch_plain(rig.order)
    assert caught.value.code == "engine_start_failed"
