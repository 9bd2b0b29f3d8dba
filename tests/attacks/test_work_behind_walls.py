"""The work goes on behind the walls: every operator gives the very bits of an unwalled engine."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from app.host.engine import Engine
from app.host.spec import HostSpec
from app.sandbox.spec import Level, Runtime
from gpugoblin.catalog.prove import specs_of
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.errors import GoblinError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.units import MIB
from tests.helpers.engines import RealEngine


class _EngineAt(RealEngine):
    """An engine at a level, from a staged runtime."""

    def __init__(self, runtime: Runtime, level: Level) -> None:
        self.engine = Engine.start(
            HostSpec(
                runtime=runtime,
                input_bytes=64 * MIB,
                output_bytes=64 * MIB,
                threads=2,
                memory_bytes=64 * MIB,
                level=level,
            )
        )


@pytest.fixture(scope="module")
def plain(runtime: Runtime) -> Iterator[RealEngine]:
    with _EngineAt(runtime, "none") as engine:
        engine.engine.wait_ready()
        yield engine


@pytest.fixture(scope="module", params=["full", pytest.param("reduced", marks=pytest.mark.slow)])
def walled(runtime: Runtime, request: pytest.FixtureRequest) -> Iterator[RealEngine]:
    with _EngineAt(runtime, request.param) as engine:
        engine.engine.wait_ready()
        yield engine


def _bits(engine: RealEngine, operator: str, sample: int) -> list[bytes] | str:
    chosen = OPERATORS[operator].samples[sample]
    inputs = chosen.inputs(np.random.default_rng(7))
    builder = GraphBuilder()
    try:
        values = [builder.input(spec) for spec in specs_of(inputs)]
        outputs = builder.add_many(OPERATORS[operator].name, values, **dict(chosen.attributes))
        return [array.tobytes() for array in engine.run(builder.build(outputs), inputs)]
    except GoblinError as error:
        return error.code


def test_every_sample_of_every_operator(plain: RealEngine, walled: RealEngine) -> None:
    different: list[str] = []
    for key, operator in OPERATORS.items():
        for number, sample in enumerate(operator.samples):
            if _bits(walled, key, number) != _bits(plain, key, number):
                different.append(f"{key} {sample.name}")
    assert different == []


def test_a_large_product_on_two_threads(plain: RealEngine, walled: RealEngine) -> None:
    random = np.random.default_rng(5)
    left, right = (random.standard_normal((768, 768)).astype(np.float32) for _ in range(2))
    builder = GraphBuilder()
    values = [builder.input(spec) for spec in specs_of((left, right))]
    graph = builder.build((builder.add("matmul", values),))
    (result,) = walled.run(graph, (left, right))
    (same,) = plain.run(graph, (left, right))
    assert result.tobytes() == same.tobytes()
    assert np.allclose(result, left @ right, rtol=1e-3, atol=1e-3)


def test_what_travels_with_results_is_the_same(plain: RealEngine, walled: RealEngine) -> None:
    here, there = plain.engine.ready, walled.engine.ready
    assert here is not None
    assert there is not None
    for name in ("build", "driver", "backend", "catalog_hash", "kernel_set", "threads"):
        assert getattr(here, name) == getattr(there, name), name
    assert there.walls["self_test"] is True
