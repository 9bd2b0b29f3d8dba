from __future__ import annotations

import json
from typing import Any

import pytest

from gpugoblin.errors import GraphError
from gpugoblin.optim.adafactor import Adafactor
from gpugoblin.optim.adam import Adam, AdamW
from gpugoblin.optim.lion import Lion
from gpugoblin.optim.schedules import Constant, Cosine, Exponential, OneCycle, Stairs, Warmup
from gpugoblin.optim.sgd import SGD
from gpugoblin.optim.step import Optimizer
from gpugoblin.optim.words import optimizer_of, words_of


@pytest.mark.parametrize(
    "optimizer",
    [
        SGD(0.1, momentum=0.9, nesterov=True),
        Adam(Exponential(1e-3, 0.99), amsgrad=True),
        AdamW(Warmup(Cosine(3e-4, 1000, 1e-5), 100)),
        Lion(Stairs(1e-4, 30)),
        Adafactor(OneCycle(1e-2, 100), weight_decay=0.1),
        AdamW(Constant(1e-3)),
    ],
)
def test_words_are_the_optimizer(optimizer: Optimizer) -> None:
    assert optimizer_of(json.loads(json.dumps(words_of(optimizer)))) == optimizer


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"kind": "Optimizer"},
        {"kind": "Cosine", "rate": 0.1, "steps": 3},
        {"kind": "SGD"},
        {"kind": "SGD", "rate": "0.1"},
        {"kind": "SGD", "rate": 0.1, "momentums": 1},
        {"kind": "SGD", "rate": {"kind": "AdamW"}},
        {"kind": "SGD", "rate": 0.1, "momentum": 2.0},
        {"kind": ["SGD"], "rate": 0.1},
    ],
)
def test_words_of_nothing(words: dict[str, Any]) -> None:
    with pytest.raises(GraphError) as caught:
        optimizer_of(words)
    assert caught.value.code == "attribute_invalid"


def test_schedules_have_an_end() -> None:
    schedule: Any = Constant(1.0)
    for _ in range(6):
        schedule = Warmup(schedule, 2)
    with pytest.raises(GraphError):
        optimizer_of(words_of(SGD(schedule)))


def test_an_optimizer_of_somebody_else() -> None:
    class Mine(SGD):
        pass

    with pytest.raises(GraphError):
        words_of(Mine(0.1))
