"""Writes the program's icon in every size that desktops ask for, as the window paints it.

Owns: the sizes and the places of the icon theme (freedesktop.org, Icon Theme Specification).
"""

from __future__ import annotations

import sys
from pathlib import Path

SIZES = (16, 24, 32, 48, 64, 128, 256, 512)


def main(theme: Path) -> None:
    """Writes them below the folder of a theme.

    Raises:
        OSError: a picture could not be written.
    """
    from PySide6.QtGui import QGuiApplication

    from app.ui.autostart import DESKTOP_ID
    from app.ui.icons import pixmap

    application = QGuiApplication.instance() or QGuiApplication(sys.argv[:1])
    for size in SIZES:
        place = theme / f"{size}x{size}" / "apps" / f"{DESKTOP_ID}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        if not pixmap("ready", size).save(str(place)):
            raise OSError(f"{place} could not be written")
    del application


if __name__ == "__main__":
    main(Path(sys.argv[1]))
