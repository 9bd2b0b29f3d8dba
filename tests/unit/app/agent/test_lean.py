"""A small agent: what it never needs is not loaded, and the packages do without."""

from __future__ import annotations

import subprocess
import sys

from app.agent.lean import UNUSED

_PROGRAM = """
import sys
from app.agent.lean import be_lean
be_lean()
import app.agent.agent, app.agent.card_start, app.agent.settings_file
print(*sorted(sys.modules))
"""


def _said(program: str) -> str:
    command = [sys.executable, "-I", "-W", "error", "-c", program]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_the_agent_loads_nothing_that_it_does_not_use() -> None:
    loaded = set(_said(_PROGRAM).split())
    assert {"requests", "msgspec", "cryptography", "sqlite3"} <= loaded
    unused = {name for names in UNUSED.values() for name in names}
    assert not (unused | {"numpy", "nacl", "psutil", "PySide6"}) & loaded


def test_what_was_hidden_is_there_again_and_what_was_loaded_stays() -> None:
    program = """
import charset_normalizer
from app.agent.lean import be_lean
be_lean()
import requests, typing_extensions
print(requests.compat.chardet.__name__, typing_extensions.__name__)
be_lean()
"""
    assert _said(program).split() == ["charset_normalizer", "typing_extensions"]


def test_declarations_are_read_without_the_package() -> None:
    program = """
from app.agent.lean import be_lean
be_lean()
import sys
import msgspec
from typing import Annotated, NotRequired, TypedDict
class One(msgspec.Struct):
    value: Annotated[int, msgspec.Meta(ge=1)]
class Two(TypedDict):
    given: int
    other: NotRequired[int]
assert msgspec.json.decode(b'{"value": 3}', type=One).value == 3
assert msgspec.json.decode(b'{"given": 3}', type=Two) == {"given": 3}
try:
    msgspec.json.decode(b'{"value": 0}', type=One)
except msgspec.ValidationError:
    print("refused", "typing_extensions" in sys.modules)
"""
    assert _said(program).split() == ["refused", "False"]
