"""The manual pages say what the parsers say, in words that `man` takes without a warning."""

from __future__ import annotations

import argparse
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.packaging_script import script

MANUALS = script("tree/manuals")


def test_a_page_has_every_option_and_command() -> None:
    parser = argparse.ArgumentParser(prog="gpugoblin thing", description="Does a thing.")
    parser.add_argument("--level", choices=("low", "high"), help="how much")
    parser.add_argument("--hidden", help=argparse.SUPPRESS)
    below = parser.add_subparsers()
    below.add_parser("go", description=".starts with a point\\").add_argument("name", help="whose")
    text = MANUALS.page(parser, "1.0")
    assert text.startswith(".TH GPUGOBLIN\\-THING 1 ")
    assert ".B \\-\\-level low,high\nhow much\n" in text
    assert "hidden" not in text
    assert ".SS go\n" in text
    assert "\\&.starts with a point\\e" in text
    assert ".B name\nwhose\n" in text


def test_the_overview_names_every_command() -> None:
    pages = MANUALS.pages()
    assert set(pages) == {"gpugoblin.1", "gpugoblin-agent.1", "gpugoblin-app.1"}
    for name in ("agent", "app", "doctor", "pause", "why"):
        assert f".B {name}\n" in pages["gpugoblin.1"]


@pytest.mark.skipif(shutil.which("groff") is None and shutil.which("man") is None,
                    reason="neither man nor groff is installed")  # fmt: skip
def test_man_shows_them_without_a_warning(tmp_path: Path) -> None:
    MANUALS.main(tmp_path)
    for page in sorted(tmp_path.iterdir()):
        shown = subprocess.run(
            ["man", "--warnings", "-E", "UTF-8", "-l", str(page)],
            capture_output=True, text=True, env={"MANWIDTH": "100", "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        assert (shown.returncode, shown.stderr) == (0, "")
        assert "gpugoblin" in shown.stdout
