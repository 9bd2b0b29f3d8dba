"""The command line: commands are found, not imported; errors end them plainly."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint

import pytest

from gpugoblin import __version__, cli
from gpugoblin.errors import ClientError

STATUS_OF_WORDS: list[list[str]] = []


def good(words: list[str]) -> int:
    STATUS_OF_WORDS.append(words)
    return 7


def refusing(words: list[str]) -> int:
    raise ClientError("not_connected")


def interrupted(words: list[str]) -> int:
    raise KeyboardInterrupt


def unread(words: list[str]) -> int:
    raise BrokenPipeError


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    here: dict[str, Callable[[list[str]], int]] = {
        "good": good, "refusing": refusing, "interrupted": interrupted, "unread": unread
    }  # fmt: skip
    entries = {name: EntryPoint(name, f"{__name__}:{name}", cli.GROUP) for name in here}
    entries["broken"] = EntryPoint("broken", "server_stub.nothing:main", cli.GROUP)
    monkeypatch.setitem(sys.modules, __name__, sys.modules[good.__module__])
    monkeypatch.setattr(cli, "commands", lambda: entries)


def test_a_command_gets_its_words_and_gives_the_status() -> None:
    STATUS_OF_WORDS.clear()
    assert cli.main(["good", "a", "--b"]) == 7
    assert STATUS_OF_WORDS == [["a", "--b"]]


def test_an_error_is_one_line_with_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["refusing"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("gpugoblin: No lab node is connected.")
    assert err.endswith("[not_connected]\n")
    assert err.count("\n") == 1


def test_a_command_whose_part_is_not_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["broken"]) == 1
    err = capsys.readouterr().err
    assert "gpugoblin[node]" in err
    assert "[command_failed]" in err


def test_interruptions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli.main(["interrupted"]) == 130
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    assert cli.main(["unread"]) == 0


@pytest.mark.parametrize("words", [[], ["nothing"]])
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    lines = [line.split()[0] for line in (out + err).splitlines() if line.startswith("  ")]
    assert lines == ["broken", "good", "interrupted", "refusing", "unread"]


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 0
    assert "usage: gpugoblin COMMAND" in capsys.readouterr().out


def test_each_real_command_has_a_line_of_words() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "gpugoblin", "--help"], capture_output=True, text=True, check=True
    )
    lines = [line for line in finished.stdout.splitlines() if line.startswith("  ")]
    assert {line.split()[0] for line in lines} >= {"agent", "coordinator", "job", "jobs", "node"}
    assert all(len(line.split()) > 3 and line.endswith(".") for line in lines)


def test_the_words_are_the_first_line_of_the_docstring() -> None:
    assert cli._purpose(EntryPoint("x", "gpugoblin.cli:main", cli.GROUP)).startswith("Runs one")
    assert cli._purpose(EntryPoint("x", "gpugoblin.cli:nothing", cli.GROUP)) == ""
    assert cli._purpose(EntryPoint("x", "no_such_package.x:main", cli.GROUP)) == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"gpugoblin {__version__}\n"


def test_listing_the_commands_imports_none() -> None:
    program = (
        "import sys; from gpugoblin import cli; cli.main(['--help']); "
        "print([m for m in ('numpy', 'requests', 'server_stub', 'app') if m in sys.modules])"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert finished.stdout.splitlines()[-1] == "[]"


def test_the_real_table_has_the_researchers_commands() -> None:
    program = "from gpugoblin import cli; print(sorted(cli.commands()))"
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    for name in ("job", "jobs"):
        assert repr(name) in finished.stdout


def test_the_module_is_the_command() -> None:
    """Desktops start the window at login with these very words (app.ui.main)."""
    words = [sys.executable, "-I", "-m", "gpugoblin.cli", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == f"gpugoblin {__version__}\n"
