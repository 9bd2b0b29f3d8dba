from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.engine.backends.cpu.backend import CpuBackend
from app.engine.backends.cpu.control import cond, scan, while_loop
from app.engine.compile import compile_graph
from app.engine.context import Cancelled, Context
from app.engine.pool import Pool
from gpugoblin.catalog.program import Graph
from gpugoblin.catalog.prove import specs_of
from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import Array, Sample
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.numeric import agrees, error_bounds
from gpugoblin.graph.serialize import decode, encode
from tests.helpers.graphs import graphs, inputs_of

Evaluate = Callable[[Graph, Sequence[Array]], list[Array]]


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(2)
    yield made
    made.close()


def case(operator: str, name: str) -> tuple[Sample, list[Array], list[Array]]:
    sample = next(one for one in get(operator).samples if one.name == name)
    inputs = list(sample.inputs(np.random.default_rng(0)))
    attributes = {"reverse": False, "slices": 0, **sample.attributes}
    expected = list(get(operator).reference(inputs, attributes))
    return sample, inputs, expected


@pytest.mark.parametrize(
    ("operator", "name"),
    [("cond", "first"), ("scan", "recurrent"), ("scan", "reverse"), ("while_loop", "counted")],
)
def test_bodies_run_on_their_own_arena(pool: Pool, operator: str, name: str) -> None:
    sample, inputs, expected = case(operator, name)
    outputs = [np.empty_like(one) for one in expected]
    seen: list[float] = []
    kernel = {"cond": cond, "scan": scan, "while_loop": while_loop}[operator]
    attributes = {"reverse": False, "slices": 0, **sample.attributes}
    kernel(inputs, outputs, attributes, Context(pool, report=seen.append))
    for found, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert seen == []  # a body's steps are no progress of the task


def test_a_cancelled_loop_stops(pool: Pool) -> None:
    sample, inputs, expected = case("scan", "running")
    outputs = [np.empty_like(one) for one in expected]
    attributes = {"reverse": False, **sample.attributes}
    with pytest.raises(Cancelled):
        scan(inputs, outputs, attributes, Context(pool, wanted=lambda: False))


SAMPLES = [
    pytest.param(operator, sample, id=f"{operator}-{sample.name}")
    for operator in ("cond", "scan", "while_loop")
    for sample in get(operator).samples
]


@pytest.mark.parametrize(("operator", "sample"), SAMPLES)
def test_the_scratch_of_the_catalog_has_room_for_the_bodies(operator: str, sample: Sample) -> None:
    attributes = {"reverse": False, "slices": 0, **sample.attributes}
    if operator != "scan":
        attributes = dict(sample.attributes)
    declared = get(operator)
    specs = specs_of(sample.inputs(np.random.default_rng(0)))
    cost = declared.cost(specs, declared.infer(specs, attributes), attributes)
    bodies = [value for value in attributes.values() if isinstance(value, Graph)]
    programs = [compile_graph(body, CpuBackend()) for body in bodies]
    each = [program.private_bytes + 64 for program in programs]
    rooms = 2 * sum(spec.nbytes for spec in programs[0].output_specs)
    needed = max(each) if operator == "cond" else sum(each) + rooms
    assert cost.scratch_bytes >= needed


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_graph_may_be_a_body(
    data: st.DataObject, evaluate_with: Callable[[Pool], Evaluate], pool: Pool
) -> None:
    body = data.draw(graphs())
    arrays = [np.stack([array, array]) for array in data.draw(inputs_of(body))]
    builder = GraphBuilder()
    values = [builder.input(spec) for spec in specs_of(arrays)]
    graph = builder.build(
        builder.add_many("scan", values, body=body, carries=0, length=2, slices=len(values))
    )
    assert decode(encode(graph)) == graph
    exact, bounds = error_bounds(graph, arrays)
    for found, wanted, bound in zip(evaluate_with(pool)(graph, arrays), exact, bounds, strict=True):
        assert agrees(found, wanted, bound).all()
