"""The owner's commands by their short names: `gpugoblin status`, `gpugoblin pause` and so on.

Owns: the names. Must not: do anything; each is the command of its name below `gpugoblin agent`.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.main import agent_command, listens_at, main

__all__ = [
    "app",
    "doctor",
    "finish",
    "history",
    "logs",
    "pause",
    "resume",
    "settings",
    "status",
    "why",
]


def app(words: Sequence[str]) -> int:
    """Shows what this machine lends, in a window and the tray; `--console` runs the agent alone."""
    if "--console" in words:
        return main(words)
    from app.ui.main import command  # here, since most commands show no window

    return command(words, listens_at)


def status(words: Sequence[str]) -> int:
    """Shows what the running agent does."""
    return agent_command(["status", *words])


def why(words: Sequence[str]) -> int:
    """Says in one line for each card why it is lent or not, and when that changes."""
    return agent_command(["why", *words])


def pause(words: Sequence[str]) -> int:
    """Frees the cards at once, for a while or until you resume."""
    return agent_command(["pause", *words])


def resume(words: Sequence[str]) -> int:
    """Lends again, as the rules allow."""
    return agent_command(["resume", *words])


def finish(words: Sequence[str]) -> int:
    """Lets the running tasks end, then pauses."""
    return agent_command(["finish", *words])


def settings(words: Sequence[str]) -> int:
    """Shows the agent's settings, or changes some: `gpugoblin settings profile=nights`."""
    return agent_command(["settings", *words])


def logs(words: Sequence[str]) -> int:
    """Shows the agent's last lines, without tokens, addresses and names of folders."""
    return agent_command(["logs", *words])


def doctor(words: Sequence[str]) -> int:
    """Looks at everything that lending needs, with the fix for each."""
    return agent_command(["doctor", *words])


def history(words: Sequence[str]) -> int:
    """Shows what ran, for whom, and what it cost; `--csv FILE` exports it."""
    return agent_command(["history", *words])
