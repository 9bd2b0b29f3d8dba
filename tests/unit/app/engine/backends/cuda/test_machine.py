from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.card.kernel import Kernel
from app.engine.backends.cuda.machine import IDLE_KEPT, Event, Machine
from gpugoblin.errors import EngineError
from tests.helpers.fake_cuda import FakeBlas, FakeCuda

Cuda = tuple[Machine, FakeCuda, FakeBlas]


def test_tensors_larger_than_the_staging_memory(cuda: Cuda) -> None:
    machine, _, _ = cuda
    block = machine.hold(48 << 20)
    data = np.random.default_rng(17).integers(0, 256, 40 << 20).astype(np.uint8)
    small = np.arange(5, dtype=np.int64)
    machine.upload(block, [(0, small), (256, data)])
    back, little = np.empty_like(data), np.empty_like(small)
    machine.download(block, [(256, back), (0, little)])
    assert back.tobytes() == data.tobytes()
    assert little.tolist() == small.tolist()


def test_block_is_kept_while_it_is_large_enough(cuda: Cuda) -> None:
    machine, card, _ = cuda
    first = machine.hold(1 << 20)
    assert machine.hold(1 << 10) == first
    free = card.free_bytes
    machine.hold(2 << 20)
    assert card.free_bytes == free - (1 << 20), "the old one is gone"
    with pytest.raises(MemoryError):
        machine.hold(1 << 40)


def test_kernels_live_while_they_are_claimed(cuda: Cuda) -> None:
    machine, _, _ = cuda
    words = [Kernel(0, threads).words() for threads in range(1, IDLE_KEPT + 9)]
    keys = [machine.claim(one) for one in words]
    assert machine.claim(words[0]) == keys[0]
    kept = machine.kernel(keys[0])
    machine.drop(keys)
    assert machine.kernel(keys[0]) is kept
    with pytest.raises(KeyError):
        machine.kernel(keys[1])


def test_lost_card_is_found_while_waiting(cuda: Cuda) -> None:
    machine, card, _ = cuda
    event = Event(machine.device)
    event.wait()
    card.failing["cuEventQuery"] = 719
    with pytest.raises(EngineError) as raised:
        event.wait()
    assert raised.value.code == "card_lost"
    card.failing.clear()
    event.close()
