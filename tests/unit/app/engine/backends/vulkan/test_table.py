from __future__ import annotations

import pytest

from app.engine.backends.vulkan.table import EMITTERS, require_known
from gpugoblin.catalog.primitives import PRIMITIVES
from gpugoblin.errors import EngineError

ABSENT = {
    *("cholesky@1", "eigh@1", "fft@1", "lu@1", "qr@1", "solve@1", "svd@1"),
    "triangular_solve@1",
}
"""Primitives that this backend does not serve yet: their tasks are refused before they begin."""


def test_every_other_primitive_has_a_kernel() -> None:
    served = set(EMITTERS) | {"formula@1", "reshape@1"}
    assert set(PRIMITIVES) - served <= ABSENT
    assert not ABSENT & served


def test_unknown_operator_is_found() -> None:
    with pytest.raises(EngineError, match="nonsense@1"):
        require_known({**EMITTERS, "nonsense@1": EMITTERS["iota@1"]})
