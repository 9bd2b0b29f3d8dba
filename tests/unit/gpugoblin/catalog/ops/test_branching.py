from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.body_samples import body, one_formula
from gpugoblin.catalog.ops.branching import COND
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError

SPEC = TensorSpec("float32", (2,))
BOTH = {
    "if_false": one_formula((SPEC, SPEC), "sub", (0, 1)),
    "if_true": one_formula((SPEC, SPEC), "add", (0, 1)),
}
X, Y = np.array([1, 2], np.float32), np.array([3, 5], np.float32)
FLAG = TensorSpec("bool", ())


def test_only_the_chosen_one_counts() -> None:
    assert COND.reference([np.array(True), X, Y], BOTH)[0].tolist() == [4, 7]
    assert COND.reference([np.array(False), X, Y], BOTH)[0].tolist() == [-2, -3]


def test_an_open_choice_admits_anything_and_a_sure_one_its_own_errors() -> None:
    propagate = COND.tolerance.propagate
    assert propagate is not None
    operands = [np.array(True), X, Y]
    outputs = COND.reference(operands, BOTH)
    (error,) = propagate(operands, [None, np.full(2, 0.1), None], outputs, BOTH)
    assert error is not None
    assert error == pytest.approx([0.1, 0.1], rel=1e-3)
    (error,) = propagate(operands, [np.array(1.0), None, None], outputs, BOTH)
    assert error is not None
    assert np.isinf(error).all()


@pytest.mark.parametrize(
    ("inputs", "changes", "reason"),
    [
        ([SPEC, SPEC, SPEC], {}, "dtype_unsupported"),
        ([TensorSpec("bool", (1,)), SPEC, SPEC], {}, "scalar"),
        ([FLAG, SPEC], {}, "attribute_invalid"),
        ([FLAG, SPEC, SPEC], {"if_true": body((SPEC, SPEC), (), (0, 1))}, "attribute_invalid"),
    ],
)
def test_what_does_not_fit(
    inputs: list[TensorSpec], changes: dict[str, object], reason: str
) -> None:
    with pytest.raises(GraphError, match=reason):
        COND.infer(inputs, {**BOTH, **changes})  # type: ignore[arg-type]
