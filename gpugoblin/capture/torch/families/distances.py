"""Distances between rows. Owns: those ATen operators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpugoblin.capture.torch.context import Context
from gpugoblin.capture.torch.families.indexing import index_select
from gpugoblin.capture.torch.families.movement import unsqueeze
from gpugoblin.capture.torch.families.reductions import vector_norm
from gpugoblin.capture.torch.registry import aten
from gpugoblin.capture.torch.values import Value

__all__: list[str] = []


@aten("_cdist_forward")
def cdist(c: Context, x: Value, y: Value, p: float = 2.0, mode: Any = None) -> Value:
    """Every row of `x` [..., m, d] against every row of `y` [..., n, d]: [..., m, n]."""
    left, right = c.together(x, y)
    columns = unsqueeze(c, left, len(c.shape(left)) - 1)
    rows = unsqueeze(c, right, len(c.shape(right)) - 2)
    return vector_norm(c, c.call("sub", columns, rows), _order(p), (-1,))


@aten("_pdist_forward")
def pdist(c: Context, x: Value, p: float = 2.0) -> Value:
    """Every row against those after it, in order: [n (n - 1) / 2]."""
    first, second = np.triu_indices(c.shape(x)[0], 1)
    one, other = (index_select(c, x, 0, c.constant(part)) for part in (first, second))
    return vector_norm(c, c.call("sub", one, other), _order(p), (1,))


def _order(p: float) -> float:
    return p if math.isinf(p) or p != int(p) else int(p)
