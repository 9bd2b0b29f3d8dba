"""Which found cards are lent, and how much of one a task may have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from app.agent.card_start import card_memory_bytes, may_share, start_card_engine, why_not_lent
from app.agent.settings import Settings, read_settings
from app.host.cards import FoundCard
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import EngineError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret
from tests.helpers.engines import RealEngine
from tests.helpers.runtime_home import runtime_home
from tests.helpers.software_card import only_software
from tests.unit.app.host.test_cards import CARD

AMD = FoundCard(**CARD)
SOFTWARE = replace(AMD, kind="software", address="")


def settings(**values: Any) -> Settings:
    return Settings({**read_settings(None).values, **values})


def test_which_are_lent() -> None:
    assert why_not_lent(settings(), AMD) == ""
    assert why_not_lent(settings(), replace(AMD, unsuited="It lacks x.")) == "It lacks x."
    assert "cards.software" in why_not_lent(settings(), SOFTWARE)
    assert why_not_lent(settings(**{"cards.software": True}), SOFTWARE) == ""


def test_only_what_computes_on_the_processor_is_shared() -> None:
    shares = settings(**{"processor.share": True})
    assert [may_share(shares, card) for card in (None, SOFTWARE, AMD)] == [True, True, False]
    assert not may_share(settings(), SOFTWARE)


def test_memory_of_a_task() -> None:
    big = replace(AMD, allocation_bytes=1 << 40)
    share = settings(**{"card_memory.most_percent": 50})
    assert card_memory_bytes(share, big) == big.memory_bytes // 2
    assert card_memory_bytes(share, AMD) == AMD.memory_bytes // 2, "over several allocations"
    small = settings(**{"processor.memory_bytes": 1 << 26})
    assert card_memory_bytes(small, SOFTWARE) == 1 << 26


def test_a_card_without_a_driver_is_refused_with_the_fix(tmp_path: Path) -> None:
    card = replace(SOFTWARE, driver_file=str(tmp_path / "gone.json"))
    with pytest.raises(EngineError) as caught:
        start_card_engine(settings(), tmp_path, card)
    assert caught.value.code == "card_driver_missing"
    assert "apt install" in caught.value.next_step


class _Walled(RealEngine):
    """A started engine."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine


@pytest.mark.slow
@pytest.mark.parametrize("level", ["full", "reduced"])
def test_products_and_softmax_of_a_walled_card_are_those_of_the_reference(level: str) -> None:
    chosen = settings(**{
        "sandbox.level": level, "processor.memory_bytes": 1 << 28,
        "processor.input_bytes": 1 << 25, "processor.output_bytes": 1 << 25,
    })  # fmt: skip
    card = only_software().cards[0]
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(shape, dtype=np.float32) for shape in ((65, 70), (70, 33))]
    builder = GraphBuilder()
    a, b = (builder.input(TensorSpec("float32", array.shape)) for array in arrays)
    product = builder.add("matmul", [a, b])
    graph = builder.build([product, builder.add("softmax", [product], axis=1)])
    with _Walled(start_card_engine(chosen, runtime_home(), card)) as engine:
        ready = engine.engine.wait_ready()
        assert (ready.backend, ready.level) == ("vulkan", level)
        assert ready.walls["self_test"] is True
        found = engine.run(graph, arrays)
    for ours, wanted in zip(found, interpret(graph, arrays), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=2e-5, atol=2e-5)
