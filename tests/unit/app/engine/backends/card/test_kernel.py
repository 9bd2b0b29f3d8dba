from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.engine.backends.card.kernel import Kernel
from app.engine.backends.vulkan.machine import Machine
from app.engine.backends.vulkan.recording import Commands
from gpugoblin.catalog.spec import Array
from tests.helpers.formulas import VALIDATOR, judge


def ran(machine: Machine, kernel: Kernel, *tensors: Array, groups: int = 1) -> list[Array]:
    """The tensors after one dispatch."""
    block = machine.hold(4096 * len(tensors))
    machine.upload(block, [(4096 * place, array) for place, array in enumerate(tensors)])
    key = machine.claim(kernel.words())
    commands = Commands(machine.device, machine.pipelines)
    addresses = [block.address(4096 * place) for place in range(len(tensors))]
    commands.dispatch(machine.pipeline(key), (groups, 1, 1), addresses)
    commands.barrier()
    commands.end()
    machine.finish(machine.queue.submit(commands))
    commands.close()
    machine.drop([key])
    found = [np.empty_like(array) for array in tensors]
    machine.download(block, [(4096 * place, array) for place, array in enumerate(found)])
    return found


def test_loops_conditions_and_variables(machine: Machine) -> None:
    kernel = Kernel(1, 32)
    me = kernel.local()
    total = kernel.variable("int32", 0)
    with kernel.loop(0, me + 1) as outer, kernel.loop(outer, 10, 3) as inner:
        odd = (inner % 2).same(1)
        with kernel.when(odd):
            total.set(total.get() + inner.as_("int32"))
    kernel.store(0, me, total.get())
    (found,) = ran(machine, kernel, np.zeros(32, np.int32))
    expected = [sum(i for o in range(t + 1) for i in range(o, 10, 3) if i % 2) for t in range(32)]
    assert found.tolist() == expected


def test_threads_of_a_group_share(machine: Machine) -> None:
    kernel = Kernel(2, 64)
    me, shared, flags = kernel.local(), kernel.shared("int64", 64), kernel.shared("bool", 64)
    shared.set(me, kernel.load("int64", 0, me))
    flags.set(me, kernel.load("int64", 0, me) > 5)
    kernel.barrier()
    other = kernel.number("uint32", 63) - me
    kernel.store(0, me, shared.get(other))
    kernel.store(1, me, flags.get(other))
    data = np.arange(64) - 2**40 * (np.arange(64) % 2)
    turned, large = ran(machine, kernel, data, np.zeros(64, np.bool_))
    assert turned.tolist() == data[::-1].tolist()
    assert large.tolist() == (data[::-1] > 5).tolist()


def test_vectors_of_four(machine: Machine) -> None:
    kernel = Kernel(2, 4)
    me = kernel.local()
    values = kernel.split(kernel.load_at("float32x4", kernel.place(0, me * 4, 4)))
    tile = kernel.shared("float32x4", 4)
    tile.set(me, kernel.join(values[::-1]))
    tile.set_part(me, kernel.number("uint32", 2), values[0] * 10)
    kernel.store_at(kernel.place(1, me * 4, 4), tile.get(me))
    data = np.arange(16, dtype=np.float32).reshape(4, 4)
    _, found = ran(machine, kernel, data, np.zeros((4, 4), np.float32))
    expected = data[:, ::-1].copy()
    expected[:, 2] = data[:, 0] * 10
    np.testing.assert_array_equal(found, expected)


def test_integers_of_other_widths(machine: Machine) -> None:
    kernel = Kernel(2, 3)
    value = kernel.load("int32", 0, kernel.local())
    kernel.store(1, kernel.local(), value.as_("int64"))
    given = np.array([-1, 7, -(2**31)], np.int32)
    _, found = ran(machine, kernel, given, np.zeros(3, np.int64))
    assert found.tolist() == given.tolist()


@pytest.mark.skipif(VALIDATOR is None, reason="spirv-val is not installed")
def test_table_of_addresses_is_valid(tmp_path: Path) -> None:
    kernel = Kernel(40, 8)
    for place in range(40):
        kernel.store(place, kernel.local(), kernel.load("float32", place, kernel.local()) + 1.0)
    assert judge(kernel.words(), tmp_path) == ""
