"""Work in a child: its bytes come back, its end is told, the parent stays as it was."""

from __future__ import annotations

import os
import time

import pytest

from gpugoblin.capture.torch import isolation
from gpugoblin.capture.torch.isolation import isolated
from gpugoblin.errors import CaptureError


def test_the_bytes_come_back_and_the_parent_stays_as_it_was() -> None:
    seen: list[int] = []

    def work() -> bytes:
        seen.append(1)
        print("not shown")
        return bytes(3 << 20)

    assert isolated(work, "work", 60.0) == bytes(3 << 20)
    assert not seen


def test_an_empty_answer_is_an_answer() -> None:
    assert isolated(lambda: b"", "work", 60.0) == b""


@pytest.mark.parametrize("end", [lambda: os._exit(3), lambda: 1 // 0])
def test_a_child_that_dies_is_told(end: object) -> None:
    with pytest.raises(CaptureError) as caught:
        isolated(end, "work", 60.0)  # type: ignore[arg-type]
    assert caught.value.code == "capture_died"
    assert "without an answer" in str(caught.value)


def test_a_child_that_takes_too_long_is_ended() -> None:
    def work() -> bytes:
        time.sleep(60)
        return b""

    with pytest.raises(CaptureError, match="its time was over"):
        isolated(work, "work", 0.05)


def test_too_long_an_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "MAX_ANSWER_BYTES", 1000)
    with pytest.raises(CaptureError, match="too long"):
        isolated(lambda: bytes(5000), "work", 60.0)


def test_without_fork_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    with pytest.raises(CaptureError) as caught:
        isolated(lambda: b"", "work", 1.0)
    assert caught.value.code == "capture_needs_fork"
