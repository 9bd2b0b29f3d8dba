"""`gpugoblin app`: the window and the tray.

Owns: arguments, the one instance, and the start of an agent where none runs. Qt is imported only
when it is known that this process shows something.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from app.control.texts import speak, wanted_language
from gpugoblin.errors import AgentError

__all__ = ["command", "start_agent"]

PAGES: Final = ("now", "when", "how_much", "labs", "history", "privacy", "account", "help")


def command(arguments: Sequence[str], listens_at: Callable[[Path | None], Path]) -> int:
    """Shows what this machine lends, and lets its owner say when.

    Args:
        arguments: the words after `gpugoblin app`.
        listens_at: gives the control directory of the agent with this settings file, or with none.

    Raises:
        AgentError: `control_version`, `control_refused`, `display_missing`, `window_missing`.
        SettingsError: the settings file is not one.
    """
    options = _parser().parse_args(arguments)
    speak(wanted_language())
    directory = options.control_directory or listens_at(options.config)
    if not options.background and _shown_already(directory, options.page):
        return 0
    return _show(options, directory)


def start_agent(config: Path | None) -> None:
    """Starts an agent that outlives this process. Two of them cannot be: the second ends itself."""
    words = [sys.executable, "-I", "-m", "app.main", "--console"]
    if config is not None:
        words += ["--config", str(config)]
    subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        close_fds=True,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpugoblin app", description="The window and the tray: what is lent, and when."
    )
    parser.add_argument("--background", action="store_true", help="begin in the tray")
    parser.add_argument("--page", choices=PAGES, default="", help="open this page")
    parser.add_argument("--config", type=Path, help="the agent's TOML file")
    parser.add_argument("--control-directory", type=Path, help="where the agent listens")
    parser.add_argument("--no-agent", action="store_true", help="never start an agent")
    return parser


def _shown_already(directory: Path, page: str) -> bool:
    """Whether a window's program is there, which comes to the front now."""
    from app.control.client import ControlClient
    from app.control.messages import Accepted, Show

    try:
        with ControlClient(directory, timeout_s=2.0) as control:
            answer = control.ask(Show(control.number(), page))
    except AgentError as error:
        if error.code in ("control_away", "control_malformed"):
            return False
        raise
    return isinstance(answer, Accepted) and answer.is_new


def _show(options: argparse.Namespace, directory: Path) -> int:
    if not os.environ.get("QT_QPA_PLATFORM") and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        raise AgentError("display_missing")
    try:
        from PySide6.QtCore import QTimer
        from PySide6.QtWidgets import QApplication
    except ImportError as cause:
        raise AgentError("window_missing", reason=cause) from cause
    from app.ui.autostart import DESKTOP_ID, exec_line
    from app.ui.fonts import missing_font
    from app.ui.program import Program, Setup

    application = QApplication(sys.argv[:1])
    application.setApplicationName("gpugoblin")
    application.setDesktopFileName(DESKTOP_ID)
    missing = missing_font(wanted_language())
    if missing:
        speak("en")
        print(missing, file=sys.stderr)
    setup = Setup(
        directory,
        None if options.no_agent else lambda: start_agent(options.config),
        options.background,
        exec_line(_at_login(options)),
        notice=missing,
    )
    program = Program(application, setup)
    QTimer.singleShot(0, program.begin)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: application.quit())
    _hear_signals(application)
    return application.exec()


def _at_login(options: argparse.Namespace) -> list[str]:
    words = [sys.executable, "-I", "-m", "gpugoblin.cli", "app", "--background"]
    if options.config is not None:
        words += ["--config", str(options.config.absolute())]
    if options.control_directory is not None:
        words += ["--control-directory", str(options.control_directory.absolute())]
    return words


def _hear_signals(parent: object) -> None:
    """Lets Python see signals while Qt waits: they write to a socket that wakes the loop.

    No timer does it, since one would wake the processor for nothing all day.
    """
    import socket

    from PySide6.QtCore import QObject, QSocketNotifier

    inner, outer = socket.socketpair()
    for end in (inner, outer):
        end.setblocking(False)
    signal.set_wakeup_fd(outer.fileno(), warn_on_full_buffer=False)
    if not isinstance(parent, QObject):
        raise TypeError("a QObject was expected")
    notifier = QSocketNotifier(inner.fileno(), QSocketNotifier.Type.Read, parent)

    def drain() -> None:
        with contextlib.suppress(BlockingIOError):
            inner.recv(4096)

    notifier.activated.connect(drain)
    # They live as long as the application does.
    parent.setProperty("signal_sockets", [inner, outer])
