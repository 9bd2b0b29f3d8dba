"""The graphics cards of this machine, found by short-lived children, one a Vulkan driver.

Owns: which drivers are installed, what their children say, and which of two drivers serves a card.
Must not: load a driver itself (they crash and hang, and cost memory), or choose what is lent.
"""

from __future__ import annotations

import importlib.util
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from gpugoblin.errors import EngineError

__all__ = ["Discovery", "FoundCard", "driver_files", "find_cards", "listing_environment"]

PLACES: Final = (
    Path("/etc/vulkan/icd.d"),
    Path("/usr/local/share/vulkan/icd.d"),
    Path("/usr/share/vulkan/icd.d"),
)
"""Where drivers are registered by root; what a user's own directories say is not asked."""

LISTING: Final = "app.engine.backends.vulkan.listing"
PACKAGE: Final = "vulkan"
LIMIT_S: Final = 20.0
MOST_DRIVERS: Final = 16
MOST_BYTES: Final = 256 * 1024
NVIDIA: Final = 0x10DE
NVIDIA_NODE: Final = Path("/dev/nvidiactl")
"""There when NVIDIA's module is loaded and found a card."""

Kind = Literal["discrete", "integrated", "virtual", "software", "other"]
_Text = Annotated[str, Meta(max_length=300)]
_Words = Annotated[tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=256)]
_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class FoundCard(Struct, frozen=True, kw_only=True):
    """One card as its driver describes it.

    Args:
        uuid: 32 hexadecimal digits, by which the engine chooses it.
        address: PCI, like 0000:01:00.0; empty for what is no PCI device.
        vendor: PCI vendor.
        memory_bytes: the largest heap of its own.
        unsuited: why it cannot be computed on; empty when it can.
        operators, dtypes, classes: what the backend serves on it (`matmul@1`).
        driver_file: the registration of its driver.
    """

    name: _Text
    kind: Kind
    uuid: Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
    address: Annotated[str, Meta(pattern=r"\A([0-9a-f:.]{12})?\Z")]
    vendor: _Count
    driver: _Text
    memory_bytes: _Count
    unsuited: _Text
    operators: _Words = ()
    dtypes: _Words = ()
    classes: _Words = ()
    group_threads: _Count = 0
    shared_bytes: _Count = 0
    allocation_bytes: _Count = 0
    driver_file: str = ""

    @property
    def identity(self) -> str:
        """What names it on this machine for locks, probes and people."""
        if self.kind == "software":
            return f"software-{self.uuid}"
        if self.vendor == NVIDIA:  # as NVML and nvidia-smi say it
            parts = (self.uuid[:8], self.uuid[8:12], self.uuid[12:16], self.uuid[16:20])
            return "GPU-" + "-".join((*parts, self.uuid[20:]))
        return self.address or f"card-{self.uuid}"


class _TooLong(Exception):
    """A child that does not stop talking."""


class _Reason(Struct, frozen=True):
    reason: _Text


@dataclass(frozen=True, slots=True)
class Discovery:
    """Every card by identity order, and what went wrong, a line each."""

    cards: tuple[FoundCard, ...]
    troubles: tuple[EngineError, ...]


def driver_files(places: Sequence[Path] = PLACES) -> tuple[Path, ...]:
    """The registrations of all drivers, one for each name, as the loader would see them."""
    found: dict[str, Path] = {}
    for place in places:
        try:
            names = sorted(name for name in os.listdir(place) if name.endswith(".json"))
        except OSError:
            continue
        for name in names:
            found.setdefault(name, place / name)
    return tuple(found.values())[:MOST_DRIVERS]


def listing_environment(driver_file: Path) -> dict[str, str]:
    """The variables of a child that asks one driver: no layer, no cache, nothing of ours."""
    return {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": "/nonexistent",
        "VK_DRIVER_FILES": str(driver_file),
        "VK_ICD_FILENAMES": str(driver_file),  # loaders before 1.3.207
        "VK_LOADER_LAYERS_DISABLE": "*",
        "NODEVICE_SELECT": "1",
        "MESA_SHADER_CACHE_DISABLE": "true",
        "OPENBLAS_NUM_THREADS": "1",
    }


def find_cards(
    drivers: Sequence[Path] | None = None,
    command: Sequence[str] = (),
    limit_s: float = LIMIT_S,
    nvidia_node: Path = NVIDIA_NODE,
) -> Discovery:
    """Asks all drivers at once; takes half a second, at most `limit_s`.

    Args:
        command: the child's, for tests.
        nvidia_node: what is there when NVIDIA's driver ought to have a card.
    """
    chosen = driver_files() if drivers is None else tuple(drivers)
    if chosen and not command and importlib.util.find_spec(PACKAGE) is None:
        return Discovery((), (EngineError("card_package_missing", package=PACKAGE),))
    words = list(command) or [sys.executable, "-I", "-m", LISTING]
    cards: dict[str, FoundCard] = {}
    troubles: list[EngineError] = []
    children: list[tuple[Path, subprocess.Popen[bytes]]] = []
    try:
        for driver in chosen:
            children.append((driver, _started(words, driver)))
    except BaseException:
        for _, child in children:
            _end(child)
        raise
    deadline_s = time.monotonic() + limit_s
    for driver, child in children:
        try:
            found = _heard(driver, child, max(0.0, deadline_s - time.monotonic()), limit_s)
        except EngineError as error:
            troubles.append(error)
            continue
        # Most drivers are installed without their hardware; NVIDIA's says by its node that it is.
        if not found and driver.name.startswith("nvidia") and nvidia_node.exists():
            troubles.append(EngineError("card_driver_silent", driver=driver.name))
        for card in found:
            known = cards.get(card.identity)
            # Two drivers may serve one card: the first that can be computed with is taken.
            if known is None or (known.unsuited and not card.unsuited):
                cards[card.identity] = card
    ordered = sorted(cards.values(), key=lambda card: (card.kind == "software", card.identity))
    return Discovery(tuple(ordered), tuple(troubles))


def _started(words: list[str], driver: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        words,
        env=listing_environment(driver),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.kill()
        child.wait()
    if child.stdout is not None:
        child.stdout.close()


def _failed(driver: Path, reason: str) -> EngineError:
    return EngineError("card_listing_failed", driver=driver.name, reason=reason)


def _read(child: subprocess.Popen[bytes], until_s: float) -> bytes:
    """All that it prints, at most `MOST_BYTES`. Raises TimeoutError, `_TooLong`."""
    descriptor = -1 if child.stdout is None else child.stdout.fileno()
    waiter = select.poll()
    waiter.register(descriptor, select.POLLIN)
    output = b""
    while len(output) <= MOST_BYTES:
        if not waiter.poll(max(0.0, until_s - time.monotonic()) * 1000):
            raise TimeoutError
        piece = os.read(descriptor, 65536)
        if not piece:
            return output
        output += piece
    raise _TooLong


def _heard(
    driver: Path, child: subprocess.Popen[bytes], left_s: float, limit_s: float
) -> tuple[FoundCard, ...]:
    try:
        output = _read(child, time.monotonic() + left_s)
        child.wait(max(0.0, min(1.0, left_s)))
    except _TooLong:
        raise _failed(driver, "its answer makes no sense") from None
    except (TimeoutError, subprocess.TimeoutExpired):
        raise _failed(driver, f"it did not answer within {limit_s:g} s") from None
    finally:
        _end(child)
    if child.returncode < 0:
        raise _failed(driver, f"it crashed with signal {-child.returncode}")
    try:
        if child.returncode:
            raise _failed(driver, msgspec.json.decode(output, type=_Reason).reason.rstrip("."))
        found = msgspec.json.decode(output, type=tuple[FoundCard, ...])
    except ValueError as cause:
        raise _failed(driver, "its answer makes no sense") from cause
    return tuple(msgspec.structs.replace(card, driver_file=str(driver)) for card in found)
