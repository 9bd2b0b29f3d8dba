"""Removes from a folder of installed packages what the program does not use.

Owns: that choice, for the packages for contributors alone: of Qt what widgets, the tray and the
window systems need; of all others no tests, headers, types and tools; of ours not the servers. What
stays is proven by the window that starts from the package (tests/packages).
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

# Of Qt: the modules that app.ui imports, the libraries that those and the plugins load.
QT_MODULES = ("QtCore", "QtGui", "QtWidgets")
QT_FILES = ("__init__.py", "_config.py", "_git_pyside_version.py", "support", "Qt", "LICENSE")
QT_LIBRARIES = ("Core", "DBus", "Gui", "OpenGL", "WaylandClient", "Widgets", "XcbQpa")
QT_PLUGINS = {
    "platforminputcontexts": "",
    "platforms": r"libq(offscreen|wayland|wayland-generic|xcb)\.so",
    "platformthemes": "",
    "wayland-decoration-client": "",
    "wayland-shell-integration": "",
}
"""Folders of plugins that stay, with the names in them that do; empty: all."""

DROPPED_FOLDERS = {"__pycache__", "tests", "test", "test_data", "sboms", "_pyinstaller"}
DROPPED_FILES = re.compile(
    r".*\.(a|c|cpp|h|hpp|pxd|pyi|pyx|qm)|py\.typed|(_simd|_\w+_tests)\.cpython-.*\.so"
)
# rich colours source code with pygments, which nothing of ours shows.
DROPPED_TOPS = ("numpy/distutils", "numpy/f2py", "pygments", "server_stub")
DROPPED_RECORDS = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "top_level.txt")


def trim(site: Path) -> None:
    """Removes it."""
    for name in DROPPED_TOPS:
        shutil.rmtree(site / name, ignore_errors=True)
    if (site / "PySide6").is_dir():
        _trim_qt(site / "PySide6")
    for path in sorted(site.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if path.name in DROPPED_FOLDERS:
                shutil.rmtree(path)
        elif DROPPED_FILES.fullmatch(path.name) or _is_record(path):
            path.unlink(missing_ok=True)
    for path in site.glob("gpugoblin-*.dist-info/entry_points.txt"):
        _without_servers(path)


def _is_record(path: Path) -> bool:
    return path.parent.name.endswith(".dist-info") and path.name in DROPPED_RECORDS


def _trim_qt(folder: Path) -> None:
    kept = re.compile(rf"({'|'.join(QT_MODULES)})\.abi3\.so|libpyside6\.abi3\.so.*")
    for path in folder.iterdir():
        if path.name not in QT_FILES and not kept.fullmatch(path.name):
            _remove(path)
    libraries = re.compile(rf"libQt6({'|'.join(QT_LIBRARIES)})\.so\.6|libicu.*")
    for path in (folder / "Qt").iterdir():
        if path.name not in ("lib", "plugins"):
            _remove(path)
    for path in (folder / "Qt" / "lib").iterdir():
        if not libraries.fullmatch(path.name):
            _remove(path)
    for path in (folder / "Qt" / "plugins").iterdir():
        wanted = QT_PLUGINS.get(path.name)
        for plugin in path.iterdir():
            if wanted is None or (wanted and not re.fullmatch(wanted, plugin.name)):
                _remove(plugin)
        if wanted is None:
            path.rmdir()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _without_servers(entries: Path) -> None:
    """The commands of coordinator and lab node are not in the package, so nor are their names."""
    lines = entries.read_text(encoding="utf-8").splitlines(keepends=True)
    entries.write_text("".join(one for one in lines if "server_stub" not in one), encoding="utf-8")


if __name__ == "__main__":
    trim(Path(sys.argv[1]))
