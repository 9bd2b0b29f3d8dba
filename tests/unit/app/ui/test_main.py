"""The command: one instance, a clear word where there is no screen, and what it must not load."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from app.control.messages import Show
from app.main import listens_at
from app.ui import main as ui_main
from app.ui.main import command
from gpugoblin.errors import AgentError
from tests.helpers.served_agent import ServedAgent


def test_without_a_screen_it_says_so(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("QT_QPA_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(AgentError, match="display_missing"):
        command(["--control-directory", str(short_path), "--no-agent"], listens_at)


def test_a_second_start_asks_the_first_to_come_up(served: ServedAgent, link: object) -> None:
    words = ["--control-directory", str(served.directory), "--page", "history", "--no-agent"]
    assert command(words, listens_at) == 0
    shown = [one for one in served.asked if isinstance(one, Show)]
    assert [one.page for one in shown] in (["history"], [])


@pytest.mark.parametrize("runtime", ["/run/user/1", ""])
def test_it_looks_where_the_agent_with_these_settings_listens(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(_: argparse.Namespace, directory: Path) -> int:
        looked.append(directory)
        return 0

    looked: list[Path] = []
    monkeypatch.setattr(ui_main, "_show", shown)
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    config = tmp_path / "agent.toml"
    config.write_text('control_directory = "here"\n')
    for words in ([], ["--config", str(config)], ["--control-directory", "/there"]):
        assert command([*words, "--background"], listens_at) == 0
    assert looked == [listens_at(None), tmp_path / "here", Path("/there")]
    assert (looked[0] == Path("/run/user/1/gpugoblin")) is bool(runtime)


def test_at_login_it_starts_with_the_same_settings(tmp_path: Path) -> None:
    options = ui_main._parser().parse_args(["--config", str(tmp_path / "agent.toml")])
    assert ui_main._at_login(options)[-2:] == ["--config", str(tmp_path / "agent.toml")]


def test_qt_is_loaded_when_something_is_shown_and_not_before() -> None:
    code = (
        "import sys, app.ui.main\n"
        "bad = [n for n in ('PySide6', 'numpy', 'asyncio', 'app.agent') if n in sys.modules]\n"
        "sys.exit(repr(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_tray_alone_loads_no_page() -> None:
    code = (
        "import sys, app.ui.program\n"
        "bad = [n for n in sys.modules if n.startswith('app.ui.pages')"
        " or n in ('numpy', 'asyncio', 'psutil', 'app.ui.window')]\n"
        "sys.exit(repr(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
