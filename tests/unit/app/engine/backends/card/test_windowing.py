from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.vulkan.machine import Machine
from tests.helpers.card_graphs import graph_of, require_right


def test_windows_laid_out_and_added_back(machine: Machine) -> None:
    data = np.random.default_rng(9).standard_normal((2, 7, 6)).astype(np.float32)
    given = {"stride": (2, 1), "dilation": (1, 2), "low": (1, -1)}
    laid = graph_of("window", [data], window=(2, 3), high=(2, 1), **given)
    (result,) = require_right(machine, laid, [data])
    require_right(machine, graph_of("fold", [result], space=(7, 6), **given), [result])


@pytest.mark.parametrize("dtype", ["bool", "int64"])
def test_other_dtypes_are_laid_out(machine: Machine, dtype: str) -> None:
    data = np.arange(9).astype(dtype)
    graph = graph_of("window", [data], window=(3,), stride=(2,), dilation=(1,), low=(2,), high=(1,))
    require_right(machine, graph, [data])
