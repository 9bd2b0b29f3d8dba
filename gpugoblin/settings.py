"""Settings of a program: declared once in a table, read from one TOML file, checked.

Owns: what a setting is, the bounded reading of a file, the refusals, the text of a new file, and
the rows of the page that documents them. Must not: know any program, or act on a value.

A name with dots lies in a TOML table: `a.b` is `b` in `[a]`. A path may begin with `~`; a relative
one starts at the directory of the file that names it.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import textwrap
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from gpugoblin.errors import SettingsError

__all__ = [
    "MAX_FILE_BYTES",
    "Kind",
    "Setting",
    "Value",
    "check",
    "declare",
    "find",
    "read",
    "rows",
    "template",
    "toml",
]

Kind: TypeAlias = Literal["text", "texts", "path", "int", "float", "bool"]
Value: TypeAlias = str | int | float | bool | tuple[str, ...]

MAX_FILE_BYTES: Final = 64 * 1024
MAX_TEXT_CHARACTERS: Final = 4096
MAX_TEXTS: Final = 256
_MAX_NUMBER: Final = 2**63 - 1
_SHOWN_CHARACTERS: Final = 60

_KIND_WORDS: Final[Mapping[str, str]] = {
    "text": "text",
    "texts": "list of texts",
    "path": "path",
    "int": "whole number",
    "float": "number",
    "bool": "true or false",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Args:
        name: as in the file, dotted when it lies in a table.
        kind: `texts` is a list of texts; `float` takes whole numbers too.
        default: what holds when the file is silent; None when the file must say it.
        unit: of a number, else empty.
        description: one or more sentences for the file and the docs.
        minimum, maximum: bounds of a number, inclusive; None leaves that side open.
        choices: what a text, or each of several, may be; empty for any.
        is_live: it may be changed while the program runs.
        fault: of a text, or of each of several: why it cannot be taken; empty when it can.
    """

    name: str
    kind: Kind
    default: Value | None
    unit: str
    description: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    is_live: bool = False
    fault: Callable[[str], str] | None = None

    def check(self, value: object, source: str, base: Path | None = None) -> Value:
        """The value in the type of this setting's kind.

        Args:
            value: as decoded.
            source: where it comes from, for the message.
            base: where relative paths start; without it a path stays as it is.

        Raises:
            SettingsError: `setting_invalid`; `setting_missing` for None or an empty required text.
        """
        if self.default is None and value in (None, ""):
            raise SettingsError("setting_missing", name=self.name, source=source)
        if self.kind == "bool":
            if not isinstance(value, bool):
                raise self._invalid(value, source, "it must be true or false")
            return value
        if self.kind in ("int", "float"):
            return self._number(value, source)
        if self.kind == "texts":
            if not isinstance(value, (list, tuple)) or len(value) > MAX_TEXTS:
                raise self._invalid(value, source, f"it must be a list of at most {MAX_TEXTS}")
            return tuple(self._text(item, source) for item in value)
        text = self._text(value, source)
        if self.kind == "path" and text and base is not None:
            return str(base / os.path.expanduser(text))
        return text

    def _number(self, value: object, source: str) -> int | float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._invalid(value, source, "it must be a number")
        if self.kind == "int" and not isinstance(value, int):
            raise self._invalid(value, source, "it must be a whole number")
        least = -_MAX_NUMBER if self.minimum is None else self.minimum
        most = _MAX_NUMBER if self.maximum is None else self.maximum
        if isinstance(value, float) and not math.isfinite(value):
            raise self._invalid(value, source, "it must be finite")
        if value < least:
            raise self._invalid(value, source, f"it must be at least {least:.15g}")
        if value > most:
            raise self._invalid(value, source, f"it must be at most {most:.15g}")
        return float(value) if self.kind == "float" else value

    def _text(self, value: object, source: str) -> str:
        if not isinstance(value, str) or len(value) > MAX_TEXT_CHARACTERS:
            raise self._invalid(
                value, source, f"it must be a text of at most {MAX_TEXT_CHARACTERS} characters"
            )
        if not value.isprintable():
            raise self._invalid(value, source, "it must not hold characters that cannot be printed")
        if self.choices and value not in self.choices:
            raise self._invalid(value, source, f"it must be one of {', '.join(self.choices)}")
        reason = self.fault(value) if self.fault is not None else ""
        if reason:
            raise self._invalid(value, source, reason)
        return value

    def _invalid(self, value: object, source: str, reason: str) -> SettingsError:
        shown = "so long a text" if _is_long(value) else repr(value)[:_SHOWN_CHARACTERS]
        return SettingsError(
            "setting_invalid", name=self.name, value=shown, source=source, reason=reason
        )


def declare(*settings: Setting) -> tuple[Setting, ...]:
    """A program's table, proven: names differ, and every default is a value of its setting.

    Raises:
        LookupError: it is not so, which is a programming error.
    """
    names = [setting.name for setting in settings]
    for setting in settings:
        if names.count(setting.name) > 1:
            raise LookupError(f"the setting {setting.name} is declared twice")
        if any(name.startswith(f"{setting.name}.") for name in names):
            raise LookupError(f"the setting {setting.name} is a table, too")
        if setting.kind not in get_args(Kind):
            raise LookupError(f"the setting {setting.name} has the unknown kind {setting.kind}")
        if setting.default is not None:
            try:
                same = setting.check(setting.default, "its declaration") == setting.default
            except SettingsError as cause:
                raise LookupError(str(cause)) from cause
            if not same or (setting.default in ((), "") and setting.choices):
                raise LookupError(f"the default of {setting.name} is not of its kind")
    return settings


def find(declared: Sequence[Setting], name: str, source: str) -> Setting:
    """The setting of a name.

    Raises:
        SettingsError: `setting_unknown`, with the name that is most like it.
    """
    for setting in declared:
        if setting.name == name:
            return setting
    names = [setting.name for setting in declared]
    like = difflib.get_close_matches(name[:_SHOWN_CHARACTERS], names, n=1)
    advice = f"Is {like[0]} meant? " if like else ""
    raise SettingsError(
        "setting_unknown", name=repr(name[:_SHOWN_CHARACTERS]), source=source, advice=advice
    )


def check(
    document: Mapping[str, object],
    declared: Sequence[Setting],
    source: str,
    base: Path | None = None,
) -> dict[str, Value]:
    """The values of all settings, in the order of their declaration, defaults included.

    Args:
        document: a decoded file: tables may be nested or written with dotted names.
        declared: the table.
        source: what the document is called in messages.
        base: where relative paths start; None leaves them as they are.

    Raises:
        SettingsError: `setting_unknown`, `setting_missing`, `setting_invalid`.
    """
    given = _flat(document, declared)
    for name in given:
        find(declared, name, source)
    return {
        setting.name: setting.check(given.get(setting.name, setting.default), source, base)
        for setting in declared
    }


def read(path: Path, declared: Sequence[Setting]) -> dict[str, Value]:
    """The values of all settings, as a file and the defaults say.

    Raises:
        SettingsError: `settings_unreadable` (no file, larger than 64 KiB, not TOML), or as `check`.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as cause:
        raise _unreadable(path, cause.strerror or str(cause)) from cause
    if len(data) > MAX_FILE_BYTES:
        raise _unreadable(path, f"it is larger than {MAX_FILE_BYTES} bytes")
    try:
        document = tomllib.loads(data.decode())
    except UnicodeDecodeError as cause:
        raise _unreadable(path, "it is not UTF-8") from cause
    except (ValueError, RecursionError) as cause:  # TOMLDecodeError is a ValueError
        raise _unreadable(path, str(cause)) from cause
    base = path.absolute().parent
    try:
        return check(document, declared, str(path), base)
    except SettingsError as error:
        line = _line_of(data.decode(), str(error.fields.get("name", "")).strip("'\""))
        if not line:
            raise
        return check(document, declared, f"{path}, line {line},", base)


def _line_of(text: str, name: str) -> int:
    """The line of a file that gives a setting, as far as it can be told; 0 when it cannot."""
    table, _, last = name.rpartition(".")
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("[") and stripped.endswith("]"):
            current = stripped.strip("[] ")
            if current == name:
                return number
            continue
        key = stripped.partition("=")[0].strip().strip("\"'")
        if key and (key == name or (key == last and current == table)):
            return number
    return 0


def template(declared: Sequence[Setting], given: Mapping[str, object], heading: str) -> str:
    """The text of a new file: what is given, and every default as a comment.

    Raises:
        SettingsError: `setting_unknown`, `setting_missing`, `setting_invalid`.
    """
    check(given, declared, "the new configuration")
    lines = [f"# {line}" for line in heading.splitlines()]
    for setting in declared:
        lines += ["", *(f"# {line}" for line in _wrapped(_explained(setting)))]
        mark = "" if setting.name in given else "# "
        lines.append(f"{mark}{setting.name} = {toml(given.get(setting.name, setting.default))}")
    return "\n".join(lines) + "\n"


def rows(declared: Sequence[Setting]) -> list[tuple[str, str, str, str, str]]:
    """For the docs, a row a setting: name, what it takes, default, unit, meaning."""
    return [
        (
            setting.name,
            _takes(setting),
            "required" if setting.default is None else toml(setting.default),
            setting.unit,
            setting.description + (" May change while it runs." if setting.is_live else ""),
        )
        for setting in declared
    ]


def toml(value: object) -> str:
    """A value in TOML; an absent one as an empty text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    if isinstance(value, (int, float)):
        return repr(value)
    # JSON's escapes are TOML's, but for the one character that only TOML wants escaped.
    return json.dumps(str(value or ""), ensure_ascii=False).replace("\x7f", "\\u007f")


def _flat(document: Mapping[str, object], declared: Sequence[Setting]) -> dict[str, object]:
    """Dotted names; only tables that are declared are entered, so nothing deep is followed."""
    tables = {
        setting.name[:at] for setting in declared for at, c in enumerate(setting.name) if c == "."
    }
    flat: dict[str, object] = {}
    waiting: list[tuple[str, object]] = [(str(name), value) for name, value in document.items()]
    while waiting:
        name, value = waiting.pop(0)
        if isinstance(value, Mapping) and name in tables:
            waiting += [(f"{name}.{inner}", found) for inner, found in value.items()]
        else:
            flat[name] = value
    return flat


def _explained(setting: Setting) -> str:
    unit = f" ({setting.unit})" if setting.unit else ""
    bounded = setting.choices or (setting.minimum, setting.maximum) != (None, None)
    takes = f" Takes {_takes(setting)}{unit}." if bounded or unit else ""
    return setting.description + takes


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 96, break_long_words=False, break_on_hyphens=False)


def _takes(setting: Setting) -> str:
    words = _KIND_WORDS[setting.kind]
    if setting.choices:
        listed = ", ".join(setting.choices)
        return f"{words} out of {listed}" if setting.kind == "texts" else f"one of {listed}"
    if setting.minimum is not None and setting.maximum is not None:
        return f"{words}, {setting.minimum:.15g} to {setting.maximum:.15g}"
    if setting.minimum is not None:
        return f"{words}, at least {setting.minimum:.15g}"
    if setting.maximum is not None:
        return f"{words}, at most {setting.maximum:.15g}"
    return words


def _is_long(value: object) -> bool:
    return isinstance(value, str) and len(value) > MAX_TEXT_CHARACTERS


def _unreadable(path: Path, reason: str) -> SettingsError:
    return SettingsError("settings_unreadable", path=path, reason=reason)
