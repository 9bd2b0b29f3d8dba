"""The command `gpugoblin`: finds its commands by entry points and imports only the one that runs.

Owns: the first word of the command line, and how errors end a command. A command is an entry point
of the group `gpugoblin.commands`: a function that takes the rest of the words and returns the exit
status; the first line of its docstring says what it is for. Must not: know any command.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from gpugoblin import __version__
from gpugoblin.errors import ClientError, GoblinError

__all__ = ["GROUP", "commands", "main"]

GROUP: Final = "gpugoblin.commands"
USAGE_STATUS: Final = 2
ERROR_STATUS: Final = 1
INTERRUPTED_STATUS: Final = 130
_EXTRAS: Final = {"gpugoblin": "node", "server_stub": "node", "app": "app"}

Command = Callable[[list[str]], int]


def commands() -> Mapping[str, EntryPoint]:
    """The installed commands by name. Nothing of them is imported."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status: 0 done, 1 an error, 2 wrong usage."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    known = commands()
    if not words or words[0] in ("-h", "--help", "help"):
        print(_usage(known))
        return 0 if words else USAGE_STATUS
    if words[0] in ("-V", "--version"):
        print(f"gpugoblin {__version__}")
        return 0
    entry = known.get(words[0])
    if entry is None:
        print(f"gpugoblin: there is no command {words[0]!r}.\n{_usage(known)}", file=sys.stderr)
        return USAGE_STATUS
    try:
        return _load(entry)(words[1:])
    except GoblinError as error:
        print(f"gpugoblin: {error}", file=sys.stderr)
        return ERROR_STATUS
    except KeyboardInterrupt:
        return INTERRUPTED_STATUS
    except BrokenPipeError:
        # Whoever read our output has seen enough; the stream must not complain at exit either.
        sys.stdout = None
        return 0


def _load(entry: EntryPoint) -> Command:
    try:
        command: Command = entry.load()
    except ImportError as cause:
        extra = _EXTRAS.get(entry.module.partition(".")[0], "node")
        raise ClientError(
            "command_failed", command=entry.name, reason=str(cause), extra=extra
        ) from cause
    return command


def _usage(known: Mapping[str, EntryPoint]) -> str:
    width = max((len(name) for name in known), default=0)
    lines = [f"  {name:{width}}  {_purpose(known[name])}".rstrip() for name in sorted(known)]
    listed = "\n".join(lines) or "  none is installed"
    return (
        f"usage: gpugoblin COMMAND ...\n\ncommands:\n{listed}\n\n"
        "gpugoblin COMMAND --help says more; gpugoblin --version says which this is."
    )


def _purpose(entry: EntryPoint) -> str:
    """The first line of a command's docstring, read from its source: nothing is imported for it."""
    try:
        tree = ast.parse(_source(entry.module))
    except (ImportError, SyntaxError, ValueError, OSError):
        return ""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == entry.attr:
            return (ast.get_docstring(node) or "").partition("\n")[0]
    return ""


def _source(module: str) -> bytes:
    """The text of a module or package in a directory; empty where there is none."""
    top, *rest = module.split(".")
    found = find_spec(top)  # of a whole name it would import the packages above
    if found is None:
        return b""
    if not rest:
        return Path(found.origin).read_bytes() if found.origin else b""
    for place in found.submodule_search_locations or ():
        path = Path(place, *rest)
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return file.read_bytes()
    return b""


if __name__ == "__main__":
    sys.exit(main())
