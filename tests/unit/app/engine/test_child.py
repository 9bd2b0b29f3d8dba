"""The process itself: its arguments, its modules, its end."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.engine.protocol import Cancel, Done, Frame, Ping, Place, Pong, Ready, Run, overhead_bytes
from app.host.arena import Arena
from app.host.channel import Channel
from app.sandbox.plain import PlainProcess, installed_runtime, launch_plain
from app.sandbox.spec import EngineLaunch, Runtime
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.serialize import encode

CHILD = Path(__file__).parents[4] / "app" / "engine" / "child.py"

REPORTER = f"""
import json, os, runpy, sys
leave = os._exit
def report(status):
    sys.stderr.write(json.dumps([status, sorted(sys.modules)]))
    sys.stderr.flush()
    leave(status)
os._exit = report
runpy.run_path({str(CHILD)!r}, run_name="__main__")
"""


class Rig:
    """An engine's channel and arenas, held by hand."""

    def __init__(self, runtime: Runtime) -> None:
        self.channel = Channel()
        self.inputs, self.outputs = Arena.pair(4096, 4096)
        self.process: PlainProcess = launch_plain(
            EngineLaunch(
                runtime=runtime,
                control_fd=self.channel.engine_fd,
                input_fd=self.inputs.fd,
                output_fd=self.outputs.fd,
                input_bytes=4096,
                output_bytes=4096,
                threads=2,
                memory_bytes=overhead_bytes(2) + (1 << 20),
                level="none",
            )
        )
        self.channel.forget_engine_end()

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()
        self.process.kill()
        while self.process.wait(1.0) is None:
            continue
        self.inputs.close()
        self.outputs.close()

    def hear(self) -> Frame:
        while True:
            frame = self.channel.receive()
            if frame is not None:
                return frame
            select.select([self.channel], [], [], 20.0)


def reporting_runtime(tmp_path: Path) -> Runtime:
    child = tmp_path / "app" / "engine" / "child.py"
    child.parent.mkdir(parents=True)
    child.write_text(REPORTER)
    return replace(installed_runtime(), app=tmp_path)


def test_no_module_of_a_working_engine_can_reach_out(tmp_path: Path) -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (8, 8)))
    value = builder.add("formula", [x], tree=call_formula("exp"))
    value = builder.add("matmul", [value, x])
    best, places = builder.add_many("topk", [value], axis=1, k=2)
    picked = builder.add("gather", [value, places], axis=1)
    graph = builder.build([best, builder.add("reduce", [picked], axes=(0,), function="sum")])
    with Rig(reporting_runtime(tmp_path)) as rig:
        assert isinstance(rig.hear().message, Ready)
        rig.channel.send(
            Run(
                "float32",
                (Place(0, 256),),
                (Place(0, 64), Place(1024, graph.output_specs()[1].nbytes)),
                encode(graph),
            ),
            1,
        )
        assert isinstance(rig.hear().message, Done)
        rig.channel.send(Ping(4))
        assert rig.hear().message == Pong(4)
        rig.channel.close()
        assert rig.process.wait(20.0) == 0
        status, modules = json.loads(rig.process.stderr_tail())
    assert status == 0
    assert "app.engine.session" in modules
    forbidden = {"socket", "_socket", "ssl", "_ssl", "_hashlib", "requests", "PySide6", "secrets"}
    forbidden |= {"subprocess", "asyncio", "multiprocessing", "http", "app.host", "app.agent"}
    forbidden |= {"gpugoblin.wire", "gpugoblin.blobs", "gpugoblin.client"}
    assert forbidden.isdisjoint({name for name in modules if name != "typing_extensions"})


def test_a_parent_that_breaks_the_protocol_is_left() -> None:
    with Rig(installed_runtime()) as rig:
        assert isinstance(rig.hear().message, Ready)
        rig.channel.send(Ready("b", "d", "cpu", "0" * 64, "0" * 64, 1, {}))
        assert rig.process.wait(20.0) == 76
        assert "broke the protocol" in rig.process.stderr_tail()


def test_a_cancel_for_no_task_is_nothing() -> None:
    with Rig(installed_runtime()) as rig:
        assert isinstance(rig.hear().message, Ready)
        rig.channel.send(Cancel(), 9)
        rig.channel.send(Ping(1))
        assert rig.hear().message == Pong(1)


def test_the_engine_ends_with_its_parent(tmp_path: Path) -> None:
    """A parent that is killed leaves no engine behind."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import sys, time\n"
        f"sys.path.insert(0, {str(CHILD.parents[2])!r})\n"
        "from app.host.engine import Engine\n"
        "from app.host.spec import HostSpec\n"
        "from app.sandbox.plain import installed_runtime\n"
        "engine = Engine.start(HostSpec(installed_runtime(), 4096, 4096, level='none'))\n"
        "engine.wait_ready()\n"
        "print(engine._process.engine_pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        watch = os.pidfd_open(pid)
        parent.kill()
    try:
        ended, _, _ = select.select([watch], [], [], 20.0)
        assert ended == [watch]
    finally:
        os.close(watch)


@pytest.mark.parametrize("arguments", [[], ["x"] * 8, ["1"] * 7])
def test_wrong_arguments(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", str(CHILD), *arguments],
        capture_output=True,
        check=False,
        env={},
    )
    assert done.returncode == 64
    assert done.stderr.startswith(b"child.py")
