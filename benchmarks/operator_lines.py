"""What an operator costs in lines: its declaration, and its kernel on the processor.

    python benchmarks/operator_lines.py

Counted are lines with code, without blank ones, comments and docstrings. A file that declares
several operators counts in equal parts for each, with its samples and its imports; a kernel is its
own function. Helpers that several files share (rules, samples, lowering) are not counted: a new
operator finds them there.
"""

from __future__ import annotations

import ast
import inspect
import statistics
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from app.engine.backends.cpu.backend import CpuBackend
from benchmarks.record import Row, row
from gpugoblin.catalog import composites, ops, registry

__all__ = ["code_lines", "measure", "of_operators"]

_BAR: Final = 60
_LARGEST: Final = 5


def code_lines(source: str) -> int:
    """Lines on which code stands."""
    tree = ast.parse(textwrap.dedent(source))
    told: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            told.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = textwrap.dedent(source).splitlines()
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in told
        for number, line in enumerate(lines, 1)
    )


def _families() -> Iterable[ModuleType]:
    """The files that declare operators."""
    for package in (ops, composites):
        for path in sorted(Path(str(package.__file__)).parent.glob("*.py")):
            module = sys.modules.get(f"{package.__name__}.{path.stem}")
            if module is not None and hasattr(module, "OPERATORS"):
                yield module


def of_operators() -> dict[str, int]:
    """Lines by operator."""
    kernels = CpuBackend().kernels
    found: dict[str, int] = {}
    for module in _families():
        declared = [one.key for one in module.OPERATORS]
        share = code_lines(inspect.getsource(module)) / len(declared)
        for key in declared:
            kernel = kernels.get(key)
            own = code_lines(inspect.getsource(kernel)) if inspect.isfunction(kernel) else 0
            found[key] = round(share + own)
    missing = set(registry.OPERATORS) - set(found)
    if missing:
        raise LookupError(f"no file declares {', '.join(sorted(missing))}")
    return dict(sorted(found.items(), key=lambda one: one[1]))


def measure() -> list[Row]:
    found = of_operators()
    counts = list(found.values())
    low, _, high = statistics.quantiles(counts, n=4)
    largest = ", ".join(f"{key} {count}" for key, count in list(found.items())[-_LARGEST:])
    return [
        row(
            "lines of an operator, declaration, samples and kernel on the processor, median",
            statistics.median(counts), "lines", bar=_BAR, better="lower",
            note=f"{len(counts)} operators; quartiles {low:.0f} and {high:.0f}; with at most "
            f"{_BAR} lines: {sum(count <= _BAR for count in counts)}; most: {largest}",
        )
    ]  # fmt: skip


if __name__ == "__main__":
    for one in measure():
        print(one)
