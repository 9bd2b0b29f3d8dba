from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends import backend_named
from app.engine.backends.vulkan.backend import VALIDATION_VARIABLE, VulkanBackend
from gpugoblin.errors import EngineError
from tests.helpers.card_graphs import graph_of
from tests.helpers.cards import OpenCard
from tests.helpers.engines import RealEngine


def test_named_by_its_uuid(card: OpenCard) -> None:
    uuid = card.device.card.uuid
    backend = backend_named(f"vulkan:{uuid}")
    assert isinstance(backend, VulkanBackend)
    assert backend.machine.device.card.uuid == uuid
    assert backend.driver().startswith("vulkan-")
    assert len(backend.driver()) <= 64
    assert {"formula@1", "reshape@1", "matmul@1"} <= backend.operators
    backend.close()
    with pytest.raises(EngineError) as raised:
        backend_named("vulkan:" + "00" * 16)
    assert raised.value.code == "card_missing"


def test_child_of_one_card(card: OpenCard) -> None:
    name = f"vulkan:{card.device.card.uuid}"
    data = np.arange(12, dtype=np.int32).reshape(3, 4)
    with RealEngine(1, 1 << 30, name, {VALIDATION_VARIABLE: "1"}) as engine:
        ready = engine.engine.wait_ready()
        assert ready is None or ready.backend == "vulkan"
        graph = graph_of("flip", [data], axes=(1,))
        (result,) = engine.run(graph, [data], numeric_class="exact")
        assert result.tolist() == data[:, ::-1].tolist()
        with pytest.raises(EngineError) as raised:
            engine.run(graph_of("iota", [], count=1 << 28), [])
        assert raised.value.code in ("does_not_fit", "arena_full")
