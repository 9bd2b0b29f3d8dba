"""What lending needs, looked at one by one, each with its fix.

Owns: the checks that need no running agent. Must not: change anything.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from app.agent.enrolment import coordinator_peer
from app.agent.fleet import EngineMaker, start_engine
from app.agent.link import Link, PeerRefusal
from app.agent.locks import take_card
from app.agent.settings import Settings
from app.agent.state import State
from app.control.messages import Finding
from gpugoblin.clock import SystemClock
from gpugoblin.errors import GoblinError
from gpugoblin.units import format_bytes
from gpugoblin.wire.signing import fingerprint, public_key_bytes

__all__ = ["examine", "examine_alone"]

STATUS_BYTES = 64 * 1024


def examine(settings: Settings, state_directory: Path, link: Link) -> tuple[Finding, ...]:
    """Coordinator and disk. Blocks for a request."""
    return (_coordinator(link), _disk(settings, state_directory))


def examine_alone(settings: Settings, make: EngineMaker = start_engine) -> tuple[Finding, ...]:
    """Everything, while no agent runs: state, key, coordinator, disk, card, sandbox. Blocks."""
    findings: list[Finding] = []
    try:
        state = State(settings.state_directory)
    except GoblinError as error:
        return (_ill("state", error),)
    try:
        key = state.device_key()
        shown = fingerprint(public_key_bytes(key))
        findings.append(_well("state", f"{state.directory}, this device's key is {shown}."))
        peer = coordinator_peer(settings)
        link = Link(peer, key, SystemClock())
        try:
            findings += examine(settings, state.directory, link)
        finally:
            link.close()
        is_known = state.enrolment(peer.address, public_key_bytes(key)) is not None
        findings.append(
            _well("enrolment", "This device is enrolled.")
            if is_known
            else Finding(
                "enrolment",
                False,
                "This device is not enrolled.",
                "Run `gpugoblin agent enrol` and approve the code.",
            )
        )
    except GoblinError as error:
        findings.append(_ill("coordinator", error))
    finally:
        state.close()
    if settings.flag("processor.lend"):
        findings.append(_engine(settings, make))
    return tuple(findings)


def _coordinator(link: Link) -> Finding:
    try:
        link.call("GET", "/v1/status", max_bytes=STATUS_BYTES)
    except PeerRefusal as refusal:
        return _ill("coordinator", refusal)
    except GoblinError as error:
        return _ill("coordinator", error)
    return _well("coordinator", f"{link.peer.address} answers.")


def _disk(settings: Settings, directory: Path) -> Finding:
    free_bytes = shutil.disk_usage(directory).free
    least_bytes = settings.number("cache.least_free_bytes")
    words = f"{format_bytes(free_bytes)} are free, {format_bytes(least_bytes)} always stay free."
    if free_bytes < least_bytes:
        fix = "Free disk space, or lower `cache.least_free_bytes`."
        return Finding("disk", False, words, fix)
    return _well("disk", words)


def _engine(settings: Settings, make: EngineMaker) -> Finding:
    try:
        lock = take_card("cpu", is_shared=settings.flag("processor.share"))
    except GoblinError as error:
        return _ill("card", error)
    try:
        engine = make(settings, settings.state_directory)
        try:
            ready = engine.wait_ready()
        finally:
            engine.close()
    except GoblinError as error:
        return _ill("sandbox", error)
    finally:
        lock.release()
    return _well("sandbox", f"An engine starts, walled in at the level {ready.level}.")


def _well(subject: str, what: str) -> Finding:
    return Finding(subject, True, what)


def _ill(subject: str, error: GoblinError) -> Finding:
    return Finding(subject, False, error.what[:1000], error.next_step[:1000])
