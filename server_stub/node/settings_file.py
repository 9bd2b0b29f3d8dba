"""Changes in a configuration file that leave everything else in it as it is.

Owns: the replacing of lines. Must not: know what a setting means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from gpugoblin.blobs.files import durable_write
from gpugoblin.settings import toml
from server_stub.node import settings as node_settings

__all__ = ["filled", "rewrite"]


def filled(text: str, values: Mapping[str, object]) -> str:
    """A file's text with these settings: in their own line, in the line of their comment, or at
    the end."""
    for name, value in values.items():
        line = f"{name} = {toml(value)}"
        given = re.compile(rf"^[ \t]*{re.escape(name)}[ \t]*=.*$", re.MULTILINE)
        comment = re.compile(rf"^#[ \t]*{re.escape(name)}[ \t]*=.*$", re.MULTILINE)
        for pattern in (given, comment):
            if pattern.search(text):
                text = pattern.sub(lambda _: line, text, count=1)  # noqa: B023 - used at once
                break
        else:
            text = f"{text.rstrip()}\n\n{line}\n"
    return text


def rewrite(path: Path, values: Mapping[str, object]) -> node_settings.NodeSettings:
    """Changes settings in a file, in one step, after the new text was checked.

    Raises:
        SettingsError: as `settings.load`; the file is as it was.
        StoreError: `disk_full`, `disk_failed`.
    """
    node_settings.load(path)
    new = filled(path.read_text(encoding="utf-8"), values)
    beside = path.with_name(f".{path.name}.new")
    try:
        durable_write(beside, new.encode())
        node_settings.load(beside)
        durable_write(path, new.encode())
    finally:
        beside.unlink(missing_ok=True)
    return node_settings.load(path)
