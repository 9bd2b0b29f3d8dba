"""Enrolling this device, from the code to the file. Owns that dialogue's place in the agent."""

from __future__ import annotations

from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.agent import coordinator
from app.agent.link import Link, Peer
from app.agent.settings import Settings
from app.agent.state import Enrolment, State
from gpugoblin.errors import AgentError
from gpugoblin.wire.messages.enrol import EnrolStartReply
from gpugoblin.wire.signing import public_key_bytes

__all__ = ["chosen_peer", "coordinator_peer", "enrol_device", "is_enrolled"]


def coordinator_peer(settings: Settings) -> Peer:
    """Where the coordinator is.

    Raises:
        AgentError: `coordinator_missing`, `address_refused`.
    """
    address = settings.text("coordinator.address")
    if not address:
        raise AgentError("coordinator_missing")
    return Peer("coordinator", address, settings.text("coordinator.certificate_sha256"))


def chosen_peer(settings: Settings) -> Peer | None:
    """As `coordinator_peer`; None where no coordinator is named. Raises `address_refused`."""
    return coordinator_peer(settings) if settings.text("coordinator.address") else None


def is_enrolled(settings: Settings, state: State, key: Ed25519PrivateKey) -> bool:
    """True when the configured coordinator has accepted this device's key."""
    address = settings.text("coordinator.address")
    return state.enrolment(address, public_key_bytes(key)) is not None


def enrol_device(
    link: Link,
    state: State,
    key: Ed25519PrivateKey,
    show: Callable[[EnrolStartReply], None],
    sleep: Callable[[float], None],
) -> None:
    """Shows a code and waits for its approval; the enrolment is on disk when this returns. Blocks.

    Raises:
        AgentError: as `coordinator.enrol`.
    """
    public_key = public_key_bytes(key)
    device = coordinator.enrol(link, public_key, show, sleep)
    state.keep_enrolment(Enrolment(link.peer.address, device, public_key.hex()))
