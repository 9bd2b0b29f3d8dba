from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.card.kernel import Kernel
from app.engine.backends.cuda.machine import Machine
from app.engine.backends.cuda.recording import Commands
from gpugoblin.errors import EngineError
from tests.helpers.fake_cuda import FakeBlas, FakeCuda

Cuda = tuple[Machine, FakeCuda, FakeBlas]


def test_what_is_captured_runs_at_each_launch(cuda: Cuda) -> None:
    machine, card, _ = cuda
    block = machine.hold(1024)
    kernel = machine.kernel(machine.claim(Kernel(2, 96).words()))
    commands = Commands(machine)
    commands.fill(block, 16, 7)
    commands.copy(block, block + 512, 16)
    commands.dispatch(kernel, (3, 2, 1), [block, block + 8])
    commands.end()
    assert card.launches == []
    for _ in range(2):
        commands.launch()
    assert card.launches == [((3, 2, 1), 96, [block, block + 8])] * 2
    found = np.zeros(4, np.int32)
    machine.download(block, [(512, found)])
    assert found.tolist() == [7, 7, 7, 7]
    commands.close()


def test_failed_capture_is_abandoned(cuda: Cuda) -> None:
    machine, card, _ = cuda
    commands = Commands(machine)
    card.failing["cuMemsetD32Async"] = 1
    with pytest.raises(EngineError):
        commands.fill(machine.hold(64), 16)
    commands.abandon()
    assert card.capture is None


def test_nothing_is_not_launched(cuda: Cuda) -> None:
    machine, card, _ = cuda
    commands = Commands(machine)
    commands.fill(0, 0)
    commands.copy(0, 0, 0)
    commands.end()
    card.failing["cuGraphLaunch"] = 1
    commands.launch()
    commands.close()
