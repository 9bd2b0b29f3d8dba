"""The words of the state machine: states, parties, effects, and the step of one handler.

Owns: these data types and the figures of the rules (lease times, caps, trust). Must not: hold a
rule.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from server_stub.node.store.protocol import Tx

__all__ = [
    "LOCAL_DEVICE",
    "RAY_DEVICES",
    "SANDBOX_RANK",
    "VALIDATOR",
    "DiscardResults",
    "DropBlob",
    "DropUploads",
    "Effect",
    "FinishJob",
    "JobChanged",
    "Party",
    "Purpose",
    "Rules",
    "RunWork",
    "Step",
    "StopLease",
    "TaskState",
    "Wake",
]

TaskState = Literal[
    "waiting", "ready", "leased", "checking", "suspect", "verified", "used", "failed", "cancelled"
]
"""A task's life: `waiting` (an input is not there yet), `ready`, `leased`, `checking` (its result
is judged), `verified`, `used` (folded into the aggregate); `suspect`: another party must compute
it too; `failed`, `cancelled`: it ends without a result."""

Purpose = Literal["prepare", "compute", "check", "recompute", "judge", "compare", "fold"]
"""Why a work item runs. `judge`: a verdict on a result whose task is decided already."""

LOCAL_DEVICE: Final = "local"
VALIDATOR: Final = "validator"
RAY_DEVICES: Final = "ray:"
"""Devices of the lab's Ray cluster begin so. They and `local` have no grant: their leases end with
the node's life, not with a clock."""
SANDBOX_RANK: Final = {"none": 0, "reduced": 1, "full": 2}


@dataclass(frozen=True, slots=True)
class Rules:
    """The figures of the rules (research: time-outs and trust), and what the catalog is.

    Args:
        lease_floor_s, lease_factor: a lease lasts `max(floor, factor * estimate)`, at most
            `lease_cap_s`.
        upload_s: how long the bytes of a committed result may take.
        unheard_s: a device that does not name a lease of that age never got it.
        attempts: leases of one task that may come to nothing before the validator computes it.
        local_attempts: the same for the lab's own engine, where nobody else would come.
        trusted_passes: full checks at this lab before a device's vote counts in an agreement.
        owner_age_days: younger owners never count in an agreement.
        audit_fraction: part of the agreed tasks that the validator recomputes all the same.
        vote_after_s: a second opinion starts this much later, at random in the range.
        active_s: a device that was seen within this time may be drawn for a second opinion.
        stuck_s: a grid task that came back and that nobody took for so long is the validator's.
        unused_upload_s: an uploaded array that no job names is deleted after this.
        ended_kept_s: how long a failed or cancelled job keeps what was verified.
        quarantine_after, quarantine_s: rejected results without 10 good ones between them.
        unit_flops, unit_bytes: one unit of credit is this much verified work, whichever is more.
    """

    catalog_hash: str
    lease_floor_s: float = 60.0
    lease_factor: float = 4.0
    lease_cap_s: float = 24 * 3600.0
    upload_s: float = 600.0
    unheard_s: float = 10.0
    attempts: int = 8
    local_attempts: int = 3
    trusted_passes: int = 10
    owner_age_days: int = 7
    audit_fraction: float = 0.02
    vote_after_s: tuple[float, float] = (5.0, 30.0)
    active_s: float = 900.0
    stuck_s: float = 900.0
    unused_upload_s: float = 7 * 24 * 3600.0
    ended_kept_s: float = 7 * 24 * 3600.0
    quarantine_after: int = 3
    quarantine_s: float = 24 * 3600.0
    unit_flops: float = 1e12
    unit_bytes: float = 1e10


@dataclass(frozen=True, slots=True)
class Party:
    """Who asks for leases: a device by its grant. Owners are pseudonyms of this lab."""

    device: str
    owner: str
    bucket: str
    owner_age_days: int
    grant: str
    card: int
    grant_exp_s: float
    max_leases: int


@dataclass(frozen=True, slots=True)
class RunWork:
    """Have the workers do something. For `prepare`, `task` is the number of the region."""

    purpose: Purpose
    task: int
    lease: str = ""
    second: str = ""


@dataclass(frozen=True, slots=True)
class StopLease:
    """The result of this lease is no longer wanted."""

    lease: str
    device: str


@dataclass(frozen=True, slots=True)
class DropBlob:
    """No row names this blob: delete its file before the next transaction."""

    blob: str


@dataclass(frozen=True, slots=True)
class DropUploads:
    """A lease ended before all bytes of its outputs were here: those that are, go."""

    lease: str
    outputs: int


@dataclass(frozen=True, slots=True)
class JobChanged:
    """Whoever waits for this job should look again."""

    job: str


@dataclass(frozen=True, slots=True)
class Wake:
    """There are ready tasks for this executor."""

    executor: str


@dataclass(frozen=True, slots=True)
class FinishJob:
    """Every task is used: give the results their names, then say `jobs.finish`."""

    job: str


@dataclass(frozen=True, slots=True)
class DiscardResults:
    """The job has ended without results: delete what was written so far."""

    job: str


_BASE32: Final = (b"abcdefghijklmnopqrstuvwxyz234567" * 8)[:256]
"""Each random byte gives one digit of 5 bits."""
_TOGETHER: Final = 4

Effect = (
    RunWork | StopLease | DropBlob | DropUploads | JobChanged | Wake | FinishJob | DiscardResults
)


@dataclass(slots=True)
class Step:
    """One handler's world. `effects` are carried out once the transaction is durable.

    Args:
        validator_behind: the validator's queue is longer than two lease times: lease less.
        notes, sent_bytes: for the jobs' diaries and counters, written by `events.settle` at the
            end of the step in one statement a job.
        grid_s: seconds that volunteers computed, by job, written there for the jobs' owners.
        facts: what never changes about (job, graph), kept by the node from step to step.
        together: what ids of this step begin with whose rows should stand together.
        dropping: blobs whose last reference went and whose files are still to be deleted, shared
            by all steps of a commit: whoever takes a new reference takes the blob out.
    """

    tx: Tx
    now_s: float
    rng: random.Random
    rules: Rules
    validator_behind: bool = False
    effects: list[Effect] = field(default_factory=list)
    notes: list[tuple[str, str, int | None, str]] = field(default_factory=list)
    sent_bytes: dict[str, int] = field(default_factory=dict)
    grid_s: dict[str, float] = field(default_factory=dict)
    facts: dict[tuple[str, str], tuple[Any, ...]] = field(default_factory=dict)
    dropping: set[str] = field(default_factory=set)
    together: bytes = b""

    def emit(self, effect: Effect) -> None:
        if effect not in self.effects:
            self.effects.append(effect)

    def fresh_id(self, prefix: str) -> str:
        """An id of 130 bits of this step's random source."""
        return f"{prefix}_{self.rng.randbytes(26).translate(_BASE32).decode('ascii')}"

    def near_id(self, prefix: str) -> str:
        """The same, but all such ids of this step begin with the same 20 random bits, so that their
        rows and index entries stand on one page instead of one page each. It tells neither time nor
        order, and 110 bits are each id's own."""
        digits = self.rng.randbytes(26).translate(_BASE32)
        self.together = self.together or digits[:_TOGETHER]
        return f"{prefix}_{(self.together + digits[_TOGETHER:]).decode('ascii')}"
