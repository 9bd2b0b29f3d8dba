"""Every operator and its gradient, planned into half the memory that it needs: where the planner
cuts it, the tiles computed one by one make the whole."""

from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.prove import specs_of
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.catalog.spec import Operator
from gpugoblin.errors import PlanError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.memory import bound
from gpugoblin.plan.planner import plan
from gpugoblin.plan.spec import Limits
from tests.helpers.plans import require_equal, run_plan

REFUSED = {"plan_not_splittable", "plan_does_not_fit"}


def with_gradient(graph: Graph) -> Graph | None:
    wrt = [place for place, spec in enumerate(graph.inputs) if spec.dtype == "float32"]
    of = [place for place, spec in enumerate(graph.output_specs()) if spec.dtype == "float32"]
    return gradient(graph, wrt, of=of, seeded=True) if wrt and of else None


@pytest.mark.slow
@pytest.mark.parametrize("operator", OPERATORS.values(), ids=lambda operator: operator.key)
def test_tiles_make_the_whole(operator: Operator) -> None:
    generator = np.random.default_rng(1)
    for sample in operator.samples:
        inputs = list(sample.inputs(generator))
        builder = GraphBuilder()
        values = [builder.input(spec) for spec in specs_of(inputs)]
        graph = builder.build(builder.add_many(operator.name, values, **dict(sample.attributes)))
        graphs = [graph]
        if operator.grad is not None or operator.decompose is not None:
            joint = with_gradient(graph)
            graphs += [] if joint is None else [joint]
        for one in graphs:
            seeds = [
                generator.standard_normal(spec.shape).astype(np.float32)
                for spec in one.inputs[len(inputs) :]
            ]
            least = max(64, bound(one) // 2)
            try:
                made = plan(one, Limits(memory_bytes=least, slot_bytes=least))
            except PlanError as refusal:
                if refusal.code not in REFUSED:
                    raise
                continue
            require_equal(one, [*inputs, *seeds], run_plan(made, [*inputs, *seeds]))
