"""Error codes of the family `settings`: the configuration files of the programs."""

from __future__ import annotations

from gpugoblin.error_codes.spec import ErrorCode

__all__ = ["CODES"]

_TABLE = "docs/reference/settings.md lists every setting."

CODES: dict[str, ErrorCode] = {
    "settings_unreadable": ErrorCode(
        what="The configuration {path} cannot be read: {reason}.",
        next_step="Correct the path or the file; " + _TABLE,
    ),
    "setting_unknown": ErrorCode(
        what="There is no setting {name}, which {source} names.",
        next_step="{advice}" + _TABLE,
    ),
    "setting_missing": ErrorCode(
        what="The setting {name} has no default, and {source} does not give it.",
        next_step="Add it; " + _TABLE,
    ),
    "setting_invalid": ErrorCode(
        what="The setting {name} cannot be {value} as {source} says: {reason}.",
        next_step="Correct it; " + _TABLE,
    ),
}
