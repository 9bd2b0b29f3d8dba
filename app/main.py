"""The contributor's program: `python -I -m app.main --console`, and `gpugoblin agent ...`.

Owns: arguments, exit statuses and what is printed. Must not: import Qt or NumPy, or anything of the
agent before it is known what is asked for, so that `status` answers in milliseconds.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.control.texts import _, speak, wanted_language
from gpugoblin.errors import AgentError, GoblinError

if TYPE_CHECKING:
    from app.agent.settings import Settings
    from app.control.client import ControlClient
    from app.control.outcome import Verb

__all__ = ["agent_command", "listens_at", "main"]

FAILED: Final = 1
ILL: Final = 3
"""What `doctor` returns when it found something."""

SETTLE_S: Final = 2.0
"""How long a command waits for what it asked for to show."""

SHOWN_AFTER_S: Final = 0.15
"""A running agent shows what changed within this; before it, its status may be of the past."""

_LOUD: Final = re.compile(r"not lending|fail|refuse|does not|ended by itself|cannot")
_DURATION: Final = re.compile(r"(\d{1,6})([smhd])")
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m app.main`: the agent alone, without a window."""
    parser = argparse.ArgumentParser(
        prog="gpugoblin", description="Lend this machine to research projects."
    )
    parser.add_argument(
        "--console", action="store_true", required=True, help="run without a window, tell by lines"
    )
    _add_config(parser)
    _add_json(parser)
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except GoblinError as error:
        print(f"gpugoblin: {error}", file=sys.stderr)
        return FAILED


def agent_command(arguments: Sequence[str]) -> int:
    """Lends this machine: run, enrol, status, why, settings, logs, history, doctor, pause, stop.

    Raises GoblinError; whoever called it prints that.
    """
    options = _parser().parse_args(arguments)
    if options.verb != "run":  # an agent's log is read by others than its owner: it stays English
        speak(wanted_language())
    run: Callable[[argparse.Namespace], int] = options.run
    return run(options)


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="tell by JSON, one object a line")


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="the agent's TOML file; else ~/.config/gpugoblin/agent.toml, for root"
        " /etc/gpugoblin/agent.toml, where there is one",
    )


def _parser() -> argparse.ArgumentParser:
    from app.looking import add_looking

    parser = argparse.ArgumentParser(
        prog="gpugoblin agent", description="Lend this machine to research projects."
    )
    commands = parser.add_subparsers(dest="command", required=True)

    def add(
        name: str, run: Callable[[argparse.Namespace], int], text: str
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        _add_config(command)
        command.set_defaults(run=run, verb=name)
        return command

    _add_json(add("run", _run, "Run the agent here and tell by lines what it does and why."))
    add("enrol", _enrol, "Make this device known to the coordinator: shows a code to approve.")
    add_looking(add, _connect)
    doctor = add("doctor", _doctor, "Look at everything that lending needs, with the fix for each.")
    doctor.add_argument(
        "--record", type=Path, metavar="FILE", help="write what the probes see, without names"
    )
    doctor.add_argument(
        "--minutes", type=int, default=60, metavar="N", choices=range(1, 1441), help="so long"
    )
    for name, text in (
        ("pause", "Free the cards at once, for a while or until you resume."),
        ("finish", "Let the running tasks end, then pause."),
        ("stop", "Stop lending and give the grants up, until you resume."),
        ("resume", "Lend again."),
    ):
        command = add(name, _tell, text)
        command.add_argument(
            "--card", type=int, action="append", default=[], help="only this card (repeatable)"
        )
        if name in ("pause", "finish"):
            command.add_argument(
                "--for", dest="duration", metavar="TIME", help="for this long: 30m, 2h, 1d"
            )
            command.add_argument("--until-tomorrow", action="store_true", help="until midnight")
        if name == "stop":
            command.add_argument("--exit", action="store_true", help="end the agent altogether")
    return parser


def _run(options: argparse.Namespace) -> int:
    from app.agent.lean import be_lean

    be_lean()  # before anything else is loaded

    import asyncio

    from app.agent.agent import Agent
    from app.agent.card_start import look_for_cards
    from app.agent.settings import settings_path
    from app.agent.settings_file import SettingsFile

    file = SettingsFile(settings_path(options.config))
    settings = file.read()

    async def lend() -> int:
        say = _say_json if options.json else _say_dim if sys.stdout.isatty() else _say
        agent = Agent(settings, say, look=look_for_cards, file=file)
        return await agent.run()

    return asyncio.run(lend())


def _say(line: str) -> None:
    try:
        print(line, flush=True)
    except OSError:
        return  # nobody reads any more; the agent goes on


def _say_dim(line: str) -> None:
    """On a terminal: the time stands back, and what stops or fails stands out."""
    time_of_day, _, text = line.partition("  ")
    color = "\x1b[33m" if _LOUD.search(text) else ""
    _say(f"\x1b[2m{time_of_day}\x1b[0m  {color}{text}\x1b[0m")


def _say_json(line: str) -> None:
    from msgspec.json import encode

    time_of_day, _, text = line.partition("  ")
    _say(encode({"at_s": round(time.time(), 3), "time": time_of_day, "text": text}).decode())


def _enrol(options: argparse.Namespace) -> int:
    from app.agent.enrolment import coordinator_peer, enrol_device, is_enrolled
    from app.agent.link import Link
    from app.agent.settings import read_settings, settings_path
    from app.agent.state import State
    from app.control import words
    from gpugoblin.clock import SystemClock
    from gpugoblin.wire.messages.enrol import EnrolStartReply

    settings = read_settings(settings_path(options.config))
    state = State(settings.state_directory)

    def show(started: EnrolStartReply) -> None:
        fields = {
            "user_code": started.user_code,
            "fingerprint": started.fingerprint,
            "minutes": round(started.expires_s / 60),
        }
        _say(words.line("enrol_code", fields))

    try:
        settings = settings.with_owners(state.owner_settings().values)
        peer = coordinator_peer(settings)
        key = state.device_key()
        if not is_enrolled(settings, state, key):
            link = Link(peer, key, SystemClock())
            try:
                enrol_device(link, state, key, show, time.sleep)
            finally:
                link.close()
    finally:
        state.close()
    _say(words.line("enrolled", {}))
    return 0


def listens_at(config: Path | None) -> Path:
    """The control directory of the agent with this settings file; None: with the usual one.

    Raises SettingsError.
    """
    from app.agent.settings import read_settings, settings_path

    return read_settings(settings_path(config)).control_directory


def _tell(options: argparse.Namespace) -> int:
    from app.control.client import ControlClient
    from app.control.messages import Finish, Pause, Quit, Resume, Stop
    from gpugoblin.ids import fresh_id

    cards = tuple(options.card)
    until_s = _until_s(getattr(options, "duration", None))
    if getattr(options, "until_tomorrow", False):
        until_s = _midnight_s(time.time())
    intent = fresh_id("intent")
    with ControlClient(listens_at(options.config)) as control:
        number = control.number()
        if getattr(options, "exit", False):
            control.ask(Quit(number))
            _say(
                _("The agent ends now: its engines stop and its tasks go back, within two seconds.")
            )
            return 0
        if options.verb == "pause":
            control.ask(Pause(number, intent, cards, until_s))
        elif options.verb == "finish":
            control.ask(Finish(number, intent, cards, until_s))
        elif options.verb == "stop":
            control.ask(Stop(number, intent, cards))
        else:
            control.ask(Resume(number, intent, cards))
        _tell_outcome(control, options.verb, cards)
    return 0


def _tell_outcome(control: ControlClient, verb: Verb, cards: tuple[int, ...]) -> None:
    """Waits a moment until the word holds, and prints what it did."""
    from app.control.messages import CardItem
    from app.control.outcome import outcome, settled

    deadline_s = time.monotonic() + SETTLE_S
    time.sleep(SHOWN_AFTER_S)
    while True:
        shown = [
            item
            for item in control.status().values()
            if isinstance(item, CardItem) and (not cards or item.card in cards)
        ]
        if all(settled(verb, card) for card in shown) or time.monotonic() >= deadline_s:
            break
        time.sleep(0.05)
    for line in outcome(verb, shown, time.time()) or [_("This agent has no card to lend.")]:
        _say(line)


def _until_s(text: str | None) -> float | None:
    if text is None:
        return None
    found = _DURATION.fullmatch(text)
    if found is None:
        raise AgentError("duration_malformed", text=text)
    return time.time() + int(found[1]) * _UNITS_S[found[2]]


def _midnight_s(now_s: float) -> float:
    """The next midnight by this machine's clock."""
    tomorrow = datetime.fromtimestamp(now_s).date() + timedelta(days=1)
    return datetime(tomorrow.year, tomorrow.month, tomorrow.day).timestamp()


def _connect(options: argparse.Namespace) -> ControlClient:
    from app.control.client import ControlClient

    return ControlClient(listens_at(options.config))


def _doctor(options: argparse.Namespace) -> int:
    from app.agent.settings import read_settings, settings_path
    from app.control.client import ControlClient
    from app.control.messages import Doctor, Report
    from app.control.screen import print_findings

    settings = read_settings(settings_path(options.config))
    if options.record is not None:
        return _record(options.record, options.minutes, settings)
    try:
        with ControlClient(settings.control_directory) as control:
            answer = control.ask(Doctor(control.number()))
        findings = answer.findings if isinstance(answer, Report) else ()
    except AgentError as error:
        if error.code != "control_away":
            raise
        from app.agent.card_start import look_for_cards
        from app.agent.doctor import examine_alone

        findings = examine_alone(settings, look=look_for_cards)
    print_findings(findings)
    return 0 if all(finding.is_well for finding in findings) else ILL


def _record(path: Path, minutes: int, settings: Settings) -> int:
    from app.record import machine_here, record

    print(_("Recording what the probes see to {file}, without names: {minutes} minutes, or Ctrl-C."
            ).format(file=path, minutes=minutes), flush=True)  # fmt: skip
    machine = machine_here(settings.choices().texts("games.programs"))
    lines = record(path, minutes * 60.0, machine)
    print(_("Wrote {n} lines to {file}.").format(n=lines, file=path))
    return 0


if __name__ == "__main__":
    sys.exit(main())
