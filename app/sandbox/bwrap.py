"""The outer walls: the exact list of steps for one engine, as bubblewrap's arguments.

Owns: which namespaces, mounts, devices and variables an engine gets, each with its reason. Pure:
must not touch the machine; what it has to know of it comes in a `View`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from app.sandbox.inside import (
    LEVEL_VARIABLE,
    NODES_VARIABLE,
    POLICY_VARIABLE,
    ROOT_VARIABLE,
    SHOWN_VARIABLE,
    WALLS_VARIABLE,
)
from app.sandbox.operations import (
    ClearEnvironment,
    DeviceBind,
    Directory,
    DropCapabilities,
    Flag,
    Identity,
    Operation,
    Proc,
    ReadOnlyBind,
    RemountReadOnly,
    SeccompFrom,
    SetEnvironment,
    StatusTo,
    Symlink,
    Tmpfs,
    WorkIn,
    arguments,
)
from app.sandbox.runtime_files import LOADER
from app.sandbox.spec import NO_CARD, CardAccess
from gpugoblin.units import MIB

__all__ = [
    "DEVICES",
    "ENGINE_ID",
    "INSIDE_ROOT",
    "MASKED",
    "View",
    "command",
    "fixed_environment",
    "operations",
]

INSIDE_ROOT: Final = "/runtime"
ENGINE_ID: Final = 65534
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/urandom")
"""All nodes that an engine on the processor sees; cards add theirs."""
MASKED: Final = ("/proc/cmdline", "/proc/kallsyms", "/proc/modules", "/proc/version")
"""Fingerprints of the host that no library needs."""

DEV_BYTES: Final = 65536
TMP_BYTES: Final = 64 * MIB


@dataclass(frozen=True, slots=True)
class View:
    """What the list depends on.

    Args:
        runtime: the runtime's directory on the host.
        seccomp_fd: holds the program of stage 1. status_fd: gets bubblewrap's JSON.
        masked: those of `MASKED` that exist here; bubblewrap cannot cover what is not there.
        environment: extra variables for the backend.
        card: what is shown of a card.
    """

    runtime: str
    seccomp_fd: int
    status_fd: int
    masked: tuple[str, ...]
    environment: Mapping[str, str]
    card: CardAccess = NO_CARD


def fixed_environment(
    root: str, level: str, libraries: str, card: CardAccess = NO_CARD
) -> dict[str, str]:
    """The variables of every walled engine.

    Args:
        root: the runtime's directory as the engine sees it.
        libraries: search path of the loader.
    """
    return {
        "PATH": f"{root}/bin",
        "HOME": "/tmp",  # noqa: S108 (the engine's own, 64 MiB, gone with it)
        "LANG": "C.UTF-8",
        "LD_LIBRARY_PATH": libraries,
        "PYTHONHASHSEED": "0",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        WALLS_VARIABLE: "1",
        LEVEL_VARIABLE: level,
        ROOT_VARIABLE: root,
        **_card_environment(card),
    }


def _card_environment(card: CardAccess) -> dict[str, str]:
    if card.policy == "none":
        return {}
    return {
        POLICY_VARIABLE: card.policy,
        NODES_VARIABLE: "|".join(card.nodes),
        SHOWN_VARIABLE: "|".join(card.shown),
    }


def _process() -> list[Operation]:
    return [
        # Explicit: `--unshare-all` only tries the user namespace, and goes on without.
        Flag("unshare-user"),
        Flag("unshare-ipc"),
        Flag("unshare-pid"),
        Flag("unshare-net"),
        Flag("unshare-uts"),
        Flag("unshare-cgroup-try"),
        Flag("disable-userns"),
        Flag("assert-userns-disabled"),
        Identity(ENGINE_ID, ENGINE_ID, "engine"),
        DropCapabilities(),
        Flag("die-with-parent"),
        Flag("new-session"),  # no typing into the owner's terminal
    ]


def _files(view: View) -> list[Operation]:
    return [
        # One directory with everything in it: no /usr, /etc, /home, /run, /var, no setuid file.
        ReadOnlyBind(view.runtime, INSIDE_ROOT),
        Symlink(f"{INSIDE_ROOT}/system/{LOADER.rpartition('/')[2]}", LOADER),
        ReadOnlyBind("/sys/devices/system/cpu", "/sys/devices/system/cpu"),
        *(ReadOnlyBind(path, path) for path in view.card.shown if path.startswith("/sys/")),
        *(Symlink(points_to, target) for points_to, target in view.card.links),
        Proc("/proc"),
        *(ReadOnlyBind("/dev/null", path) for path in view.masked),
        # Not `--dev`: that is an unlimited writable tmpfs with a live ptmx.
        Tmpfs("/dev", DEV_BYTES),
        *(DeviceBind(path) for path in (*DEVICES, *view.card.nodes)),
        RemountReadOnly("/dev"),
        Tmpfs("/tmp", TMP_BYTES, mode=0o700),  # noqa: S108 (inside)
        RemountReadOnly("/"),
        WorkIn("/tmp"),  # noqa: S108 (inside)
    ]


def operations(view: View) -> list[Operation]:
    """All steps, in order; the last one for the file system closes the root for writing."""
    libraries = f"{INSIDE_ROOT}/lib:{INSIDE_ROOT}/system"
    variables = {
        **view.environment,
        **fixed_environment(INSIDE_ROOT, "full", libraries, view.card),
    }
    return [
        *_process(),
        ClearEnvironment(),
        *(SetEnvironment(name, value) for name, value in variables.items()),
        Directory("/lib64"),
        *_files(view),
        SeccompFrom(view.seccomp_fd),
        StatusTo(view.status_fd),
    ]


def command(bwrap: str, view: View, engine: list[str]) -> list[str]:
    """The whole argument list: bubblewrap, its steps, and what it runs."""
    return [bwrap, *arguments(operations(view)), "--", *engine]
