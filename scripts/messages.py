"""Brings the catalogs of translations up to date with the texts in the code.

    .venv/bin/python scripts/messages.py

Two programs speak to people: the coordinator's pages and letters, and the contributor's window and
commands. New texts are added without a translation, those that are gone are removed; what is
missing is printed. A test fails as long as something is.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.pofile import read_po, write_po

from app.control import plain, retold, screen, texts, words
from server_stub.coordinator.web import languages
from server_stub.coordinator.web.messages import extracted

APP = texts.CATALOGS.parent


def main() -> int:
    """Writes every catalog; 1 when a translation is missing."""
    missing = _write(languages.CATALOGS, languages.LANGUAGES, list(extracted()))
    missing += _write(texts.CATALOGS, texts.LANGUAGES, app_texts())
    return 1 if missing else 0


def app_texts() -> list[str]:
    """Every text of the window and of the commands, in English, sorted."""
    found: set[str] = set()
    spoken = [*sorted((APP / "ui").rglob("*.py")), *sorted((APP / "control").glob("*.py"))]
    for path in [*spoken, APP / "looking.py", APP / "main.py"]:
        with io.BytesIO(path.read_bytes()) as source:
            for _line, text, _comments, _context in extract("python", source, keywords={"_": None}):
                found.add(text if isinstance(text, str) else text[0])
    found.update(_tables())
    found.update(_settings())
    return sorted(text for text in found if text)


def _tables() -> Iterable[str]:
    """Texts that lie in tables and are looked up by a code."""
    from app.ui.pages import account, history, privacy, settings, when

    for table in (words.REASONS, words._ENDS, words._GIVEN_BACK, words._WHY, words._DOING):
        yield from table.values()
    yield from words.LINES.values()
    yield from words.DAYS
    yield from (*retold.FINDINGS, *retold.COUNTS, retold._UNTIL, *retold.SUBJECTS.values())
    for now, later in words._ASKS.values():
        yield from (now, later)
    for page in (settings.WHEN, settings.HOW_MUCH, settings.LABS):
        yield from (title for title, _prefixes in page)
    for _word, name, sentence in when.PROFILES:
        yield from (name, sentence)
    yield from (name for _days, name in history.SPANS)
    yield from (text for _word, *both in history.VALUES for text in both)
    for part in privacy.PARTS:
        yield from part
    yield from account._STATES.values()
    yield from (*plain.STATES.values(), *screen.STAGES.values())


def _settings() -> Iterable[str]:
    """The sentences, units and choices of the settings that a window can change."""
    from app.agent.settings import SETTINGS
    from app.ui.widgets.setting import plain as without_marks

    for one in SETTINGS:
        if one.is_live:
            yield without_marks(one.description)
            yield one.unit
            yield from (word.replace("_", " ") for word in one.choices)


def _write(folder: Path, spoken: Mapping[str, str], wanted: list[str]) -> int:
    missing = 0
    folder.mkdir(exist_ok=True)
    for language in sorted(set(spoken) - {"en"}):
        path = folder / f"{language}.po"
        known = _known(path)
        catalog = Catalog(locale=language, fuzzy=False)
        for text in sorted(wanted):
            catalog.add(text, known.get(text, ""))
            if not known.get(text):
                missing += 1
                print(f"{path.parent.parent.name} {language}: {text!r}")
        with path.open("wb") as target:
            write_po(target, catalog, omit_header=True, width=96, no_location=True)
    print(f"{folder.parent.name}: {len(wanted)} texts, {missing} translations missing")
    return missing


def _known(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    with path.open("rb") as source:
        return {str(one.id): str(one.string) for one in read_po(source) if one.id}


if __name__ == "__main__":
    sys.exit(main())
