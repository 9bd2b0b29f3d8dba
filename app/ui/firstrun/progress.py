"""How far the first run came, kept on disk so that it goes on where it was left.

Owns: one small file in the user's state directory. Must not: decide what a page shows; a file that
cannot be read means that nothing was begun, one that cannot be written is not worth a word.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

__all__ = ["DONE", "STEPS", "Progress"]

STEPS: Final = ("welcome", "account", "cards", "profile", "privacy", "start")
"""The pages, in their order."""

DONE: Final = "done"
MAX_BYTES: Final = 64


class Progress:
    """Where the first run stands: a step, `done`, or "" before it began.

    Args:
        path: of the file; by default in the state directory of the user.
    """

    def __init__(self, path: Path | None = None) -> None:
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        self.path = path or Path(base) / "gpugoblin" / "window" / "first-run"

    def read(self) -> str:
        """The step that was seen last."""
        try:
            with self.path.open(encoding="utf-8") as file:
                word = file.read(MAX_BYTES).strip()
        except (OSError, UnicodeDecodeError):
            return ""
        return word if word in (*STEPS, DONE) else ""

    def keep(self, word: str) -> None:
        """Remembers a step. Never fails: the worst is that a page is shown once more."""
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = self.path.with_suffix(".new")
            new.write_text(f"{word}\n", encoding="utf-8")
            new.replace(self.path)
