"""What can happen to the agent, as data.

Owns: every event of the state machine (`machine.py`). Must not: decide anything. Each event goes to
a dict and back (`to_dict`, `from_dict`), so a recorded run can be replayed.

Times: `now_s` is the monotonic clock; `remaining_s` and the like are durations, so a wrong wall
clock cannot shorten a lease inside the machine.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from gpugoblin.ids import BlobHash, GrantId, LabId, LeaseId

__all__ = [
    "AskedToEnd",
    "BlobFailed",
    "BlobReady",
    "CardFound",
    "ContactFailed",
    "ContactReply",
    "EngineDied",
    "EngineDone",
    "EngineReady",
    "EngineRefused",
    "EngineStopped",
    "Enrolled",
    "Event",
    "ExchangeDone",
    "ExchangeFailed",
    "GrantNews",
    "LabRefused",
    "LeaseCancelled",
    "LeaseInput",
    "LeaseOffered",
    "LeaseRefused",
    "LeaseUnusable",
    "Recalled",
    "RulingChanged",
    "SubmitDeferred",
    "TaskRefused",
    "Tick",
    "UploadDone",
    "UploadFailed",
    "UploadsAwaited",
    "from_dict",
    "to_dict",
]


class _Event(Struct, frozen=True, tag=True, kw_only=True, forbid_unknown_fields=True):
    stimulus: str = ""


class GrantNews(Struct, frozen=True):
    """A grant as the machine sees it. `remaining_s`: until its end."""

    grant: GrantId
    lab: LabId
    card: int
    remaining_s: float
    max_leases: int


class LeaseInput(Struct, frozen=True):
    """One blob that a lease needs."""

    blob: BlobHash
    nbytes: int


class CardFound(_Event, frozen=True):
    """A card that this agent may lend."""

    card: int
    kind: Literal["cpu", "vulkan", "cuda"]


class Enrolled(_Event, frozen=True):
    """The coordinator knows this device: contacts may begin."""


class Recalled(_Event, frozen=True):
    """From the journal after a restart: grants that still hold, leases that were held."""

    grants: tuple[GrantNews, ...]
    leases: tuple[tuple[LeaseId, GrantId], ...]


class ContactReply(_Event, frozen=True):
    """The coordinator answered."""

    grants: tuple[GrantNews, ...]
    revoked: tuple[GrantId, ...]
    next_contact_s: float


class ContactFailed(_Event, frozen=True):
    """The coordinator did not answer, or refused. `retry_s` is drawn with full jitter outside."""

    code: str
    retry_s: float


class LeaseOffered(_Event, frozen=True):
    """A new lease. `inputs` without repeats; `input_bytes`, `output_bytes`: for the arenas."""

    grant: GrantId
    lease: LeaseId
    remaining_s: float
    inputs: tuple[LeaseInput, ...]
    output_bytes: int


class LeaseUnusable(_Event, frozen=True):
    """A lease that makes no sense (another's ticket, sizes that contradict each other)."""

    grant: GrantId
    lease: LeaseId
    code: str


class LeaseCancelled(_Event, frozen=True):
    """The lab wants no more of this lease."""

    lease: LeaseId


class LeaseRefused(_Event, frozen=True):
    """A commit or an abandon of this lease changed nothing: the lab has forgotten it."""

    lease: LeaseId
    code: str


class UploadsAwaited(_Event, frozen=True):
    """The lab has drawn its secrets for these leases: their bytes may travel."""

    leases: tuple[LeaseId, ...]


class ExchangeDone(_Event, frozen=True):
    """An exchange was answered; its leases, uploads and refusals came just before as events."""

    grant: GrantId
    exchange: int
    wait_s: float


class ExchangeFailed(_Event, frozen=True):
    """An exchange was not answered, or refused. `is_final`: the grant is worth nothing any more."""

    grant: GrantId
    exchange: int
    code: str
    retry_s: float
    is_final: bool


class BlobReady(_Event, frozen=True):
    """A blob is in the cache, verified."""

    grant: GrantId
    blob: BlobHash


class BlobFailed(_Event, frozen=True):
    """A blob could not be had. `is_final`: trying again would be no use; `is_lie`: the lab lied."""

    grant: GrantId
    blob: BlobHash
    code: str
    retry_s: float
    is_final: bool
    is_lie: bool = False


class EngineReady(_Event, frozen=True):
    """An engine runs and was measured."""

    card: int


class EngineRefused(_Event, frozen=True):
    """An engine could not be started (no sandbox, another program lends this card)."""

    card: int
    code: str
    retry_s: float


class EngineDone(_Event, frozen=True):
    """A task was computed; its outputs are hashed and kept."""

    card: int
    lease: LeaseId


class TaskRefused(_Event, frozen=True):
    """The engine refused a task before or while computing it and lives on.

    `is_nonsense`: the task itself is malformed, so the lab is at fault and not the card.
    `is_unfit`: the task is well, and so is the card, which lacks memory or a kernel for it.
    """

    card: int
    lease: LeaseId
    code: str
    is_nonsense: bool = False
    is_unfit: bool = False


class SubmitDeferred(_Event, frozen=True):
    """The arena has no room for this task now."""

    card: int
    lease: LeaseId


class EngineDied(_Event, frozen=True):
    """An engine ended by itself, or broke its protocol and was killed."""

    card: int
    code: str


class EngineStopped(_Event, frozen=True):
    """An engine that was told to stop is gone and its memory is free."""

    card: int


class UploadDone(_Event, frozen=True):
    """All outputs of a lease are on the lab node, and it said what became of them."""

    lease: LeaseId
    state: Literal["checking", "late", "cancelled"]


class UploadFailed(_Event, frozen=True):
    """An upload broke off. `is_final`: the lab will not take it."""

    lease: LeaseId
    code: str
    retry_s: float
    is_final: bool


class RulingChanged(_Event, frozen=True):
    """The policy's ruling for a card, the owner's intent included."""

    card: int
    ruling: Literal["RUN", "THROTTLE", "FREEZE", "STOP"]
    is_draining: bool
    gives_up_grants: bool = False
    duty_percent: int = 100


class LabRefused(_Event, frozen=True):
    """The owner wants nothing computed for a lab any more."""

    lab: LabId


class AskedToEnd(_Event, frozen=True):
    """The program is to end: give everything back."""


class Tick(_Event, frozen=True):
    """Time has passed."""


Event = (
    CardFound
    | Enrolled
    | Recalled
    | ContactReply
    | ContactFailed
    | LeaseOffered
    | LeaseUnusable
    | LeaseCancelled
    | LeaseRefused
    | UploadsAwaited
    | ExchangeDone
    | ExchangeFailed
    | BlobReady
    | BlobFailed
    | EngineReady
    | EngineRefused
    | EngineDone
    | TaskRefused
    | SubmitDeferred
    | EngineDied
    | EngineStopped
    | UploadDone
    | UploadFailed
    | RulingChanged
    | LabRefused
    | AskedToEnd
    | Tick
)


def to_dict(event: Event) -> dict[str, Any]:
    """An event as plain data; its kind is under `type`."""
    plain: dict[str, Any] = msgspec.to_builtins(event)
    return plain


def from_dict(plain: dict[str, Any]) -> Event:
    """The event that `to_dict` was given. Raises msgspec.ValidationError for anything else."""
    event: Event = msgspec.convert(plain, Event)
    return event
