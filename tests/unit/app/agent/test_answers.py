"""The shipped answers are the reference's, and a judge that sees one wrong element."""

from __future__ import annotations

import numpy as np
import pytest

from app.agent.answers import Answer, cases, wrong_element
from app.engine.backends.card.table import EMITTERS
from gpugoblin.catalog.spec import DTYPES
from gpugoblin.graph.exact import interpret_exact
from gpugoblin.graph.expand import expand
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.serialize import decode


def answer(values: object, limits: object = None, dtype: str = "float32") -> Answer:
    bounds = b"" if limits is None else np.array(limits, np.float64).tobytes()
    return Answer(dtype, np.array(values, DTYPES[dtype]).tobytes(), bounds)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_reference_gives_these_answers(case: object) -> None:
    graph = decode(case.graph)  # type: ignore[attr-defined]
    evaluate = interpret_exact if case.numeric_class == "exact" else interpret  # type: ignore[attr-defined]
    inputs = [
        np.frombuffer(data, DTYPES[spec.dtype]).reshape(spec.shape)
        for data, spec in zip(case.inputs, graph.inputs, strict=True)  # type: ignore[attr-defined]
    ]
    for known, result in zip(case.answers, evaluate(graph, inputs), strict=True):  # type: ignore[attr-defined]
        assert known.dtype == str(result.dtype)
        assert wrong_element(known, result.tobytes()) is None
        changed = bytearray(known.data)
        changed[-1] ^= 0x41  # the sign and half of the exponent, or the highest byte
        assert wrong_element(known, bytes(changed)) is not None


def test_every_kernel_of_a_card_is_asked_for() -> None:
    used = {
        f"{node.operator}@{node.version}"
        for case in cases()
        for node in expand(
            decode(case.graph), lambda operator: operator.key in EMITTERS
        ).graph.nodes
    }
    assert set(EMITTERS) - used == set()


def test_limits_nan_and_infinity() -> None:
    nan, infinity = float("nan"), float("inf")
    known = answer([1.0, nan, infinity, 2.0, 3.0], [0.1, 0.0, 0.0, infinity, 0.0])
    for given, place in (
        ([1.05, nan, infinity, nan, 3.0], None),
        ([1.2, nan, infinity, 2.0, 3.0], 0),
        ([nan, nan, infinity, 2.0, 3.0], 0),
        ([1.0, 0.0, infinity, 2.0, 3.0], 1),
        ([1.0, nan, -infinity, 2.0, 3.0], 2),
        ([1.0, nan, infinity, 2.0, 3.0000002], 4),
    ):
        assert wrong_element(known, np.array(given, np.float32).tobytes()) == place


def test_a_result_of_another_size_is_wrong() -> None:
    assert wrong_element(answer([1, 2], dtype="int32"), b"1234") == 0


def test_whole_numbers_must_be_equal() -> None:
    known = answer([1, -2, 2**31 - 1], dtype="int32")
    assert wrong_element(known, known.data) is None
    assert wrong_element(known, answer([1, -2, 2**31 - 2], dtype="int32").data) == 2
