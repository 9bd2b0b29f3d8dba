"""Every kernel, for every architecture, without a card."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from app.engine.backends.card.layout import lay_out, require_served
from app.engine.backends.cuda.compiler import ARCHITECTURES, compiled, options_for
from app.engine.backends.cuda.loader import compiler
from app.engine.backends.cuda.source import Source, translated
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.errors import EngineError
from gpugoblin.graph.ir import Graph
from tests.helpers.card_graphs import graph_of


def absent() -> str:
    try:
        compiler()
    except EngineError as cause:
        return str(cause)
    return ""


needs_compiler = pytest.mark.skipif(
    bool(absent()), reason="the package nvidia-cuda-nvrtc (extra cuda-compiler) is not installed"
)


def words_of(graph: Graph) -> list[bytes]:
    try:
        expanded = require_served(graph)
    except EngineError:
        return []
    steps = lay_out(expanded, lambda node, specs: None).steps
    return [stage.words for step in steps for stage, _ in step.stages]


@cache
def kernels() -> dict[str, Source]:
    """One kernel or two of every operator, and one of every function on every dtype."""
    found: dict[str, Source] = {}
    random = np.random.default_rng(20261130)
    for operator in OPERATORS.values():
        sample = operator.samples[0]
        graph = graph_of(operator.name, sample.inputs(random), **sample.attributes)
        for number, words in enumerate(words_of(graph)):
            found[f"{operator.name}-{number}"] = translated(words)
    for name, function in SCALARS.items():
        for dtype in function.accepts:
            kinds = ["bool", dtype, dtype] if name == "where" else [dtype] * function.arity
            if any(kind in ("float16", "bfloat16") for kind in kinds):
                continue
            arrays = [np.zeros(6, kind) for kind in kinds]
            for words in words_of(graph_of("formula", arrays, tree=call_formula(name))):
                found[f"{name}-{dtype}"] = translated(words)
    return found


@needs_compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_some_kernels_compile(architecture: int) -> None:
    for name in ("reduce-0", "erf-float32", "fmod-float32"):
        assert compiled(kernels()[name], architecture)[:4] == b"\x7fELF"


@needs_compiler
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_kernel_compiles(architecture: int) -> None:
    assert len(kernels()) > 150
    for name, source in kernels().items():
        assert compiled(source, architecture)[:4] == b"\x7fELF", name


@needs_compiler
def test_what_the_compiler_says_is_told() -> None:
    with pytest.raises(EngineError, match="nonsense"):
        compiled(Source("__global__ void main_() { nonsense; }", 32, 0, True), 90)


def test_contraction_is_asked_for_by_the_kernel_alone() -> None:
    assert "--fmad=false" in options_for(Source("", 32, 0, False), 75)
    assert "--fmad=true" in options_for(Source("", 32, 0, True), 75)
    assert "--gpu-architecture=sm_75" in options_for(Source("", 32, 0, True), 75)
