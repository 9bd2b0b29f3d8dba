from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.attributes import normalize_attributes
from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.interpret import interpret

RANDOM = np.random.default_rng(0)
LOGS = np.log(RANDOM.uniform(0.05, 0.9, (4, 3))).astype(np.float32)
TARGETS = RANDOM.uniform(0, 1, (4, 3)).astype(np.float32)
LABELS = np.array([2, 0, 1, 1])


def run(name: str, *inputs: Array, **attributes: object) -> Array:
    operator = get(name)
    (found,) = operator.reference(inputs, dict(normalize_attributes(operator, attributes)))
    return found


def slope(name: str, *inputs: Array) -> Array:
    """The derivative of the sum by the first input."""
    builder = GraphBuilder()
    values = [builder.input(TensorSpec("float32", array.shape)) for array in inputs]
    losses = builder.add(name, values)
    axes = tuple(range(inputs[0].ndim))
    total = builder.add("reduce", [losses], function="sum", axes=axes, keepdims=False)
    return interpret(gradient(builder.build([total]), [0]), inputs)[1]


def test_nll() -> None:
    weights = np.array([0.5, 1, 2], np.float32)
    plain = run("nll", LOGS, LABELS, axis=1, ignored=1)
    np.testing.assert_array_equal(plain, [-LOGS[0, 2], -LOGS[1, 0], 0, 0])
    weighed = run("nll", LOGS, LABELS, weights, axis=1, ignored=1)
    np.testing.assert_allclose(weighed, plain * [2, 0.5, 1, 1], rtol=1e-6)
    with pytest.raises(GraphError, match="index_out_of_range"):
        run("nll", LOGS, np.array([0, 3, 1, 1]), axis=1)


def test_kl_divergence() -> None:
    expected = TARGETS * (np.log(TARGETS) - LOGS)
    np.testing.assert_allclose(run("kl_divergence", LOGS, TARGETS), expected, rtol=1e-5)
    logs = run("kl_divergence", LOGS, np.log(TARGETS), log_target=True)
    np.testing.assert_allclose(logs, expected, rtol=1e-4, atol=1e-6)
    nothing = run("kl_divergence", LOGS, np.zeros((4, 3), np.float32))
    np.testing.assert_array_equal(nothing, 0)
    assert np.isfinite(slope("kl_divergence", np.zeros((4, 3), np.float32), LOGS)).all()


def test_binary_cross_entropy() -> None:
    p = np.exp(LOGS)
    expected = -(TARGETS * np.log(p) + (1 - TARGETS) * np.log1p(-p))
    np.testing.assert_allclose(run("binary_cross_entropy", p, TARGETS), expected, rtol=1e-5)
    sure = np.array([0, 0, 1, 1], np.float32)
    told = np.array([0, 1, 0, 1], np.float32)
    assert run("binary_cross_entropy", sure, told).tolist() == [0, 100, 100, 0]
    assert np.isfinite(slope("binary_cross_entropy", sure, told)).all()


def test_binary_cross_entropy_of_logits() -> None:
    x = np.array([-200, -2, 0, 0.5, 300], np.float32)
    t = np.array([0, 1, 0.25, 0.5, 1], np.float32)
    found = run("binary_cross_entropy_logits", x, t)
    np.testing.assert_allclose(
        found, [0, 2.1269281, np.log(2), 0.7240769, 0], rtol=1e-6, atol=1e-30
    )
    expected = 1 / (1 + np.exp(-x.astype(np.float64))) - t
    np.testing.assert_allclose(
        slope("binary_cross_entropy_logits", x, t), expected, rtol=1e-5, atol=1e-7
    )
    wrong = run("binary_cross_entropy_logits", x, 1 - t)
    assert wrong[0] == 200
    assert wrong[4] == 300


def test_what_does_not_fit_is_refused() -> None:
    f32 = [TensorSpec("float32", shape) for shape in ((4, 3), (4, 1), (2,))]
    for name in ("kl_divergence", "binary_cross_entropy", "binary_cross_entropy_logits"):
        with pytest.raises(GraphError, match="the first two must be equal"):
            get(name).infer(f32[:2], {"log_target": False})
    with pytest.raises(GraphError, match="weights must broadcast"):
        get("binary_cross_entropy_logits").infer([f32[0], f32[0], f32[2]], {})
    labels = TensorSpec("int32", (4,))
    with pytest.raises(GraphError, match="3 weights"):
        get("nll").infer([f32[0], labels, f32[2]], {"axis": 1, "ignored": -1})
    with pytest.raises(GraphError, match="all axes but 1"):
        get("nll").infer([f32[0], TensorSpec("int32", (3,))], {"axis": 1, "ignored": -1})


def test_against_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    functional = torch.nn.functional
    x, t, w = (torch.tensor(RANDOM.uniform(0, 1, s).astype(np.float32))
               for s in ((4, 3), (4, 3), (3,)))  # fmt: skip
    given = {"reduction": "none"}
    for found, expected in (
        (run("nll", LOGS, LABELS, w.numpy(), axis=1),
         functional.nll_loss(torch.tensor(LOGS), torch.tensor(LABELS), w, **given)),
        (run("kl_divergence", LOGS, t.numpy()),
         functional.kl_div(torch.tensor(LOGS), t, **given)),
        (run("binary_cross_entropy", x.numpy(), t.numpy()),
         functional.binary_cross_entropy(x, t, **given)),
        (run("binary_cross_entropy_logits", LOGS, t.numpy(), w.numpy()),
         functional.binary_cross_entropy_with_logits(torch.tensor(LOGS), t, pos_weight=w,
                                                     **given)),
    ):  # fmt: skip
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
