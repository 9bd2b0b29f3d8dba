"""ctc against the sum over all paths, one by one, and against PyTorch."""

from __future__ import annotations

from itertools import groupby, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugoblin.catalog.composites import ctc as module
from gpugoblin.catalog.composites.ctc import MOST_STEPS
from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.check import check
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph


def log_softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    found: Array = np.log(powers / powers.sum(-1, keepdims=True)).astype(np.float32)
    return found


def ctc(
    logs: Array, targets: Array, lengths: list[int], counts: list[int], blank: int = 0
) -> Array:
    inputs = [logs, targets, np.array(lengths), np.array(counts)]
    return get("ctc").reference(inputs, {"blank": blank})[0]


def all_paths(logs: Array, labels: list[int], blank: int) -> float:
    """Minus the logarithm of the sum over all paths that collapse to the labels."""
    total = 0.0
    for path in product(range(logs.shape[1]), repeat=logs.shape[0]):
        if [label for label, _ in groupby(path) if label != blank] == labels:
            total += float(np.exp(sum(logs[step, label] for step, label in enumerate(path))))
    return -np.log(total) if total else np.inf


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.lists(st.integers(0, 2), max_size=4), st.integers(0, 2), st.integers())
def test_the_sum_over_all_paths(steps: int, labels: list[int], blank: int, seed: int) -> None:
    labels = [label for label in labels if label != blank]
    logs = log_softmax(np.random.default_rng(abs(seed)).standard_normal((6, 1, 3)))
    targets = np.array([[*labels, -7]])  # what is behind the labels is never looked at
    found = ctc(logs, targets, [steps], [len(labels)], blank)
    expected = all_paths(logs[:steps, 0].astype(np.float64), labels, blank)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_no_steps() -> None:
    logs = log_softmax(np.zeros((2, 2, 3)))
    assert ctc(logs, np.array([[1], [1]]), [0, 0], [0, 1]).tolist() == [0, np.inf]


def slopes(logs: Array, targets: Array, lengths: list[int], counts: list[int]) -> Array:
    inputs = [logs, targets, np.array(lengths), np.array(counts)]
    builder = GraphBuilder()
    values = [builder.input(TensorSpec("float32", logs.shape))]
    values += [builder.input(TensorSpec("int64", array.shape)) for array in inputs[1:]]
    losses = builder.add("ctc", values)
    total = builder.add("reduce", [losses], function="sum", axes=(0,), keepdims=False)
    return interpret(gradient(builder.build([total]), [0]), inputs)[1]


def test_the_derivative_is_the_share_of_each_label_and_no_nan_where_nothing_fits() -> None:
    logs = log_softmax(np.random.default_rng(0).standard_normal((4, 2, 3)))
    found = slopes(logs, np.array([[1, 2], [1, 1]]), [4, 2], [2, 2])
    np.testing.assert_allclose(found[:, 0].sum(-1), -1, rtol=1e-5)
    assert (found[:, 1] == 0).all()


@pytest.mark.parametrize("written_out", [256, 4])
def test_what_is_certain_costs_nothing(written_out: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other label is impossible, so three states in a row are."""
    monkeypatch.setattr(module, "WRITTEN_OUT", written_out)
    path = [1, 1, 2, 0, 3, 3, 4]
    with np.errstate(divide="ignore"):
        logs = np.log(np.eye(5, dtype=np.float32)[path])[:, None]
    targets, lengths, counts = np.array([[1, 2, 3, 4]]), [len(path)], [4]
    assert ctc(logs, targets, lengths, counts).tolist() == [0]
    found = slopes(logs, targets, lengths, counts)[:, 0]
    np.testing.assert_allclose(found, -np.eye(5)[path], atol=1e-6)
    assert ctc(logs, np.array([[1, 3, 2, 4]]), lengths, counts).tolist() == [np.inf]


def long_graph(steps: int) -> Graph:
    builder = GraphBuilder()
    logs = builder.input(TensorSpec("float32", (steps, 2, 3)))
    whole = [builder.input(TensorSpec("int64", shape)) for shape in ((2, 2), (2,), (2,))]
    losses = builder.add("ctc", [logs, *whole])
    total = builder.add("reduce", [losses], function="sum", axes=(0,), keepdims=False)
    return builder.build([total])


def test_long_sequences_are_a_small_graph() -> None:
    graph = gradient(long_graph(1000), [0])
    check(graph)
    assert len(graph.nodes) < 150


def test_a_scan_is_the_recursion_that_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = log_softmax(np.random.default_rng(3).standard_normal((12, 2, 3)))
    inputs = [logs, np.array([[1, 2], [2, 2]]), np.array([12, 9]), np.array([2, 1])]
    written = interpret(gradient(long_graph(12), [0]), inputs)
    monkeypatch.setattr(module, "WRITTEN_OUT", 4)
    graph = gradient(long_graph(12), [0])
    assert "scan" in {node.operator for node in graph.nodes}
    for one, two in zip(interpret(graph, inputs), written, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


def test_what_does_not_fit_is_refused() -> None:
    def specs(*shapes: tuple[int, ...]) -> list[TensorSpec]:
        kinds = ("float32", "int64", "int64", "int32")
        return [TensorSpec(kind, shape) for kind, shape in zip(kinds, shapes, strict=True)]

    infer = get("ctc").infer
    with pytest.raises(GraphError, match="targets and lengths of 2 examples"):
        infer(specs((4, 2, 3), (2, 1), (2,), (1,)), {"blank": 0})
    with pytest.raises(GraphError, match="a class from 0 to 2"):
        infer(specs((4, 2, 3), (2, 1), (2,), (2,)), {"blank": 3})
    with pytest.raises(GraphError, match="at most"):
        infer(specs((MOST_STEPS + 1, 2, 3), (2, 1), (2,), (2,)), {"blank": 0})
    with pytest.raises(GraphError, match="steps, examples, classes"):
        infer(specs((4, 3), (2, 1), (2,), (2,)), {"blank": 0})


def test_against_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    scores = np.random.default_rng(1).standard_normal((12, 3, 5)).astype(np.float32)
    targets = np.array([[1, 2, 2, 4], [3, 3, 1, 1], [4, 1, 0, 0]])
    lengths, counts = [12, 10, 7], [4, 3, 2]
    logs = torch.tensor(log_softmax(scores), requires_grad=True)
    expected = torch.nn.functional.ctc_loss(
        logs, torch.tensor(targets), lengths, counts, reduction="none"
    )
    found = ctc(logs.detach().numpy(), targets, lengths, counts)
    np.testing.assert_allclose(found, expected.detach(), rtol=1e-5)
    expected.sum().backward()
    # PyTorch's derivative holds that of a log_softmax before it: the probabilities, too.
    own = slopes(logs.detach().numpy(), targets, lengths, counts)
    inside = np.arange(12)[:, None] < np.array(lengths)
    share = np.exp(logs.detach().numpy()) * inside[..., None]
    np.testing.assert_allclose(own + share, logs.grad, rtol=1e-4, atol=1e-5)
