"""Brings the catalogs of the pages up to date with the texts in the code.

    .venv/bin/python scripts/messages.py

New texts are added without a translation, those that are gone are removed; what is missing is
printed. A test fails as long as something is.
"""

from __future__ import annotations

import sys
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

from server_stub.coordinator.web.languages import CATALOGS, DEFAULT, LANGUAGES
from server_stub.coordinator.web.messages import extracted


def main() -> int:
    texts = extracted()
    missing = 0
    for language in sorted(set(LANGUAGES) - {DEFAULT}):
        path = CATALOGS / f"{language}.po"
        known = _known(path)
        catalog = Catalog(locale=language, project="gpugoblin", version="1", fuzzy=False)
        catalog.header_comment = f"# The coordinator's pages and letters: {language}."
        for text in sorted(texts):
            catalog.add(text, known.get(text, ""))
            if not known.get(text):
                missing += 1
                print(f"{language}: {text!r}")
        with path.open("wb") as target:
            write_po(target, catalog, omit_header=True, width=96, no_location=True)
    print(f"{len(texts)} texts, {missing} translations missing")
    return 1 if missing else 0


def _known(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    with path.open("rb") as source:
        return {str(one.id): str(one.string) for one in read_po(source) if one.id}


if __name__ == "__main__":
    sys.exit(main())
