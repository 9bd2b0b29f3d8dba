"""The node tests of the package `onnx`: which of them are imported and give its numbers.

    python benchmarks/onnx_nodes.py

A test counts when all of its operators have a handler that does not always refuse, and all of its
tensors a dtype that is computed here. What is not equal is kept by its reason in
`benchmarks/onnx_nodes.json`, from which docs/researcher/onnx-tests.md is made. Needs the
extra `onnx`.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

import gpugoblin as gg
from benchmarks.record import ROOT, Row, not_run, row
from gpugoblin.capture.lower import lower
from gpugoblin.capture.onnx.registry import HANDLERS, UNSAID
from gpugoblin.capture.source import MemorySource
from gpugoblin.catalog.spec import DTYPES
from gpugoblin.errors import GoblinError
from gpugoblin.graph.interpret import interpret

COMPUTED = set(DTYPES) - {"float16", "bfloat16"}
"""Halves are stored and sent, and computed as float32: the model has to say so."""

WHAT = "ONNX node tests whose operators and dtypes can be said"


def compute(outputs: Any) -> tuple[np.ndarray[Any, Any], ...]:
    """The numbers of lazy arrays over numbers in memory."""
    arrays = outputs if isinstance(outputs, tuple) else (outputs,)
    made = lower([array.value for array in arrays])
    inputs = [np.asarray(s.array, order="C") for s in made.sources if isinstance(s, MemorySource)]
    return interpret(made.graph, inputs)


def fault(case: Any) -> str:
    """Why a test is not equal; empty where it is."""
    try:
        model = gg.from_onnx(case.model.SerializeToString())
        for inputs, outputs in case.data_sets:
            found = compute(model(*map(np.asarray, inputs)))
            for one, expected in zip(found, map(np.asarray, outputs), strict=False):
                if one.dtype != expected.dtype or one.shape != expected.shape:
                    return f"it gives {one.dtype}{one.shape}"
                relative, absolute = max(case.rtol, 1e-4), max(case.atol, 1e-5)
                if not np.allclose(one, expected, relative, absolute, equal_nan=True):
                    return "its numbers differ"
    except GoblinError as error:
        text = re.sub(r"^[^:]*:\d+( \".*\")?: ", "", error.what)
        return re.sub(r"^the node (\w+)( '[^']*')? cannot be said: ", "", text)
    except (TypeError, ValueError) as error:
        return f"its inputs are no arrays of numbers ({type(error).__name__})"
    return ""


def can_be_said(case: Any) -> bool:
    """Whether all operators and dtypes of a test are ours."""
    operators = {node.op_type for node in case.model.graph.node}
    tensors = [one for data in case.data_sets for part in data for one in part]
    dtypes = {str(getattr(one, "dtype", "none")) for one in tensors}
    return dtypes <= COMPUTED and operators <= set(HANDLERS) - UNSAID


def measure() -> list[Row]:
    try:
        from onnx.backend.test.case.node import collect_testcases
    except ImportError:
        return [not_run(WHAT, "%", ">= 85 %", "the package onnx is not installed")]
    warnings.simplefilter("ignore")
    cases = [case for case in collect_testcases(None) if case.model is not None]
    reasons: dict[str, list[str]] = defaultdict(list)
    said = equal = equal_of_said = 0
    for case in cases:
        reason = fault(case)
        ours = can_be_said(case)
        said, equal = said + ours, equal + (not reason)
        equal_of_said += ours and not reason
        if reason:
            reasons[reason].append(case.name)
    record = {"tests": len(cases), "equal": equal, "reasons": dict(sorted(reasons.items()))}
    (ROOT / "benchmarks" / "onnx_nodes.json").write_text(
        json.dumps(record, indent=1) + "\n", encoding="utf-8"
    )
    note = f"{equal_of_said} of {said}; {equal} of all {len(cases)}"
    return [row(WHAT, round(100 * equal_of_said / said, 1), "%", bar=85.0, note=note)]


if __name__ == "__main__":
    for one in measure():
        print(one)
