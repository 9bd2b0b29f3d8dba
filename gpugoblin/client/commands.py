"""The researcher's commands: `gpugoblin jobs` and `gpugoblin job`.

Owns: their words and their output, for people or as JSON. They use the node of the configuration,
or the one named by `--node`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import msgspec
from rich.console import Console

from gpugoblin.client.job import Job
from gpugoblin.client.run import Run
from gpugoblin.client.session import Session, connect
from gpugoblin.client.views import StatusView, jobs_table

__all__ = ["job", "jobs"]

LAST_ROUNDS: Final = 10


def jobs(words: Sequence[str]) -> int:
    """Lists your jobs on the lab node, the newest first."""
    parser = _parser("jobs", "Your jobs on the lab node, the newest first.")
    given = parser.parse_args(words)
    with _connect(given) as session:
        infos = [found.info for found in session.jobs()]
    if given.json:
        _print_json(infos)
    else:
        Console(soft_wrap=True).print(jobs_table(infos))
    return 0


def job(words: Sequence[str]) -> int:
    """Looks after one job of yours: show, wait, cancel, retry, delete, certificate."""
    parser = _parser("job", "One job of yours on the lab node. `gpugoblin job NAME` shows it.")
    verbs: dict[str, Callable[[Job, argparse.Namespace], int]] = {
        "show": _show,
        "wait": _wait,
        "cancel": _cancel,
        "retry": _retry,
        "delete": _delete,
        "certificate": _certificate,
    }
    parser.add_argument(
        "verb",
        choices=sorted(verbs),
        help="show: how it stands; wait: until it is done; cancel: end it, its verified part "
        "is kept for a week; retry: go on with it; delete: remove it, saved files stay; "
        "certificate: how its results were checked",
    )
    parser.add_argument("name", help="the job's name or id")
    parser.add_argument("--watch", action="store_true", help="with show: until it is over")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="wait no longer than this")
    given = parser.parse_args(_with_verb(words, verbs))
    with _connect(given) as session:
        return verbs[given.verb](session.get(given.name), given)


def _with_verb(words: Sequence[str], verbs: Collection[str]) -> list[str]:
    """A name alone is shown."""
    has_verb = any(word in verbs or word in ("-h", "--help") for word in words)
    return list(words) if has_verb else ["show", *words]


def _show(found: Job, given: argparse.Namespace) -> int:
    if given.watch:
        found.wait(given.timeout)
        return _told(found, given)
    view = found.summary()
    if given.json:
        rest = msgspec.to_builtins(view.summary)
        _print_json({**rest.pop("info"), "summary": rest})
    elif isinstance(found, Run):
        Console().print(found.view())
        Console().print(found.table(max(0, found.training().done - LAST_ROUNDS)))
    else:
        console = Console()
        console.print(view.__rich__())
        console.print(found.plan().__rich__())
    return 0


def _wait(found: Job, given: argparse.Namespace) -> int:
    found.wait(given.timeout)
    return _told(found, given)


def _cancel(found: Job, given: argparse.Namespace) -> int:
    found.cancel()
    return _told(found, given)


def _retry(found: Job, given: argparse.Namespace) -> int:
    found.retry()
    return _told(found, given)


def _delete(found: Job, given: argparse.Namespace) -> int:
    found.delete()
    if given.json:
        _print_json({"deleted": found.name})
    else:
        print(f"{found.name}: deleted")
    return 0


def _certificate(found: Job, given: argparse.Namespace) -> int:
    certificate = found.certificate()
    print(certificate.to_json() if given.json else certificate)
    return 0


def _told(found: Job, given: argparse.Namespace) -> int:
    if given.json:
        _print_json(found.info)
    else:
        print(found.view().line() if isinstance(found, Run) else StatusView(found.info).line())
    return 0


def _parser(command: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"gpugoblin {command}", description=description)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--node", help='"local", "https://host:port" or "unix:/path"')
    parser.add_argument("--state-dir", help="directory of this machine's lab node")
    parser.add_argument("--config", help="the configuration file")
    return parser


def _connect(given: argparse.Namespace) -> Session:
    return connect(given.node, state_dir=given.state_dir, config=given.config)


def _print_json(value: Any) -> None:
    plain = msgspec.to_builtins(value)
    json.dump(plain, sys.stdout, indent=2)
    sys.stdout.write("\n")
