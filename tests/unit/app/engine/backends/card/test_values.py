from __future__ import annotations

from app.engine.backends.card.kernel import Kernel


def test_numbers_take_the_kind_of_the_other_side() -> None:
    kernel = Kernel(0)
    x = kernel.number("float32", 1.5)
    assert (x + 2).kind == "float32"
    assert (x < 2).kind == "bool"
    assert kernel.number("int64", -1).as_("uint32").known == -1
    assert x.bits("uint32").kind == "uint32"
    assert x.bits("float32") is x


def test_places_are_folded_where_nothing_is_to_do() -> None:
    kernel = Kernel(0)
    index = kernel.local()
    assert (index * 1) is index
    assert (index // 1) is index
    assert (index + 0) is index
    assert (index * 0).known == 0
    assert (index % 1).known == 0
