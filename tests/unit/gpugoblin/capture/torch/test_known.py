"""Another torch than those that are known is refused before anything is traced."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

import pytest

import gpugoblin as gg
from gpugoblin.capture.torch import functions, known
from gpugoblin.errors import CaptureError
from tests.helpers.torch_programs import numbers, torch_or_skip

torch = torch_or_skip()


@pytest.fixture
def unasked() -> Iterator[None]:
    known.require_known_torch.cache_clear()
    yield
    known.require_known_torch.cache_clear()


@pytest.mark.usefixtures("unasked")
def test_this_one_is_known() -> None:
    known.require_known_torch()


@pytest.mark.usefixtures("unasked")
def test_another_apply_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(kept: types.CodeType) -> types.CodeType:
        raise RuntimeError("apply closes over ('x',)")

    monkeypatch.setattr(functions, "_standing_in", other)
    with pytest.raises(CaptureError) as caught:
        gg.capture(torch.tanh, (numbers(2, 3),))
    assert caught.value.code == "torch_unknown"
    assert torch.__version__ in str(caught.value)
    assert "apply closes over" in str(caught.value)


@pytest.mark.usefixtures("unasked")
def test_calls_that_are_not_seen_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def blind(calls: Any) -> Iterator[None]:
        yield

    monkeypatch.setattr(known, "watched", blind)
    with pytest.raises(CaptureError) as caught:
        known.require_known_torch()
    assert caught.value.code == "torch_unknown"
    assert "is not seen" in str(caught.value)
