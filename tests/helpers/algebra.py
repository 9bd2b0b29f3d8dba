"""Programs of linear algebra, planned and run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.plan.algebra import plan_algebra
from gpugoblin.plan.listed import ListedPlan
from gpugoblin.plan.spec import Limits
from tests.helpers.plans import require_rules, run_plan

__all__ = ["computed", "definite", "program"]


def program(
    shapes: Sequence[tuple[int, ...]], write: Callable[[GraphBuilder, list[int]], Sequence[int]]
) -> Graph:
    """A graph of float32 inputs."""
    build = GraphBuilder()
    inputs = [build.input(TensorSpec("float32", shape)) for shape in shapes]
    return build.build(list(write(build, inputs)))


def computed(graph: Graph, arrays: Sequence[Array], limit: int) -> tuple[ListedPlan, list[Array]]:
    """The plan, which keeps the rules, and its results."""
    plan = plan_algebra(graph, Limits(limit))
    assert plan is not None
    require_rules(plan, Limits(limit))
    return plan, run_plan(plan, arrays)


def definite(extent: int, seed: int = 0) -> Array:
    """A symmetric positive definite matrix."""
    random = np.random.default_rng(seed).standard_normal((extent, extent))
    return (random @ random.T / extent + np.eye(extent)).astype(np.float32)
