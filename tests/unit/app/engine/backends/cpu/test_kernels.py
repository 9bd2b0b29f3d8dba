"""The table and the catalog name the same operators."""

from __future__ import annotations

import pytest

from app.engine.backends.cpu.kernels import CHAINED, KERNELS, VIEWS, require_complete
from gpugoblin.catalog.primitives import PRIMITIVES
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.errors import EngineError


def test_every_primitive_has_a_kernel() -> None:
    assert set(PRIMITIVES) <= set(KERNELS) | CHAINED <= set(OPERATORS)
    assert set(VIEWS) <= set(KERNELS)


def test_a_missing_and_an_unknown_kernel_are_named() -> None:
    wrong = {key: kernel for key, kernel in KERNELS.items() if key != "matmul@1"}
    wrong["conjure@1"] = KERNELS["matmul@1"]
    with pytest.raises(EngineError) as caught:
        require_complete(wrong)
    assert caught.value.fields["missing"] == "matmul@1"
    assert caught.value.fields["unknown"] == "conjure@1"
