"""The doctor: looks at everything that lending needs, one finding each, with the fix.

Owns: the list of what is looked at. The running agent answers through the control socket with what
it knows; the rest, and everything when no agent runs, is looked at here. Must not: change or write
anything: what is not there yet is said to be missing, and the engine on trial lives in a temporary
directory.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.agent.answers import cases
from app.agent.card_proof import LIES
from app.agent.card_record import CardRecord
from app.agent.card_start import (
    CardLook,
    card_memory_bytes,
    may_share,
    no_cards,
    start_card_engine,
    why_not_lent,
)
from app.agent.enrolment import coordinator_peer
from app.agent.fleet import EngineMaker, start_engine
from app.agent.link import Link, Peer, PeerRefusal
from app.agent.locks import take_card
from app.agent.proof import prove
from app.agent.settings import Settings
from app.agent.state import enrolment_in, owner_settings_in, refuse_running, refuse_unsafe
from app.control.messages import Finding
from app.host.cards import Discovery, FoundCard
from app.host.engine import Engine
from app.probes.gpus.drm import DrmCard, drm_cards
from app.sandbox.host import Host, Manager, read_host
from app.sandbox.host_fixes import blocks, install
from gpugoblin.clock import Clock, SystemClock
from gpugoblin.errors import AgentError, EngineError, GoblinError
from gpugoblin.ids import EnrolmentId, fresh_id
from gpugoblin.units import format_bytes
from gpugoblin.wire.codec import encode
from gpugoblin.wire.keys import load_key, make_key
from gpugoblin.wire.messages.enrol import EnrolPoll
from gpugoblin.wire.signing import WINDOW_S, fingerprint, public_key_bytes

__all__ = ["about_cards", "about_host", "as_found", "examine", "examine_alone", "on_trial"]

VENDORS: Final = (0x10DE, 0x1002, 0x8086)
"""NVIDIA, AMD, Intel: other display devices (virtual ones, of servers' boards) compute nothing."""
MESA: Final[Mapping[Manager, str]] = {
    "apt": "mesa-vulkan-drivers",
    "dnf": "mesa-vulkan-drivers",
    "pacman": "vulkan-radeon vulkan-intel",
    "zypper": "libvulkan_radeon libvulkan_intel",
}
DRIVERS: Final = {
    0: "Install Mesa's Vulkan drivers: {command}",
    0x10DE: "Install NVIDIA's driver with its Vulkan part (libGLX_nvidia.so.0, nvidia_icd.json).",
}
STATUS_BYTES: Final = 64 * 1024
CLOCK_WRONG: Final = "signature_clock_wrong"


def examine(settings: Settings, state_directory: Path, link: Link | None) -> tuple[Finding, ...]:
    """Coordinator, clock and disk. Blocks for two requests. `link`: None where none is named."""
    if link is None:
        return (
            _ill("coordinator", AgentError("coordinator_missing")),
            _disk(settings, state_directory),
        )
    return (*_coordinator(link), _disk(settings, state_directory))


def examine_alone(
    settings: Settings,
    make: EngineMaker = start_engine,
    clock: Clock | None = None,
    look: CardLook = no_cards,
) -> tuple[Finding, ...]:
    """Everything, while no agent runs: machine, state, key, coordinator, clock, disk, card,
    sandbox. Blocks.

    Nothing is written: neither a state directory, nor a key, nor a runtime that stays.
    """
    directory = settings.state_directory
    try:
        key = _kept_key(directory)
        settings = settings.with_owners(owner_settings_in(directory).values)
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
        findings.append(
            _engine(settings, "cpu", settings.flag("processor.share"), partial(make, settings))
        )
    findings += about_cards(settings, look(), on_trial)
    return (*about_host(read_host(), findings), *findings)


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


def about_cards(
    settings: Settings,
    discovery: Discovery,
    state_of: Callable[[Settings, FoundCard], Finding],
    kernel_cards: Callable[[], Iterable[DrmCard]] = drm_cards,
) -> list[Finding]:
    """A line for each graphics card: what it can do, through which driver, or why it is not lent.

    A card of the kernel's that no driver of Vulkan serves has a line too.

    Args:
        state_of: what is to be said of a card that is lent.
    """
    findings = [_ill("card", trouble) for trouble in discovery.troubles]
    for card in discovery.cards:
        why = why_not_lent(settings, card)
        if card.unsuited:
            fix = "Install a newer driver, or lend another card."
            findings.append(Finding("card", False, f"{card.name} is not lent: {why}"[:1000], fix))
        elif why:
            findings.append(_well("card", f"{card.name} is not lent: {why}"))
        else:
            findings.append(state_of(settings, card))
    served = {card.address for card in discovery.cards}
    for each in kernel_cards():
        if each.address not in served and each.vendor in VENDORS:
            fix = DRIVERS.get(each.vendor) or _mesa(read_host())
            words = f"The card at {each.address} is not lent: no Vulkan driver serves it."
            findings.append(Finding("card", False, words, fix))
    return findings


def _mesa(host: Host) -> str:
    return DRIVERS[0].format(command=install(host, MESA) or MESA["apt"])


def about_host(host: Host, others: Iterable[Finding]) -> tuple[Finding, ...]:
    """What this machine is and, where its walls cannot be had, what of its set-up is in the way.

    Args:
        others: what is known of the walls; a fix that they name is not named twice.
    """
    named = f"This machine is {host.name}"
    fixes = {each.next_step for each in others if each.subject == "sandbox" and not each.is_well}
    found = [_well("host", f"{named}.")]
    if fixes:
        found += [
            Finding("host", False, f"{named}: {each.why}.", each.fix[:1000])
            for each in blocks(host) if each.fix not in fixes
        ]  # fmt: skip
    return tuple(found)


def on_trial(settings: Settings, card: FoundCard) -> Finding:
    """What a card can do, after an engine on it has started in its walls."""
    start = partial(start_card_engine, settings, card=card)
    finding = _engine(
        settings,
        card.identity,
        may_share(settings, card),
        lambda place: start(state_directory=place),
    )
    if not finding.is_well:
        return Finding("card", False, f"{card.name}: {finding.what}"[:1000], finding.next_step)
    return _well("card", f"{_able(settings, card)} {finding.what}"[:1000])


def as_found(settings: Settings, card: FoundCard, record: CardRecord | None = None) -> Finding:
    """What a card can do, for an agent that lends it and must not be disturbed.

    Args:
        record: what the agent remembers of it; a fault since its last proof is what counts.
    """
    if record is not None and record.fault:
        return Finding("card", False, f"{card.name}: {record.fault}"[:1000], record.fix)
    if record is not None and record.refused:
        names = ", ".join(record.refused[-8:])
        lost = EngineError(
            "card_kernel_refused", driver=card.driver, count=len(record.refused), kernels=names
        )
        what = f"{_able(settings, card)} {lost.what}"
        return Finding("card", False, what[:1000], lost.next_step)
    return _well("card", _able(settings, card)[:1000])


def _able(settings: Settings, card: FoundCard) -> str:
    return (
        f"{card.name} ({card.kind}) through Vulkan with {card.driver}: {len(card.operators)} "
        f"operators, {', '.join(card.classes)}, tasks of at most "
        f"{format_bytes(card_memory_bytes(settings, card))}."
    )


def _engine(
    settings: Settings, identity: str, is_shared: bool, make: Callable[[Path], Engine]
) -> Finding:
    try:
        lock = take_card(identity, is_shared=is_shared)
    except GoblinError as error:
        return _ill("card", error)
    try:
        with tempfile.TemporaryDirectory(prefix="gpugoblin-doctor-") as name:
            trial = Path(name)
            trial.chmod(0o711)  # the engine's own user has to get in
            engine = make(trial)
            try:
                ready = engine.wait_ready()
                prove(engine, cases())
            finally:
                engine.close()
    except GoblinError as error:
        return _ill("card" if error.code in LIES else "sandbox", error)
    finally:
        lock.release()
    return _well("sandbox", f"An engine starts, walled in at the level {ready.level}.")


def _well(subject: str, what: str) -> Finding:
    return Finding(subject, True, what)


def _ill(subject: str, error: GoblinError) -> Finding:
    return Finding(subject, False, error.what[:1000], error.next_step[:1000])
