from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends import backend_named
from app.engine.backends.cuda import backend as module
from app.engine.backends.cuda.backend import CudaBackend
from gpugoblin.errors import EngineError
from tests.helpers.card_graphs import graph_of
from tests.helpers.cards import missing_cuda
from tests.helpers.fake_cuda import fake_machine


def test_names_its_card(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, _, _ = fake_machine()
    monkeypatch.setattr(module, "Machine", lambda uuid: machine)
    backend = backend_named("cuda:" + "01" * 16)
    assert isinstance(backend, CudaBackend)
    assert backend.driver() == "cuda-13.0-sm_90"
    assert {"formula@1", "reshape@1", "matmul@1"} <= backend.operators
    assert "float32" in backend.classes
    program = backend.compile(graph_of("iota", [], count=5), "float32")
    assert program.output_specs[0].shape == (5,)
    with pytest.raises(EngineError) as raised:
        backend.compile(graph_of("cholesky", [np.eye(2, dtype=np.float32)]), "float32")
    assert raised.value.code == "task_refused"
    backend.close()


@pytest.mark.skipif(not missing_cuda(), reason="there is a card of NVIDIA here")
def test_without_a_card_the_reason_is_told() -> None:
    with pytest.raises(EngineError) as raised:
        backend_named("cuda")
    assert raised.value.code == "card_missing"
