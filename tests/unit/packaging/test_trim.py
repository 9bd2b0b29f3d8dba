"""What the packages leave out, and that they leave nothing out that the program imports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.packaging_script import script

ROOT = Path(__file__).parents[3]
TRIM = script("tree/trim")

KEPT = (
    "PySide6/__init__.py", "PySide6/QtCore.abi3.so", "PySide6/libpyside6.abi3.so.6.11",
    "PySide6/Qt/lib/libQt6Core.so.6", "PySide6/Qt/lib/libicudata.so.73",
    "PySide6/Qt/plugins/platforms/libqxcb.so",
    "PySide6/Qt/plugins/wayland-shell-integration/libxdg-shell.so", "numpy/__init__.py",
    "numpy/testing/__init__.py", "numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so",
    "gpugoblin-1.dist-info/METADATA", "gpugoblin-1.dist-info/licenses/LICENSE", "app/main.py",
)  # fmt: skip
DROPPED = (
    "PySide6/QtQml.abi3.so", "PySide6/QtCore.pyi", "PySide6/designer", "PySide6/Qt/qml/a/b.qml",
    "PySide6/Qt/translations/qt_de.qm", "PySide6/Qt/lib/libQt6Quick.so.6",
    "PySide6/Qt/plugins/platforms/libqvnc.so", "PySide6/Qt/plugins/sqldrivers/libqsqlite.so",
    "numpy/tests/test_a.py", "numpy/_core/lib/libnpymath.a", "numpy/_core/include/numpy/a.h",
    "numpy/f2py/__init__.py", "numpy/_core/_simd.cpython-311-x86_64-linux-gnu.so",
    "numpy/_core/_umath_tests.cpython-311-x86_64-linux-gnu.so", "gpugoblin-1.dist-info/RECORD",
    "gpugoblin-1.dist-info/direct_url.json", "server_stub/node/node.py", "app/__pycache__/m.pyc",
)  # fmt: skip


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for name in (*KEPT, *DROPPED):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    entries = tmp_path / "gpugoblin-1.dist-info" / "entry_points.txt"
    entries.write_text("[gpugoblin.commands]\nagent = app.main:a\nnode = server_stub.node:b\n")
    TRIM.trim(tmp_path)
    return tmp_path


def test_what_is_needed_stays_and_the_rest_goes(site: Path) -> None:
    left = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    assert left == {*KEPT, "gpugoblin-1.dist-info/entry_points.txt"}


def test_commands_of_what_is_left_out_have_no_names(site: Path) -> None:
    text = (site / "gpugoblin-1.dist-info" / "entry_points.txt").read_text()
    assert text == "[gpugoblin.commands]\nagent = app.main:a\n"


def test_every_module_of_qt_that_the_program_imports_stays() -> None:
    imported = set()
    for path in (ROOT / "app").rglob("*.py"):
        imported.update(re.findall(r"^\s*from PySide6\.(\w+) import", path.read_text(), re.M))
        imported.update(re.findall(r"^\s*import PySide6\.(\w+)", path.read_text(), re.M))
    assert {"QtCore", "QtWidgets"} <= imported <= set(TRIM.QT_MODULES)


def test_nothing_of_ours_imports_what_is_left_out() -> None:
    for part in ("app", "gpugoblin"):
        for path in (ROOT / part).rglob("*.py"):
            assert not re.search(r"\b(pygments|numpy\.f2py|rich\.(syntax|markdown|traceback))\b",
                                 path.read_text()), path  # fmt: skip
