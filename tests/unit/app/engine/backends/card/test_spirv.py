from __future__ import annotations

import struct
from pathlib import Path

import pytest

from app.engine.backends.card.kernel import Kernel
from app.engine.backends.card.spirv import CONTROLS, Module, controlled, loose
from tests.helpers.formulas import VALIDATOR, judge


def test_types_and_constants_are_there_once() -> None:
    module = Module()
    assert module.type("float32") == module.type("float32")
    assert module.constant("int64", 5) == module.constant("int64", 5)
    assert module.constant("int64", 5) != module.constant("int32", 5)
    assert module.constant("float32", 0) != module.constant("float32", 1 << 31)


def test_header() -> None:
    words = Module().words((1, 1, 1))
    magic, version, _, bound, schema = struct.unpack("<5I", words[:20])
    assert (magic, version, schema) == (0x07230203, 0x00010500, 0)
    assert bound > 3


@pytest.mark.skipif(VALIDATOR is None, reason="spirv-val is not installed")
@pytest.mark.parametrize("controls", [(), ("signs",), tuple(CONTROLS)])
def test_empty_module_is_valid(tmp_path: Path, controls: tuple[str, ...]) -> None:
    words = Module().words((64, 1, 1))
    asking = controlled(words, controls)
    assert judge(asking, tmp_path) == ""
    assert len(asking) == len(words) + 4 * 6 * len(controls)


@pytest.mark.skipif(VALIDATOR is None, reason="spirv-val is not installed")
def test_judge_finds_what_is_wrong(tmp_path: Path) -> None:
    module = Module()
    module.put("Store", 9999, 9998)
    assert "9999" in judge(module.words((1, 1, 1)), tmp_path)


@pytest.mark.parametrize("wanted", [True, False])
def test_what_needs_no_controls_says_so(tmp_path: Path, wanted: bool) -> None:
    words = Kernel(1, loose=wanted).words()
    assert loose(words) is wanted
    assert judge(words, tmp_path) == ""
