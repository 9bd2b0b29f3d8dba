"""`gpugoblin node quota`: what each user may take, and whose turns count for more."""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import replace

from gpugoblin.errors import NodeError
from gpugoblin.units import format_bytes
from server_stub.node.commands.common import Commands, add, changing
from server_stub.node.state import lanes, quotas

__all__ = ["register"]

ALL = "everybody"
NONE = -1.0


def register(commands: Commands) -> None:
    text = "what each user may take of the node"
    quota = commands.add_parser("quota", help=text, description=text)
    actions = quota.add_subparsers(dest="quota_command", required=True, metavar="COMMAND")
    setting = add(actions, "set", _set, "limit a user, or everybody who has no limit of the own")
    setting.add_argument("name", help=f"of a user, or `{ALL}`")
    text = "for uploads and results, in 10^9 bytes, or `none`"
    setting.add_argument("--disk-gb", type=_limit, help=text)
    text = "that are not done yet, of all jobs, or `none`"
    setting.add_argument("--tasks", type=_limit, help=text)
    text = "of volunteers in a month, or `none`; the lab's own machines cost none"
    setting.add_argument("--grid-hours", type=_limit, help=text)
    setting.add_argument("--weight", type=int, help="turns for one turn of the others (1 to 1000)")
    add(actions, "show", _show, "list limits, and what is used")


def _limit(text: str) -> float:
    """A number, or `none`, which is said as -1."""
    if text == "none":
        return NONE
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1e12:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number from 0 up nor `none`")
    return value


def _changed(before: float | None, given: float | None, factor: int = 1) -> float | None:
    if given is None:
        return before
    return None if given == NONE else given * factor


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _set(arguments: argparse.Namespace) -> int:
    owner = quotas.EVERYBODY if arguments.name == ALL else arguments.name
    if owner == quotas.EVERYBODY and arguments.weight is not None:
        raise NodeError(
            "parameter_invalid", name="weight", value=arguments.weight, reason="it is one user's"
        )
    with changing(arguments) as tx:
        limits = quotas.own_limits(tx, owner)
        limits = replace(
            limits,
            disk_bytes=_whole(_changed(limits.disk_bytes, arguments.disk_gb, 10**9)),
            tasks=_whole(_changed(limits.tasks, arguments.tasks)),
            grid_hours=_changed(limits.grid_hours, arguments.grid_hours),
        )
        quotas.set_limits(tx, owner, limits)
        if arguments.weight is not None:
            lanes.set_weight(tx, owner, arguments.weight)
    return _show(arguments)


def _show(arguments: argparse.Namespace) -> int:
    with changing(arguments) as tx:
        found = quotas.listed(tx, time.time())
    for name, limits, use in found:
        disk = "no limit" if limits.disk_bytes is None else format_bytes(limits.disk_bytes)
        tasks = "no limit" if limits.tasks is None else limits.tasks
        hours = "no limit" if limits.grid_hours is None else f"{limits.grid_hours:g}"
        if name == quotas.EVERYBODY:
            print(f"{ALL}: disk {disk}, tasks {tasks}, hours of volunteers {hours}")
        else:
            has = format_bytes(use.disk_bytes)
            print(
                f"{name}: disk {has} of {disk}, tasks {use.tasks} of {tasks}, hours of volunteers"
                f" this month {use.grid_hours:.2f} of {hours}"
            )
    return 0
