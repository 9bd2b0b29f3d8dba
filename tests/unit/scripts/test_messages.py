"""Every text of window and commands is translated, and translations keep its fields."""

from __future__ import annotations

import os
import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import polib
import pytest

from app.control.texts import CATALOGS, LANGUAGES

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
pytest.importorskip(
    "PySide6.QtWidgets",
    reason="PySide6 or a library of the desktop is missing",
    exc_type=ImportError,  # a missing library is none of a missing module
)

OTHERS = sorted(set(LANGUAGES) - {"en"})
FIELDS = re.compile(r"\{[^}]*\}")


@pytest.fixture(scope="module")
def messages() -> ModuleType:
    path = Path(__file__).parents[3] / "scripts" / "messages.py"
    spec = spec_from_file_location("messages_script", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_all_kinds_of_texts_are_found(messages: ModuleType) -> None:
    found = set(messages.app_texts())
    assert "Pause for an hour" in found, "of the window"
    assert "{doing}, because {reasons}." in found, "of sentences"
    assert "a game runs ({games})" in found, "of tables"
    assert "Stop everything while a game runs." in found, "of settings"


@pytest.mark.parametrize("language", OTHERS)
def test_b2213_catalogs_say_everything_and_nothing_else(
    messages: ModuleType, language: str
) -> None:
    said = {one.msgid: one for one in polib.pofile(str(CATALOGS / f"{language}.po"))}
    wanted = set(messages.app_texts())
    assert wanted - set(said) == set(), "run scripts/messages.py and translate"
    assert set(said) - wanted == set(), "run scripts/messages.py"
    assert [name for name, one in said.items() if not one.msgstr or one.fuzzy] == []


@pytest.mark.parametrize("language", OTHERS)
def test_translations_keep_the_fields(language: str) -> None:
    for one in polib.pofile(str(CATALOGS / f"{language}.po")):
        assert sorted(FIELDS.findall(one.msgstr)) == sorted(FIELDS.findall(one.msgid)), one.msgid
