"""Rounds of local steps as a researcher asks for them: checked, and chosen where `"auto"` is said.

Owns: what is said against such rounds before anything is sent, and where the number of local steps
comes from. Must not: send a training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from gpugoblin.capture.caller import Place
from gpugoblin.client.run import Run
from gpugoblin.client.run_checkpoint import Checkpoint
from gpugoblin.client.session import Session
from gpugoblin.client.train_model import TrainModel
from gpugoblin.errors import ClientError
from gpugoblin.graph.serialize import encode
from gpugoblin.optim.step import Optimizer
from gpugoblin.optim.words import words_of
from gpugoblin.plan.local_steps import FEWEST
from gpugoblin.wire.messages.training import (
    ChosenSteps,
    LateShards,
    LocalRounds,
    LocalStepsAsk,
)
from gpugoblin.wire.remote import RemoteError

__all__ = [
    "AUTO",
    "DEFAULT_SHARDS",
    "automatic",
    "late_of",
    "refused",
    "require",
    "require_kept",
    "rounds_of",
    "with_late",
]

AUTO: Final = "auto"
DEFAULT_SHARDS: Final = 4


def refused(place: Place, name: str, value: object, reason: str) -> ClientError:
    """An option that does not do, before anything was sent."""
    return ClientError("training_refused", line=place, name=name, value=value, reason=reason)


def require(
    place: Place, local: object, shards: object, batch: int, micro: int | None, numeric: str
) -> None:
    """Raises ClientError `training_refused` for rounds that cannot be."""
    if local != AUTO and (not isinstance(local, int) or not 1 < local <= 1024):
        reason = "a whole number from 1 to 1,024, or 'auto', is wanted"
        raise refused(place, "local_steps", local, reason)
    if not isinstance(shards, int) or not 1 <= shards <= 256:
        raise refused(place, "shards", shards, "a whole number from 1 to 256 is wanted")
    if micro not in (None, batch):
        reason = "a task with local steps takes a whole batch a step"
        raise refused(place, "micro_batch", micro, reason)
    if numeric != "exact":
        reason = "with local steps equal bits are what is verified; numeric_class='exact' is wanted"
        raise refused(place, "numeric_class", numeric, reason)


def require_kept(place: Place, every: object, done: int, turns: int, local: bool) -> None:
    """Raises ClientError `training_refused` for weights that are to be kept and never come.

    Args:
        every: of which steps (rounds). done: those of earlier runs. turns: those of this one.
    """
    last = done + turns
    if isinstance(every, int) and every > 0 and last // every == done // every:
        turn = "round" if local else "step"
        reason = f"no {turn} of this run has such a number: it ends after {turn} {last}"
        raise refused(place, "checkpoint_every", every, reason)


def late_of(
    place: Place, late: object, quorum: object, record: Run | Sequence[str] | None, shards: int
) -> LateShards | None:
    """Rounds that end without all their shards, if that is asked for.

    Raises:
        ClientError: `training_refused`.
    """
    if late is None:
        for name, value in (("quorum", quorum), ("record", record)):
            if value is not None:
                reason = "only rounds that end without late shards have one; give late= too"
                raise refused(place, name, value, reason)
        return None
    if isinstance(late, bool) or not isinstance(late, int | float) or not 0 < late <= 1:
        reason = "a number above 0, and at most 1, is wanted: what a late shard counts"
        raise refused(place, "late", late, reason)
    if shards < 2:
        raise refused(place, "shards", shards, "a round of one shard has none to go on without")
    if quorum is None:
        quorum = shards // 2 + 1
    if isinstance(quorum, bool) or not isinstance(quorum, int) or not 1 <= quorum <= shards:
        reason = f"a whole number from 1 to {shards}, the number of shards, is wanted"
        raise refused(place, "quorum", quorum, reason)
    masks = record.record() if isinstance(record, Run) else tuple(record or ())
    if record is not None and not masks:
        raise refused(place, "record", "...", "it names no round")
    for turn, mask in enumerate(masks):
        if not isinstance(mask, str) or len(mask) != shards or mask.strip("01"):
            reason = f"round {turn} of it is {mask!r}; {shards} characters '0' or '1' are wanted"
            raise refused(place, "record", "...", reason)
    return LateShards(quorum, float(late), masks)


def rounds_of(
    place: Place, steps: int, batch: int, local: int, shards: int, examples: int
) -> LocalRounds:
    """Rounds of so many steps. Raises ClientError `training_refused` where `steps` or the examples
    of the data do not do."""
    if steps % local:
        raise refused(place, "steps", steps, f"rounds of {local} steps do not divide it")
    read = batch * local * shards
    if examples < read:
        reason = f"a round reads {read} examples, the data has {examples}"
        raise refused(place, "local_steps", local, reason)
    return LocalRounds(local, shards)


def with_late(
    place: Place, rounds: LocalRounds, late: LateShards | None, turns: int
) -> LocalRounds:
    """The same rounds, and what becomes of their late shards. Raises as `rounds_of`."""
    masks = late.record if late is not None else ()
    if masks and len(masks) != turns:
        reason = f"it has {len(masks)} rounds, this run {turns}"
        raise refused(place, "record", "...", reason)
    return msgspec.structs.replace(rounds, late=late)


def automatic(
    link: Session, place: Place, made: TrainModel, optimizer: Optimizer, start: Checkpoint | None,
    name: str | None, **asked: Any,
) -> LocalRounds:  # fmt: skip
    """Rounds of as many steps as the checkpoint to begin with has, or the run of this name, or as
    the node chooses. `asked`: the other fields of `LocalStepsAsk`.

    Raises:
        ClientError: `training_refused`, `option_refused`. RemoteError: what the node says.
    """
    sizes = asked["steps"], asked["micro"]
    shards, examples = asked["shards"], asked["examples"]
    kept = start.local_steps if start is not None else 1
    if kept > 1:
        return rounds_of(place, *sizes, kept, shards, examples)
    rounds_of(place, 0, sizes[1], FEWEST, shards, examples)
    chosen = _known(link, name, sizes[0]) or _ask(link, made, optimizer, asked)
    rounds = rounds_of(place, *sizes, chosen.steps, shards, examples)
    return msgspec.structs.replace(rounds, chosen=chosen)


def _known(link: Session, name: str | None, steps: int) -> ChosenSteps | None:
    """What was chosen for the run of this name, if it is one of so many steps: who asks again for
    the same training gets it again, however the link has changed."""
    if name is None:
        return None
    try:
        job = link.get(name)
    except RemoteError as error:
        if error.code != "unknown_job":
            raise
        return None
    if not isinstance(job, Run):
        return None
    found = job.training()
    return found.chosen if found.steps * found.local_steps == steps else None


def _ask(
    link: Session, made: TrainModel, optimizer: Optimizer, asked: dict[str, Any]
) -> ChosenSteps:
    """The node's choice, by the links that it has measured."""
    given = {
        "graph": encode(made.graph), "slots": made.slots, "updates": made.updates,
        "tensors": made.tensors,
        "optimizer": msgspec.json.encode(words_of(optimizer)).decode(), **asked,
    }  # fmt: skip
    try:
        message = msgspec.convert(given, LocalStepsAsk)
    except msgspec.ValidationError as cause:
        raise ClientError("option_refused", reason=str(cause)) from cause
    return link.transport.call("POST", "/v1/pace", ChosenSteps, body=message, repeatable=True)
