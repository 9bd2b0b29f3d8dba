"""The node tests of the package `onnx`, operator by operator.

Loading one module of theirs makes its cases, so only what is asked for is made.
"""

from __future__ import annotations

import pkgutil
import warnings
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np

import gpugoblin as gg
from gpugoblin.capture.lower import lower
from gpugoblin.capture.source import MemorySource
from gpugoblin.catalog.spec import DTYPES
from gpugoblin.graph.interpret import interpret

__all__ = ["check_cases", "numbers"]

COMPUTED = set(DTYPES) - {"float16", "bfloat16"}
"""Halves are stored and sent, and computed as float32: the model has to say so."""

MOST_CASES = 4
MOST_ELEMENTS = 20_000
"""Of one operator; `scripts/bench catalog onnx_nodes` runs all."""


def check_cases(operators: Iterable[str], unlike: Iterable[str] = ()) -> int:
    """Runs the cases of some operators whose dtypes are computed here, but for the names that hold
    one of `unlike`; returns how many ran."""
    package = import_module("onnx.backend.test.case.node")
    modules = {name.replace("_", ""): name for _, name, _ in pkgutil.iter_modules(package.__path__)}
    ran = 0
    for operator in operators:
        name = modules.get(operator.lower())
        if name is None:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import_module(f"{package.__name__}.{name}")
        found = [case for case in package._NodeTestCases if _about(case, operator)]
        usable = [c for c in found if not any(word in c.name for word in unlike)]
        for case in usable[:MOST_CASES]:
            _check(case)
            ran += 1
    return ran


def numbers(outputs: Any) -> tuple[np.ndarray[Any, Any], ...]:
    """The numbers of lazy arrays over numbers in memory."""
    arrays = outputs if isinstance(outputs, tuple) else (outputs,)
    made = lower([array.value for array in arrays])
    inputs = [np.asarray(s.array, order="C") for s in made.sources if isinstance(s, MemorySource)]
    return interpret(made.graph, inputs)


def _about(case: Any, operator: str) -> bool:
    nodes = case.model.graph.node
    tensors = [one for data in case.data_sets for part in data for one in part]
    dtypes = {str(getattr(one, "dtype", "none")) for one in tensors}
    if sum(np.size(one) for one in tensors) > MOST_ELEMENTS:
        return False
    return len(nodes) == 1 and nodes[0].op_type == operator and dtypes <= COMPUTED


def _check(case: Any) -> None:
    model = gg.from_onnx(case.model.SerializeToString())
    for inputs, outputs in case.data_sets:
        found = numbers(model(*map(np.asarray, inputs)))
        for one, expected in zip(found, map(np.asarray, outputs), strict=False):
            assert (one.dtype, one.shape) == (expected.dtype, expected.shape), case.name
            np.testing.assert_allclose(
                one, expected, max(case.rtol, 1e-4), max(case.atol, 1e-5), err_msg=case.name
            )
