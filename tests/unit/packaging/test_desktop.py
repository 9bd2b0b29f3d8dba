"""The entry, the description and the icons that a desktop reads."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as Xml
from pathlib import Path

import polib  # type: ignore[import-untyped]  # the package says no types of its own
import pytest

from app.control.texts import CATALOGS, LANGUAGES
from app.ui.autostart import DESKTOP_ID
from tests.helpers.packaging_script import PACKAGING, script

ENTRY = PACKAGING / "desktop" / f"{DESKTOP_ID}.desktop"
METAINFO = PACKAGING / "metainfo" / f"{DESKTOP_ID}.metainfo.xml"


def entry() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, delimiters="=")
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys as they are written
    parser.read(ENTRY, encoding="utf-8")
    return parser


def test_every_action_is_there_in_every_language() -> None:
    found = entry()
    actions = found["Desktop Entry"]["Actions"].strip(";").split(";")
    assert actions == ["Pause", "Resume", "Quit"]
    for section in ("Desktop Entry", *(f"Desktop Action {one}" for one in actions)):
        keys = ("GenericName", "Comment", "Keywords") if section == "Desktop Entry" else ("Name",)
        for key in keys:
            for language in set(LANGUAGES) - {"en"}:
                assert found[section].get(f"{key}[{language}]"), (section, key, language)


@pytest.mark.parametrize(("action", "text"), [("Pause", "Pause for an hour"), ("Resume", "Resume")])
def test_its_words_are_those_of_the_tray(action: str, text: str) -> None:
    section = entry()[f"Desktop Action {action}"]
    assert section["Name"] == text
    for language in set(LANGUAGES) - {"en"}:
        told = polib.pofile(str(CATALOGS / f"{language}.po")).find(text).msgstr
        assert section[f"Name[{language}]"] == told


def test_its_commands_are_commands() -> None:
    from importlib.metadata import entry_points

    from app.main import _parser

    names = {one.name for one in entry_points(group="gpugoblin.commands")}
    found = entry()
    for section in found.sections():
        program, name, *rest = found[section]["Exec"].split()
        assert program == "/usr/bin/gpugoblin"
        assert name in names
        if section != "Desktop Entry":
            _parser().parse_args(rest if name == "agent" else [name, *rest])


@pytest.mark.skipif(shutil.which("desktop-file-validate") is None, reason="not installed here")
def test_the_desktops_own_judge_agrees() -> None:
    subprocess.run(["desktop-file-validate", str(ENTRY)], check=True)


def test_the_description_is_of_this_program() -> None:
    found = Xml.parse(METAINFO).getroot()  # noqa: S314 (a file of our own)
    assert found.findtext("id") == DESKTOP_ID
    assert found.findtext("launchable") == ENTRY.name


@pytest.mark.skipif(shutil.which("appstreamcli") is None, reason="appstream is not installed")
def test_appstream_takes_the_description(tmp_path: Path) -> None:
    text = METAINFO.read_text().replace("@VERSION@", "1.2.3").replace("@DATE@", "2026-12-01")
    (tmp_path / METAINFO.name).write_text(text)
    words = ["appstreamcli", "validate", "--no-net", "--explain", str(tmp_path / METAINFO.name)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_icon_is_there_in_every_size(tmp_path: Path) -> None:
    pytest.importorskip(
        "PySide6.QtGui",
        reason="PySide6 or a library of the desktop is missing",
        exc_type=ImportError,
    )
    words = [sys.executable, str(PACKAGING / "tree" / "icons.py"), str(tmp_path)]
    subprocess.run(words, check=True, env={**os.environ, "QT_QPA_PLATFORM": "offscreen"})
    sizes = script("tree/icons").SIZES
    for size in sizes:
        data = (tmp_path / f"{size}x{size}" / "apps" / f"{DESKTOP_ID}.png").read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        assert data[16:24] == size.to_bytes(4, "big") * 2
