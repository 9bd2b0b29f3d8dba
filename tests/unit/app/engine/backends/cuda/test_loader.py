from __future__ import annotations

import sys
from pathlib import Path

import pytest

from app.engine.backends.cuda.loader import _candidates, _load, require, require_blas
from gpugoblin.errors import EngineError


def test_wheels_are_found_before_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "nvidia" / "cu13" / "lib" / "libnothing.so.13"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"no library")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    found = _candidates("nothing", ("cuda_nothing",))
    assert found == [str(file), "libnothing.so.13", "libnothing.so.12"]
    with pytest.raises(EngineError) as raised:
        _load("nothing", ("cuda_nothing",))
    assert raised.value.code == "card_missing"


def test_absent_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(EngineError, match="libnothing"):
        _load("nothing", ())


@pytest.mark.parametrize(
    ("result", "code"), [(2, "card_memory"), (700, "card_lost"), (1, "card_failed")]
)
def test_results_have_codes(result: int, code: str) -> None:
    require(0, "working")
    with pytest.raises(EngineError) as raised:
        require(result, "working")
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("result", "code"), [(3, "card_memory"), (13, "card_lost"), (7, "card_failed")]
)
def test_results_of_the_library_have_codes(result: int, code: str) -> None:
    require_blas(0, "working")
    with pytest.raises(EngineError) as raised:
        require_blas(result, "working")
    assert raised.value.code == code
