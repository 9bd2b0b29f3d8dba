"""The doctor: looks at everything that lending needs, one finding each, with the fix.

Owns: the list of what is looked at. The running agent answers through the control socket with what
it knows; the rest, and everything when no agent runs, is looked at here. Must not: change or write
anything: what is not there yet is said to be missing, and the engine on trial lives in a temporary
directory.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.agent.enrolment import coordinator_peer
from app.agent.fleet import EngineMaker, start_engine
from app.agent.link import Link, Peer, PeerRefusal
from app.agent.locks import take_card
from app.agent.settings import Settings
from app.agent.state import enrolment_in, refuse_running, refuse_unsafe
from app.control.messages import Finding
from gpugoblin.clock import Clock, SystemClock
from gpugoblin.errors import GoblinError
from gpugoblin.ids import EnrolmentId, fresh_id
from gpugoblin.units import format_bytes
from gpugoblin.wire.codec import encode
from gpugoblin.wire.keys import load_key, make_key
from gpugoblin.wire.messages.enrol import EnrolPoll
from gpugoblin.wire.signing import WINDOW_S, fingerprint, public_key_bytes

__all__ = ["examine", "examine_alone"]

STATUS_BYTES: Final = 64 * 1024
CLOCK_WRONG: Final = "signature_clock_wrong"


def examine(settings: Settings, state_directory: Path, link: Link) -> tuple[Finding, ...]:
    """Coordinator, clock and disk. Blocks for two requests."""
    return (*_coordinator(link), _disk(settings, state_directory))


def examine_alone(
    settings: Settings, make: EngineMaker = start_engine, clock: Clock | None = None
) -> tuple[Finding, ...]:
    """Everything, while no agent runs: state, key, coordinator, clock, disk, card, sandbox. Blocks.

    Nothing is written: neither a state directory, nor a key, nor a runtime that stays.
    """
    directory = settings.state_directory
    try:
        key = _kept_key(directory)
    except GoblinError as error:
        return (_ill("state", error),)
    if key is None:
        words = f"{directory} holds no key yet: the first start, or enrolling, makes it."
    else:
        words = f"{directory}, this device's key is {fingerprint(public_key_bytes(key))}."
    findings = [_well("state", words)]
    try:
        peer = coordinator_peer(settings)
        link = Link(peer, key or make_key(), clock or SystemClock())
        try:
            findings += examine(settings, directory, link)
        finally:
            link.close()
        findings.append(_enrolment(directory, peer, key))
    except GoblinError as error:
        findings.append(_ill("coordinator", error))
    if settings.flag("processor.lend"):
        findings.append(_engine(settings, make))
    return tuple(findings)


def _kept_key(directory: Path) -> Ed25519PrivateKey | None:
    """The device's key; None where there is none yet. Raises AgentError, WireError."""
    if not directory.exists():
        return None
    refuse_unsafe(directory)
    refuse_running(directory)
    path = directory / "device.key"
    return load_key(path) if path.exists() else None


def _enrolment(directory: Path, peer: Peer, key: Ed25519PrivateKey | None) -> Finding:
    if key is not None and enrolment_in(directory, peer.address, public_key_bytes(key)):
        return _well("enrolment", "This device is enrolled.")
    fix = "Run `gpugoblin agent enrol` and approve the code."
    return Finding("enrolment", False, "This device is not enrolled.", fix)


def _coordinator(link: Link) -> list[Finding]:
    try:
        link.call("GET", "/v1/status", max_bytes=STATUS_BYTES)
    except GoblinError as error:
        return [_ill("coordinator", error)]
    return [_well("coordinator", f"{link.peer.address} answers."), _clock(link)]


def _clock(link: Link) -> Finding:
    """One signed question that changes nothing: about an enrolment that nobody has begun.

    The coordinator looks at the time of a request first, so whatever else it answers, the clock is
    well.
    """
    question = encode(EnrolPoll(EnrolmentId(fresh_id("enrol"))))
    try:
        link.call("POST", "/v1/enrol/poll", question, max_bytes=STATUS_BYTES)
    except PeerRefusal as refusal:
        if refusal.refusal == CLOCK_WRONG:
            return _ill("clock", refusal)
    except GoblinError as error:
        return _ill("clock", error)
    return _well("clock", f"This machine's clock is within {WINDOW_S:g} s of the coordinator's.")


def _disk(settings: Settings, directory: Path) -> Finding:
    there = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    free_bytes = shutil.disk_usage(there).free
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
        with tempfile.TemporaryDirectory(prefix="gpugoblin-doctor-") as name:
            trial = Path(name)
            trial.chmod(0o711)  # the engine's own user has to get in
            engine = make(settings, trial)
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
