"""Every text of the pages and letters that is translated, taken from where it is written.

Owns: the extraction. The catalogs are kept by `scripts/messages.py`, and a test compares.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

from babel.messages.extract import extract

from gpugoblin.error_codes import ALL_CODES

__all__ = ["SHOWN", "extracted"]

_HERE: Final = Path(__file__).parent
_SOURCES: Final = (
    *sorted((_HERE / "templates").glob("*.html")),
    *sorted(_HERE.glob("*.py")),
    _HERE.parent / "mail" / "letters.py",
)
_OPTIONS: Final = {
    ".html": ("jinja2.ext:babel_extract", {"trimmed": "true", "newstyle_gettext": "true"}),
    ".py": ("python", {}),
}

SHOWN: Final = (
    "account_name_differs", "application_crowded", "application_not_approved",
    "application_not_waiting", "certificate_days_wrong", "certificate_empty",
    "certificate_unknown", "certificates_crowded", "code_tries_exhausted", "code_unknown",
    "coordinator_database_busy", "coordinator_database_damaged", "coordinator_database_full",
    "coordinator_internal", "coordinator_lab_malformed", "coordinator_name_malformed",
    "coordinator_name_taken", "coordinator_rate_limited", "coordinator_request_slow",
    "coordinator_route_unknown", "coordinator_stopping", "coordinator_subject_unknown",
    "fingerprint_differs", "form_foreign", "form_malformed", "labs_crowded", "login_code_wrong",
    "mail_crowded", "mailbox_malformed", "message_too_large", "operator_only", "quota_malformed",
    "signin_off", "signin_stale", "team_captain_only", "team_code_unknown", "team_full",
    "team_joined", "words_too_long", "words_too_short", "words_unprintable",
)  # fmt: skip
"""The refusals that a page can show."""


def extracted() -> dict[str, str]:
    """Each text, in English, and the first place where it stands."""
    found: dict[str, str] = {}
    for path in _SOURCES:
        method, options = _OPTIONS[path.suffix]
        with io.BytesIO(path.read_bytes()) as source:
            for _, text, _, _ in extract(method, source, options=options):
                found.setdefault(text if isinstance(text, str) else text[0], path.name)
    for code in SHOWN:
        found.setdefault(ALL_CODES[code].what, code)
        found.setdefault(ALL_CODES[code].next_step, code)
    return found
