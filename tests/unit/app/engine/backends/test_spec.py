"""The processor is a backend, and the choice by name."""

from __future__ import annotations

import pytest

from app.engine.backends import backend_named
from app.engine.backends.spec import Backend
from gpugoblin.errors import EngineError
from gpugoblin.graph.classes import CLASSES


def test_the_processor_is_a_backend() -> None:
    backend: Backend = backend_named("cpu")
    assert backend.name == "cpu"
    assert backend.classes == set(CLASSES)


def test_no_other_backend() -> None:
    with pytest.raises(EngineError) as caught:
        backend_named("abacus")
    assert caught.value.code == "kernel_missing"
