"""One program from several front ends: the same numbers, and mostly the same graph."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.capture.programs import program_hash
from tests.helpers.front_ends import PROGRAMS, Program
from tests.helpers.lazy import compute
from tests.helpers.torch_programs import torch_or_skip

EXTRAS = ["jax", "onnx", "torch"]
LEAST_EQUAL = 15
TYPES = {"float32": "float", "int32": "int32"}


def written_for(extra: str, program: Program) -> gg.Array:
    """The program through the importer of an extra."""
    arrays = [gg.array(one) for one in program.inputs]
    found: Any
    if extra == "jax":
        jax = import_module("jax")
        found = gg.from_jax(lambda *given: program.jax(jax, *given), *arrays)
    elif extra == "torch":
        torch = torch_or_skip()
        found = gg.function(lambda *given: program.torch(torch, *given))(*arrays)
    else:
        onnx = import_module("onnx")
        names = "abcdefg"[: len(arrays)]
        inputs = ", ".join(
            f"{TYPES[str(one.dtype)]}[{', '.join(map(str, one.shape))}] {name}"
            for one, name in zip(program.inputs, names, strict=True)
        )
        body = program.onnx
        text = (
            f'<ir_version: 11, opset_import: ["" : 23]>\ng ({inputs}) => (float[N] z) {{ {body} }}'
        )
        found = gg.from_onnx(onnx.parser.parse_model(text).SerializeToString())(*arrays)
    assert isinstance(found, gg.Array)
    return found


def written_here(program: Program) -> gg.Array:
    return program.array(*map(gg.array, program.inputs))


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_same_numbers(name: str, extra: str) -> None:
    if extra == "torch":
        torch_or_skip()
    pytest.importorskip(extra, reason=f"the extra {extra} is not installed")
    program = PROGRAMS[name]
    expected, found = compute(written_here(program)), compute(written_for(extra, program))
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_mostly_the_same_graph() -> None:
    installed = [extra for extra in EXTRAS if find_spec(extra) is not None]
    if not installed:
        pytest.skip("no extra is installed")
    different = []
    for name, program in PROGRAMS.items():
        arrays = [written_here(program), *(written_for(extra, program) for extra in installed)]
        if len({program_hash(gg.show(one).graph) for one in arrays}) > 1:
            different.append(name)
    assert len(PROGRAMS) == 20
    assert len(PROGRAMS) - len(different) >= LEAST_EQUAL, different
