"""Writes the manual pages from the parsers of the commands themselves.

Owns: the form of a page (man(7)). Must not: say what the parsers do not.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

__all__ = ["page", "pages"]

ABOUT = (
    "gpugoblin lends idle processors and graphics cards to research projects. The owner comes"
    " first: a pause frees the cards at once."
)
FILES = (
    ("~/.config/gpugoblin/agent.toml", "settings of one user's agent"),
    ("/etc/gpugoblin/agent.toml", "settings of the agent of the system"),
    ("~/.local/state/gpugoblin", "key, history and cache of one user's agent"),
)


def plain(text: str) -> str:
    """Text as roff takes it: nothing of it is a command or an escape."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\\&" + text if text.startswith(".") else text


def _date() -> str:
    epoch_s = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    return time.strftime("%Y-%m-%d", time.gmtime(epoch_s))


def _head(name: str, purpose: str, version: str) -> list[str]:
    return [
        f'.TH {plain(name.upper().replace(" ", "-"))} 1 "{_date()}" "gpugoblin {version}"',
        ".SH NAME",
        f"{plain(name.replace(' ', '-'))} \\- {plain(purpose)}",
    ]


def _synopsis(parser: argparse.ArgumentParser) -> list[str]:
    parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=10_000)
    words = parser.format_usage().removeprefix("usage: ").split()
    return [plain(" ".join(words))]


def _options(parser: argparse.ArgumentParser) -> list[str]:
    lines = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) or action.help == argparse.SUPPRESS:
            continue
        names = ", ".join(action.option_strings) or str(action.metavar or action.dest)
        if action.option_strings and action.nargs != 0:
            value = action.metavar or (action.choices and ",".join(map(str, action.choices)))
            names += f" {value or action.dest.upper()}"
        lines += [".TP", f".B {plain(names)}", plain(action.help or "")]
    return [line for line in lines if line]


def _below(parser: argparse.ArgumentParser) -> Iterable[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def page(parser: argparse.ArgumentParser, version: str) -> str:
    """The page of one command, with the commands below it."""
    lines = _head(parser.prog, (parser.description or parser.prog).rstrip("."), version)
    lines += [".SH SYNOPSIS", *_synopsis(parser), ".SH DESCRIPTION", plain(ABOUT)]
    own = _options(parser)
    lines += [".SH OPTIONS", *own] if own else []
    below = list(_below(parser))
    if below:
        lines.append(".SH COMMANDS")
    for name, command in below:
        lines += [
            f".SS {plain(name)}",
            *_synopsis(command),
            ".PP",
            plain(command.description or ""),
        ]
        lines += _options(command)
    lines.append(".SH FILES")
    for name, purpose in FILES:
        lines += [".TP", f".I {plain(name)}", plain(purpose)]
    return "\n".join(lines) + "\n"


def overview(usage: str, version: str, others: Iterable[str]) -> str:
    """The page of `gpugoblin`: its commands, each with its sentence."""
    lines = _head("gpugoblin", "lend idle graphics cards to research", version)
    lines += [".SH SYNOPSIS", plain("gpugoblin COMMAND ..."), ".SH DESCRIPTION", plain(ABOUT)]
    lines.append(".SH COMMANDS")
    for line in usage.split("commands:\n")[1].split("\n\n")[0].splitlines():
        name, _space, purpose = line.strip().partition(" ")
        lines += [".TP", f".B {plain(name)}", plain(purpose.strip())]
    lines += [".SH SEE ALSO", ",\n".join(f".BR {plain(name)} (1)" for name in others)]
    return "\n".join(lines).replace(",\n.BR", "\n.BR") + "\n"


def pages() -> dict[str, str]:
    """Every page by its file's name."""
    from app.main import _parser as agent_parser
    from app.ui.main import _parser as app_parser
    from gpugoblin import __version__
    from gpugoblin.cli import _usage, commands

    made = {
        f"{parser.prog.replace(' ', '-')}.1": page(parser, __version__)
        for parser in (agent_parser(), app_parser())
    }
    others = sorted(name.removesuffix(".1") for name in made)
    return {"gpugoblin.1": overview(_usage(commands()), __version__, others), **made}


def main(folder: Path) -> None:
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
