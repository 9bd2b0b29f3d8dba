"""Whether the window's program is started at login: one file, whose real state is read each time.

Owns: the entry in the desktop's autostart folder (freedesktop.org, Desktop Application Autostart).
Must not: remember what it wrote; somebody else may change it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["DESKTOP_ID", "Autostart", "entry_text", "exec_line"]

DESKTOP_ID: Final = "org.gpugoblin.App"
MAX_BYTES: Final = 64 * 1024


def exec_line(words: Sequence[str]) -> str:
    """The words as the Exec key takes them (Desktop Entry Specification, The Exec key).

    What is not plain stands in double quotes; a backslash is written four times, since the value of
    a key is read before its quotes are.
    """

    def quoted(word: str) -> str:
        word = word.replace("%", "%%")
        if re.fullmatch(r"[\w@%+=:,./-]+", word):
            return word
        escaped = re.sub(r'(["`$\\])', r"\\\1", word)
        return '"' + escaped.replace("\\", "\\\\") + '"'

    return " ".join(map(quoted, words))


def entry_text(command: str) -> str:
    """The entry. `command` starts the program in the background."""
    return (
        "[Desktop Entry]\n"
        "Type=Application\n"
        "Name=gpugoblin\n"
        "Comment=Lend idle graphics cards to research\n"
        f"Exec={command}\n"
        f"Icon={DESKTOP_ID}\n"
        "Terminal=false\n"
        "X-GNOME-Autostart-enabled=true\n"
    )


class Autostart:
    """The autostart entry of this user.

    Args:
        command: what to start, quoted as the Exec key of a desktop entry wants it.
        folder: the autostart folder; by default that of the desktop.
    """

    def __init__(self, command: str, folder: Path | None = None) -> None:
        base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        self.path = (folder or base / "autostart") / f"{DESKTOP_ID}.desktop"
        self._command = command

    def is_on(self) -> bool:
        """Whether the desktop would start us."""
        try:
            with self.path.open(encoding="utf-8") as file:
                text = file.read(MAX_BYTES)
        except (OSError, UnicodeDecodeError):
            return False
        off = ("hidden=true", "x-gnome-autostart-enabled=false")
        return not any(line.strip().lower().replace(" ", "") in off for line in text.splitlines())

    def set(self, on: bool) -> None:
        """Raises OSError when the folder cannot be written."""
        if not on:
            self.path.unlink(missing_ok=True)
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        new.write_text(entry_text(self._command), encoding="utf-8")
        new.replace(self.path)
