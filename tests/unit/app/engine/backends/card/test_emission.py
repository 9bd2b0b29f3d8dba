from __future__ import annotations

from app.engine.backends.card.emission import Emission
from app.engine.backends.card.table import EMITTERS
from gpugoblin.catalog.spec import TensorSpec


def test_emitters_of_nothing_dispatch_nothing() -> None:
    assert Emission(()) == Emission((), 0, False)
    empty = TensorSpec("float32", (0, 3))
    for key, attributes in (
        ("flip@1", {"axes": (0,)}),
        ("cast@1", {"dtype": "float32"}),
        ("scan_reduce@1", {"axis": 0, "function": "sum", "reverse": False}),
    ):
        assert EMITTERS[key](attributes, [empty], [empty]).stages == ()
