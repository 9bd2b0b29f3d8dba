from __future__ import annotations

import re
import struct

import pytest

from app.engine.backends.card.kernel import Kernel
from app.engine.backends.cuda.source import translated


def added(*, contract: bool = False) -> Kernel:
    kernel = Kernel(2, 64, contract=contract)
    index = kernel.flat_group() * 64 + kernel.local()
    with kernel.when(index < 100):
        value = kernel.load("float32", 0, index)
        kernel.store(1, index, value * value + 1.0)
    return kernel


def test_what_is_not_contracted_is_an_intrinsic() -> None:
    source = translated(added().words())
    assert (source.threads, source.parameters, source.contracts) == (64, 2, False)
    assert "__fmul_rn(" in source.text
    assert "__fadd_rn(" in source.text
    assert "__uint_as_float(0x3f800000u)" in source.text, "constants are bits"
    free = translated(added(contract=True).words())
    assert free.contracts
    assert "_rn(" not in free.text


def test_blocks_are_closed() -> None:
    kernel = Kernel(1)
    total = kernel.variable("int32", 0)
    with kernel.loop(0, 10) as outer:
        with kernel.loop(outer, 10), kernel.when(outer.same(3)):
            total.set(total.get() + 1)
        kernel.barrier()
    kernel.store(0, 0, total.get())
    text = translated(kernel.words()).text
    assert text.count("{") == text.count("}")
    assert text.count("for (;;) {") == 2
    assert text.index("__syncthreads();") > text.rindex("for (;;) {")


def test_signed_sums_wrap() -> None:
    kernel = Kernel(1)
    kernel.store(0, 0, kernel.load("int32", 0, 0) + 1)
    assert re.search(r"\(int\)\(\(unsigned\)v\d+ \+ \(unsigned\)", translated(kernel.words()).text)


def test_more_tensors_than_parameters_come_in_a_table() -> None:
    kernel = Kernel(20)
    kernel.store(19, 0, kernel.load("float32", 3, 0))
    assert translated(kernel.words()).parameters == 1


def test_words_of_another_language_are_refused() -> None:
    words = added().words()
    with pytest.raises(ValueError, match="no length"):
        translated(words[:20] + struct.pack("<I", 0))
    with pytest.raises(KeyError):
        translated(words[:20] + struct.pack("<I", 1 << 16 | 4000))
