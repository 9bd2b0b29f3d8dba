from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.vulkan.machine import Machine
from gpugoblin.errors import EngineError


def test_tensors_larger_than_the_staging_memory(machine: Machine) -> None:
    block = machine.hold(48 << 20)
    data = np.random.default_rng(17).integers(0, 256, 40 << 20).astype(np.uint8)
    small = np.arange(5, dtype=np.int64)
    machine.upload(block, [(0, small), (256, data)])
    back, little = np.empty_like(data), np.empty_like(small)
    machine.download(block, [(256, back), (0, little)])
    assert back.tobytes() == data.tobytes()
    assert little.tolist() == small.tolist()


def test_block_is_kept_while_it_is_large_enough(machine: Machine) -> None:
    first = machine.hold(1 << 20)
    assert machine.hold(1 << 10) is first
    with pytest.raises(MemoryError):
        machine.hold(machine.device.budget_bytes() * 4)
    assert machine.hold(4096) is not first


def test_card_that_is_not_there() -> None:
    with pytest.raises(EngineError) as raised:
        Machine("00" * 16)
    assert raised.value.code == "card_missing"


def test_what_the_judge_says_is_an_error(machine: Machine) -> None:
    machine.instance.complaints.append("a wrong use")
    with pytest.raises(EngineError, match="a wrong use"):
        machine.require_no_complaint()
    machine.require_no_complaint()


def test_kernels_live_while_they_are_claimed(machine: Machine) -> None:
    from app.engine.backends.card.kernel import Kernel

    words = []
    for threads in range(1, 41):
        words.append(Kernel(0, threads).words())
    keys = [machine.claim(one) for one in words]
    assert machine.claim(words[0]) == keys[0]
    kept = machine.pipeline(keys[0])
    machine.drop(keys)
    assert machine.pipeline(keys[0]) is kept
    machine.drop(keys[:1])
    with pytest.raises(KeyError):
        machine.pipeline(keys[1])
