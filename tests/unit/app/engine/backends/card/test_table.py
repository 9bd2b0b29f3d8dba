from __future__ import annotations

import pytest

from app.engine.backends.card.table import EMITTERS, require_known
from gpugoblin.errors import EngineError

PROMISED = {
    *("broadcast@1", "cast@1", "concat@1", "conv@1", "flip@1", "fold@1", "gather@1", "iota@1"),
    *("matmul@1", "pad@1", "permute@1", "pool@1", "random@1", "reduce@1", "reduce_arg@1"),
    *("scan_reduce@1", "scatter@1", "searchsorted@1", "slice@1", "topk@1", "update_slice@1"),
    "window@1",
}


def test_what_is_promised_has_a_kernel() -> None:
    assert set(EMITTERS) >= PROMISED
    require_known(EMITTERS)


def test_unknown_operator_is_found() -> None:
    with pytest.raises(EngineError, match="nonsense@1"):
        require_known({**EMITTERS, "nonsense@1": EMITTERS["iota@1"]})
