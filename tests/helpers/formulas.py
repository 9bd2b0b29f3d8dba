"""Random formula trees, and the judge of the modules made from them.

Owns: trees over every scalar function, with casts and constants of every dtype; `spirv-val`.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np

from app.engine.backends.card.functions import FUNCTIONS
from app.engine.backends.card.spirv import Module
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import Array

__all__ = ["VALIDATOR", "judge", "knows", "random_inputs", "random_tree"]

VALIDATOR = shutil.which("spirv-val")
KINDS = frozenset({"float32", "int32", "int64", "bool"})
DTYPES = sorted(KINDS)


def random_inputs(random: np.random.Generator) -> list[Array]:
    """One to four arrays that broadcast, of any dtype, with edges among the numbers."""
    shapes = [(3, 1, 4), (5, 1), (4,), (3, 5, 4), (), (1,)]
    found = []
    for _ in range(random.integers(1, 5)):
        shape = shapes[random.integers(len(shapes))]
        dtype = DTYPES[random.integers(len(DTYPES))]
        data = random.standard_normal(shape) * 10.0 ** random.integers(-3, 4)
        found.append(np.asarray(data).astype(dtype))
    return found


def random_tree(random: np.random.Generator, inputs: list[Array], steps: int) -> Formula:
    """A tree over the inputs in which every node is used."""
    build = FormulaBuilder()
    known = {dtype: list[int]() for dtype in DTYPES}
    unused: list[tuple[int, str]] = []

    def keep(node: int, dtype: str) -> None:
        known[dtype].append(node)
        unused.append((node, dtype))

    for number, array in enumerate(inputs):
        keep(build.input(number), array.dtype.name)
    for dtype in DTYPES:
        known[dtype].append(build.const(dtype, float(random.integers(0, 2))))
        unused.append((known[dtype][-1], dtype))
    names = sorted(FUNCTIONS)
    for _ in range(steps):
        name = names[random.integers(len(names))]
        accepts = [dtype for dtype in SCALARS[name].accepts if dtype in KINDS]
        dtype = accepts[random.integers(len(accepts))]
        kinds = ["bool", dtype, dtype] if name == "where" else [dtype] * SCALARS[name].arity
        operands = [known[kind][random.integers(len(known[kind]))] for kind in kinds]
        rule = SCALARS[name].dtype_rule(kinds)
        if rule is not None and rule in KINDS:
            keep(build.call(name, *operands), rule)
    total = build.const("float32", 1.5)
    for node, dtype in unused:
        same = node if dtype == "float32" else build.cast(node, "float32")
        total = build.call("max", total, same)
    return build.build(total)


def judge(words: bytes, folder: Path) -> str:
    """What spirv-val says against a module; empty where it is valid."""
    file = folder / "module.spv"
    file.write_bytes(words)
    done = subprocess.run(
        [VALIDATOR or "spirv-val", "--target-env", "vulkan1.2", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else (done.stdout + done.stderr or "refused")


def knows(folder: Path, form: str) -> bool:
    """Whether spirv-val is there and new enough for matrices of a form (the oldest that is tested
    with, of Debian 12, knows none)."""
    module = Module()
    module.matrix(form, 3, 16, 16, 0)
    return VALIDATOR is not None and judge(module.words((32, 1, 1)), folder) == ""
