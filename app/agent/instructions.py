"""What the state machine tells its shell to do, as data.

Owns: every instruction. Must not: do anything. Each carries the id of the stimulus that caused it,
so a log can be read backwards.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from gpugoblin.ids import BlobHash, GrantId, LabId, LeaseId

__all__ = [
    "AbandonReason",
    "CancelTask",
    "Contact",
    "Drained",
    "DropGrant",
    "DropLease",
    "End",
    "Exchange",
    "Fetch",
    "ForgetLease",
    "FreezeEngine",
    "Instruction",
    "OpenGrant",
    "RememberLease",
    "Say",
    "StartEngine",
    "StopEngine",
    "SubmitTask",
    "ThawEngine",
    "ThrottleEngine",
    "Upload",
    "matches",
]

AbandonReason = Literal["owner", "does_not_fit", "engine_failed", "inputs_missing", "shutdown"]


class _Instruction(Struct, frozen=True, tag=True, kw_only=True):
    stimulus: str = ""


class Contact(_Instruction, frozen=True):
    """Tell the coordinator which grants are held and which cards want one."""

    holding: tuple[GrantId, ...]
    wants: tuple[int, ...]


class OpenGrant(_Instruction, frozen=True):
    """Write the grant into the journal and make a link and a cache for it."""

    grant: GrantId


class DropGrant(_Instruction, frozen=True):
    """Close the link, wipe the cache and its key, forget the grant."""

    grant: GrantId


class RememberLease(_Instruction, frozen=True):
    """Write the lease into the journal, before anything is done for it."""

    grant: GrantId
    lease: LeaseId


class ForgetLease(_Instruction, frozen=True):
    """The lab knows how this lease ended: strike it from the journal."""

    lease: LeaseId


class DropLease(_Instruction, frozen=True):
    """Free what is kept for a lease: its task, its pins in the cache, its outputs."""

    lease: LeaseId


class Exchange(_Instruction, frozen=True):
    """One lease exchange with the lab of a grant. `exchange` numbers it."""

    grant: GrantId
    exchange: int
    commits: tuple[LeaseId, ...] = ()
    abandons: tuple[tuple[LeaseId, AbandonReason], ...] = ()
    holding: tuple[LeaseId, ...] = ()
    want: int = 0
    introduces: bool = False


class Fetch(_Instruction, frozen=True):
    """Bring a blob into the cache of a grant, with the blob ticket of a lease."""

    grant: GrantId
    lease: LeaseId
    blob: BlobHash
    nbytes: int


class StartEngine(_Instruction, frozen=True):
    """Start an engine on a card. `lab` empty: it will be measured and has seen no lab yet."""

    card: int
    lab: LabId | None


class StopEngine(_Instruction, frozen=True):
    """End the engine of a card at once."""

    card: int
    reason: Literal["owner", "other_lab", "unused", "shutdown"]


class FreezeEngine(_Instruction, frozen=True):
    """Stop the processor's engine in its place, memory kept."""

    card: int


class ThawEngine(_Instruction, frozen=True):
    """Let a frozen engine go on."""

    card: int


class ThrottleEngine(_Instruction, frozen=True):
    """Let an engine compute so much of the time; 100: all of it."""

    card: int
    duty_percent: int


class SubmitTask(_Instruction, frozen=True):
    """Put the inputs of a lease into the arena and its task into the engine's queue."""

    card: int
    lease: LeaseId


class CancelTask(_Instruction, frozen=True):
    """Take a submitted task out of the engine."""

    card: int
    lease: LeaseId


class Upload(_Instruction, frozen=True):
    """Send the outputs of a lease."""

    grant: GrantId
    lease: LeaseId


class Drained(_Instruction, frozen=True):
    """The last task of a card that was to finish has ended."""

    card: int


class Say(_Instruction, frozen=True):
    """One line for people. `code` is a key of `app.control.words`."""

    code: str
    fields: dict[str, str | int | float] = {}


class End(_Instruction, frozen=True):
    """Everything is given back: the program may end."""


Instruction = (
    Contact
    | OpenGrant
    | DropGrant
    | RememberLease
    | ForgetLease
    | DropLease
    | Exchange
    | Fetch
    | StartEngine
    | StopEngine
    | FreezeEngine
    | ThawEngine
    | ThrottleEngine
    | SubmitTask
    | CancelTask
    | Upload
    | Drained
    | Say
    | End
)


def matches(instruction: Instruction, kind: type[Struct], **partial: Any) -> bool:
    """True when the instruction is of this kind and has these field values, others not looked at.

    Raises:
        LookupError: `kind` has no such field (so a misspelled test cannot pass).
    """
    unknown = set(partial) - set(kind.__struct_fields__)
    if unknown:
        raise LookupError(f"{kind.__name__} has no field {sorted(unknown)}")
    return type(instruction) is kind and all(
        getattr(instruction, name) == value for name, value in partial.items()
    )
