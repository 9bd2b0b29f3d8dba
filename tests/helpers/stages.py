"""Running stage plans by the reference interpreter, and programs to split."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.plan.stages import Port, StagePlan
from tests.helpers.plans import run_plan

__all__ = ["arrays_for", "run_stages", "trainable", "transformer"]


def run_stages(
    plan: StagePlan, inputs: Sequence[Array]
) -> tuple[dict[int, Array], dict[int, Array]]:
    """One step as `stages.py` describes it: (outputs by number, gradients by parameter)."""
    values: dict[Port, Array] = {
        Port("input", number): array for number, array in enumerate(inputs)
    }
    for stage in plan.stages:
        if stage.forward_needed:
            found = run_plan(stage.forward_plan, [values[port] for port in stage.inputs])
            values.update(zip(stage.outputs, found, strict=True))
    gradients: dict[int, Array] = {}
    for stage in reversed(plan.stages):
        if stage.backward_plan is None:
            continue
        found = run_plan(stage.backward_plan, [values[port] for port in stage.backward_inputs])
        for port, array in zip(stage.backward_outputs, found, strict=True):
            if port.kind == "weight_gradient":
                known = gradients.get(port.number)
                gradients[port.number] = array if known is None else known + array
            else:
                values[port] = array
    outputs = {port.number: array for port, array in values.items() if port.kind == "output"}
    return outputs, gradients


def arrays_for(graph: Graph, seed: int = 0, most: int = 8) -> list[Array]:
    """Small random inputs: float32 numbers, and integers below `most`."""
    random = np.random.default_rng(seed)
    return [
        random.standard_normal(spec.shape).astype(np.float32) * np.float32(0.3)
        if spec.dtype == "float32"
        else random.integers(0, most, spec.shape).astype(spec.dtype)
        for spec in graph.inputs
    ]


def transformer(
    blocks: int, width: int, tokens: int, vocabulary: int, *, tied: bool = True
) -> tuple[Graph, tuple[int, ...]]:
    """(a small language model whose first output is its loss, the numbers of its parameters).

    Inputs: tokens and labels (int64), then the weights. The embedding is the head as well when it
    is `tied`.
    """
    build = GraphBuilder()
    ids = build.input(TensorSpec("int64", (tokens,)))
    labels = build.input(TensorSpec("int64", (tokens,)))
    parameters: list[int] = []

    def weight(*shape: int) -> int:
        parameters.append(2 + len(parameters))
        return build.input(TensorSpec("float32", shape))

    def call(name: str, *operands: int) -> int:
        return build.add("formula", operands, tree=call_formula(name))

    tiny = build.constant(np.array(1e-5, np.float32))
    scale = build.constant(np.array(width**-0.5, np.float32))
    table = weight(vocabulary, width)
    x = build.add("gather", [table, ids], axis=0)
    for _ in range(blocks):
        y = build.add("layer_norm", [x, tiny, weight(width), weight(width)], axes=(1,))
        q, k, v = (build.add("matmul", [y, weight(width, width)]) for _ in range(3))
        q, k, v = (build.add("reshape", [one], shape=(1, tokens, width)) for one in (q, k, v))
        mixed = build.add("attention", [q, k, v, scale], causal=True)
        mixed = build.add("reshape", [mixed], shape=(tokens, width))
        x = call("add", x, build.add("matmul", [mixed, weight(width, width)]))
        y = build.add("layer_norm", [x, tiny, weight(width), weight(width)], axes=(1,))
        y = build.add("gelu", [build.add("matmul", [y, weight(width, 4 * width)])])
        x = call("add", x, build.add("matmul", [y, weight(4 * width, width)]))
    head = table if tied else weight(vocabulary, width)
    logits = build.add("matmul", [x, head], transpose_b=True)
    losses = build.add("cross_entropy", [logits, labels], axis=1)
    loss = build.add("reduce", [losses], function="mean", axes=(0,), keepdims=False)
    return build.build([loss]), tuple(parameters)


@st.composite
def trainable(draw: st.DrawFn) -> tuple[Graph, tuple[int, ...]]:
    """A random program with a loss, (its graph, the numbers of its parameters): chains with
    residual streams, weights that are used again, masks, integers and several outputs."""
    build = GraphBuilder()
    rows, width = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    x = build.input(TensorSpec("float32", (rows, width)))
    ids = build.input(TensorSpec("int64", (rows,)))
    weights = [build.input(TensorSpec("float32", (width, width))) for _ in range(3)]
    table = build.input(TensorSpec("float32", (8, width)))
    parameters = (2, 3, 4, 5)
    found = [x, build.add("gather", [table, ids], axis=0)]
    for _ in range(draw(st.integers(2, 12))):
        value = draw(st.sampled_from([*found, *found[-2:]]))
        kind = draw(st.sampled_from(["matmul", "tanh", "add", "softmax", "mask", "detached"]))
        if kind == "matmul":
            made = build.add("matmul", [value, draw(st.sampled_from(weights))])
        elif kind == "add":
            other = draw(st.sampled_from(found))
            made = build.add("formula", [value, other], tree=call_formula("add"))
        elif kind == "softmax":
            made = build.add("softmax", [value], axis=1)
        elif kind == "mask":
            row = build.add("reshape", [build.add("iota", [], count=rows)], shape=(rows, 1))
            seen = build.add("formula", [row, ids], tree=call_formula("ge")) if rows == 1 else row
            mask = build.add("cast", [seen], dtype="float32")
            made = build.add("formula", [value, mask], tree=call_formula("mul"))
        elif kind == "detached":
            whole = build.add("cast", [value], dtype="int64")
            made = build.add("cast", [whole], dtype="float32")
        else:
            made = build.add("formula", [value], tree=call_formula("tanh"))
        found.append(made)
    last = found[-1]
    loss = build.add("reduce", [last], function="sum", axes=(0, 1), keepdims=False)
    return build.build([loss, draw(st.sampled_from(found))]), parameters
