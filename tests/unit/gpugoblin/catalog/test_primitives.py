from __future__ import annotations

import pytest

from gpugoblin.catalog.primitives import PRIMITIVES, collect, primitive
from gpugoblin.errors import GraphError


def test_primitives_do_not_decompose() -> None:
    assert all(operator.decompose is None for operator in PRIMITIVES.values())
    assert primitive("matmul") is PRIMITIVES["matmul@1"]


def test_composites_are_none() -> None:
    with pytest.raises(GraphError, match="unknown_operator"):
        primitive("softmax")


def test_nothing_is_there_twice() -> None:
    with pytest.raises(LookupError, match="declared twice"):
        collect([primitive("iota"), primitive("iota")])
