"""`gg.train`: a model, its data and an optimizer become a run on the lab node.

Owns: that function: the checks before anything is sent, and the message. Must not: hold anything of
a run that goes on; `gpugoblin.client.run` is the view of it, from any process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, cast

import msgspec
import numpy as np

from gpugoblin.capture.array import from_source
from gpugoblin.capture.caller import Place, caller
from gpugoblin.capture.runner import PathLike
from gpugoblin.capture.source import Source
from gpugoblin.catalog.spec import Array as NumpyArray
from gpugoblin.client import public
from gpugoblin.client.run import Run
from gpugoblin.client.run_checkpoint import Checkpoint, Reading, read_checkpoint
from gpugoblin.client.session import Session
from gpugoblin.client.submitting import input_array
from gpugoblin.client.train_data import DataSet, data_set, memory_source
from gpugoblin.client.train_model import TrainModel, from_function, from_torch, is_torch
from gpugoblin.client.train_rounds import (
    AUTO,
    DEFAULT_SHARDS,
    automatic,
    late_of,
    refused,
    require,
    require_kept,
    rounds_of,
    with_late,
)
from gpugoblin.errors import ClientError
from gpugoblin.graph.serialize import encode
from gpugoblin.hashing import JOB, digest
from gpugoblin.ids import ArrayId
from gpugoblin.optim.step import Optimizer
from gpugoblin.optim.words import words_of
from gpugoblin.wire.messages.job import JobInfo
from gpugoblin.wire.messages.task import Constraints
from gpugoblin.wire.messages.training import EvaluationSubmit, LocalRounds, TrainingSubmit
from gpugoblin.wire.remote import RemoteError

__all__ = ["begin", "train"]

LARGEST_MICRO: Final = 64
"""Examples of a task where nobody says: small enough that several contributors share a batch."""

_OTHER_EXAMPLES: Final = (
    "gpugoblin: {path} read its data with {other}. This run does not, so it starts elsewhere in "
    "the data and may read examples again; give the same to read on where that one ended."
)


def train(
    model: Any,
    *,
    loss: Callable[..., Any] | None = None,
    data: Any,
    optimizer: Optimizer,
    steps: int,
    batch: int,
    name: str | None = None,
    micro_batch: int | None = None,
    local_steps: int | Literal["auto"] = 1,
    shards: int | None = None,
    late: float | None = None,
    quorum: int | None = None,
    record: Run | Sequence[str] | None = None,
    parameters: Mapping[str, NumpyArray] | None = None,
    evaluation: Any = None,
    evaluate_every: int = 0,
    patience: int = 0,
    least_gain: float = 0.0,
    clip_norm: float | None = None,
    seed: int = 0,
    shuffle: bool = True,
    checkpoint_every: int = 0,
    resume: PathLike | Run | None = None,
    numeric_class: str = "float32",
    executor: str = "auto",
    where: Constraints | None = None,
    priority: int = 0,
    overwrite: bool = False,
    session: Session | None = None,
) -> Run:
    """Trains a model on the lab node and whoever computes for it; every gradient is verified.

    The run lives on the lab node under its name: this process may end, and `gg.get(name)` finds it
    again. The same name and the same training attach to the run that is there.

    Args:
        model: a torch.nn.Module (its weights now are the first ones; it is not changed), or, with
            `parameters`, a function `f(parameters, *batch)` of lazy arrays that gives the loss.
        loss: `loss(output, target)`, where the last array of the data is the target; or
            `loss(model, *batch)`, if its first parameter is named `model`; None: the model gives
            the loss. One float32 number: the mean over the examples.
        data: an array, or a tuple of arrays, whose first axis counts examples.
        optimizer: `gg.AdamW(3e-4)`, `gg.SGD(0.1, momentum=0.9)`, ...; a rate may be a schedule.
        steps: of the optimizer. batch: examples a step. micro_batch: examples a task, a divisor of
            the batch; gradients of a batch are their mean.
        local_steps: more than 1: rounds, in which each of `shards` tasks makes so many steps on
            examples of its own (`batch` of them a step) and gives what its weights moved by as
            int8; their mean is taken with Nesterov's momentum. Far fewer bytes a step, another
            curve; losses, evaluations and versions count rounds. Needs `numeric_class="exact"`.
            `"auto"`: as many as keep devices computing for 85 % of the time over the links that the
            node has measured; chosen once, and kept by the run of this name and its checkpoints.
            shards: 4 where it is not said; of rounds only.
        late: None: a round waits for all its shards. A number up to 1: a round ends once most of
            them are there and the others are later than is usual; those are taken into the next
            round with this weight. The result then follows from what came when, which is kept:
            quorum: shards without which no round ends, else more than half. record: a run, or
            `run.record()`, whose rounds end as that one's did, which gives the same bits.
        evaluation: data of the same form that is not trained on, and `evaluate_every` so many
            steps its mean loss is computed. patience: end after so many evaluations in a row that
            were not better than the best by `least_gain`.
        clip_norm: gradients whose norm over all of them is larger are scaled to it.
        seed, shuffle: the order of the examples, a new one each epoch, and random numbers.
        checkpoint_every: keep the weights of every so many steps (rounds) beside the newest.
        resume: a checkpoint file or a run whose weights, optimizer and place in the data go on.
        numeric_class, executor, where, priority, overwrite: as for any job; `where` speaks of
            contributors' cards, so not with executor="local" or "ray".
        session: instead of the one in use.

    Returns:
        the run: `run.wait()`, `run.losses`, `run.plot()`, `run.load_into(model)`.

    Raises:
        ClientError: `data_malformed`, `data_not_finite`, `loss_refused`, `model_not_trainable`,
            `training_refused`, `checkpoint_misfit`, `not_connected`.
        CaptureError: as `gg.capture`. RemoteError: what the node says against it.
    """
    place = caller()
    link = session or public.current_session()
    _require_used(
        place,
        (shards is not None and local_steps == 1, "shards", shards, "only rounds of local steps "
         "have shards; give local_steps= too, or micro_batch= to cut a batch"),
        (late is not None and local_steps == 1, "late", late, "only rounds of local steps have "
         "late shards; give local_steps= too"),
        (parameters is not None and is_torch(model), "parameters", "...", "a torch module has "
         "parameters of its own; leave it out"),
        (parameters is not None and not is_torch(model) and loss is not None, "loss", loss,
         "the function that is trained gives the loss itself; leave it out"),
        (least_gain and not patience, "least_gain", least_gain, "it needs patience="),
        (where is not None and executor in ("local", "ray"), "where", where, "it speaks of "
         f"contributors' cards, executor={executor!r} of the lab's own; leave one out"),
    )  # fmt: skip
    examples = data_set(data, place)
    rows = _micro(place, steps, batch, micro_batch, examples)
    rounds, count = None, DEFAULT_SHARDS if shards is None else shards
    if local_steps != 1:
        require(place, local_steps, count, batch, micro_batch, numeric_class)
        rows = batch
        if local_steps != AUTO:
            rounds = rounds_of(place, steps, batch, local_steps, count, examples.examples)
    behind = late_of(place, late, quorum, record, count)

    def read(source: Source) -> NumpyArray:
        return np.asarray(from_source(source)[:rows].compute())

    first = examples.first(rows, read)
    made = _captured(model, loss, parameters, first, place)
    start = _loaded(resume, made)
    if local_steps == AUTO:
        rounds = automatic(
            link, place, made, optimizer, start, name, steps=steps, micro=rows, shards=count,
            examples=examples.examples, clip_norm=clip_norm, numeric_class=numeric_class,
            executor=_executor(link, executor),
        )  # fmt: skip
    if rounds is not None:
        rounds = with_late(place, rounds, behind, steps // rounds.steps)
        steps, batch = steps // rounds.steps, batch * rounds.steps * rounds.shards
    require_kept(place, checkpoint_every, start.step if start else 0, steps, rounds is not None)
    reading = Reading(batch, rows, seed, shuffle, rounds.steps if rounds else 1)
    if start is not None:
        start.require_state(optimizer, reading)
    if start is not None and (other := start.read_otherwise(reading)):
        link.say(_OTHER_EXAMPLES.format(path=start.path or "the run", other=other))
    held = None
    if evaluation is not None:
        held, fixed = _evaluation(
            model, loss, parameters, data_set(evaluation, place, "evaluation"),
            evaluate_every or max(1, steps // 20), (patience, least_gain), rows,
            _Arrays(link, place), seed, made,
        )  # fmt: skip
        made = replace(made, fixed=fixed)
    elif patience or evaluate_every:
        name, value = ("patience", patience) if patience else ("evaluate_every", evaluate_every)
        raise refused(place, name, value, "it needs evaluation= data")
    return begin(
        made, examples, optimizer, place=place, steps=steps, batch=batch, rows=rows, name=name,
        start=start, held=held, local=rounds, clip_norm=clip_norm, seed=seed, shuffle=shuffle,
        checkpoint_every=checkpoint_every, numeric_class=numeric_class, executor=executor,
        where=where, priority=priority, overwrite=overwrite, session=link,
    )  # fmt: skip


def begin(
    made: TrainModel,
    examples: DataSet,
    optimizer: Optimizer,
    *,
    place: Place,
    steps: int,
    batch: int,
    rows: int,
    name: str | None = None,
    start: Checkpoint | None = None,
    held: EvaluationSubmit | None = None,
    local: LocalRounds | None = None,
    clip_norm: float | None = None,
    seed: int = 0,
    shuffle: bool = True,
    checkpoint_every: int = 0,
    numeric_class: str = "float32",
    executor: str = "auto",
    where: Constraints | None = None,
    priority: int = 0,
    overwrite: bool = False,
    session: Session | None = None,
) -> Run:
    """Sends what a training reads, and the training. See `train`.

    Args:
        made: the captured loss of `rows` examples. start: weights to begin with, instead of its
            own. held: the evaluation. local: rounds of several steps.
    """
    link = session or public.current_session()
    arrays = _Arrays(link, place)
    micros, span = batch // rows, local.steps if local else 1
    done = start.step if start else 0
    flat = start.flat if start else made.flat
    numbers = np.arange(done * span, (done + steps) * span, dtype=np.int64)
    keys = np.empty((steps * micros, 2), np.int64)
    keys[:, 0] = seed
    keys[:, 1] = np.arange(done * micros, (done + steps) * micros)
    fields = {
        "graph": encode(made.graph), "slots": made.slots, "updates": made.updates,
        "tensors": made.tensors, "parameters": arrays.send(flat["parameter"]),
        "buffers": arrays.send(flat["buffer"]) if "buffer" in flat else None,
        "counts": arrays.send(flat["count"]) if "count" in flat else None,
        "state": tuple(arrays.send(one) for one in (start.state if start else ())),
        "steps_array": arrays.send(numbers), "keys": arrays.send(keys.reshape(-1)),
        "data": tuple(arrays.known(source) for source in examples.sources),
        "fixed": tuple(arrays.send(one) for one in made.fixed),
        "optimizer": msgspec.json.encode(words_of(optimizer)).decode(), "steps": steps,
        "batch": batch, "micro": rows, "name": name, "first_step": done, "clip_norm": clip_norm,
        "seed": seed, "shuffle": shuffle, "keep_every": checkpoint_every, "evaluation": held,
        "local": local, "numeric_class": numeric_class, "executor": _executor(link, executor),
        "constraints": where or Constraints(), "priority": priority,
    }  # fmt: skip
    try:
        message = msgspec.convert(fields, TrainingSubmit)
    except msgspec.ValidationError as cause:
        raise ClientError("option_refused", reason=str(cause)) from cause
    if message.name is None:
        message = msgspec.structs.replace(message, name=_content_name(message))
    return Run(link, _submit(link, message, overwrite))


def _executor(link: Session, wanted: str) -> str:
    return "local" if wanted == "auto" and link.is_local else wanted


def _require_used(place: Place, *found: tuple[object, str, object, str]) -> None:
    """Raises for the first option that would have no effect: (whether it has none, its name, its
    value, why, and what to do)."""
    for idle, name, value, reason in found:
        if idle:
            raise refused(place, name, value, reason)


def _micro(place: Place, steps: int, batch: int, wanted: int | None, examples: DataSet) -> int:
    """Examples of a task."""
    for name, value in (("steps", steps), ("batch", batch)):
        if not isinstance(value, int) or value < 1:
            raise refused(place, name, value, "a whole number of 1 or more is wanted")
    if examples.examples < batch:
        reason = f"the data has {examples.examples} examples only"
        raise refused(place, "batch", batch, reason)
    if wanted is None:
        return max(n for n in range(1, min(batch, LARGEST_MICRO) + 1) if batch % n == 0)
    if wanted < 1 or batch % wanted:
        raise refused(place, "micro_batch", wanted, f"it does not divide the batch of {batch}")
    return wanted


def _captured(
    model: Any,
    loss: Callable[..., Any] | None,
    parameters: Mapping[str, NumpyArray] | None,
    batch: Sequence[NumpyArray],
    place: Place,
    beside: TrainModel | None = None,
) -> TrainModel:
    if is_torch(model):
        return from_torch(model, loss, batch, place, beside)
    if callable(model) and parameters is not None:
        return from_function(model, parameters, batch, place, beside)
    reason = f"it is a {type(model).__name__}" + ("" if parameters else " without parameters=")
    raise ClientError("model_not_trainable", line=place, reason=reason)


def _loaded(resume: PathLike | Run | None, made: TrainModel) -> Checkpoint | None:
    if resume is None:
        return None
    found = resume.weights() if isinstance(resume, Run) else read_checkpoint(resume)
    found.require(made.tensors)
    return found


def _evaluation(
    model: Any,
    loss: Callable[..., Any] | None,
    parameters: Mapping[str, NumpyArray] | None,
    examples: DataSet,
    every: int,
    patience: tuple[int, float],
    rows: int,
    arrays: _Arrays,
    seed: int,
    beside: TrainModel,
) -> tuple[EvaluationSubmit, tuple[NumpyArray, ...]]:
    """The loss on other data, with all fixed arrays; a torch module is captured as it is in
    `eval()`. `beside`: what is trained."""
    rows = min(rows, examples.examples)
    place = arrays.place

    def read(source: Source) -> NumpyArray:
        return np.asarray(from_source(source)[:rows].compute())

    batch = examples.first(rows, read)
    if is_torch(model):
        was_training = model.training
        model.eval()
        try:
            made = from_torch(model, loss, batch, place, beside)
        finally:
            model.train(was_training)
    else:
        made = _captured(model, loss, parameters, batch, place, beside)
    parts = examples.examples // rows
    keys = np.empty((parts, 2), np.int64)
    keys[:, 0], keys[:, 1] = seed, -1 - np.arange(parts)
    keyed = any(slot.kind == "key" for slot in made.slots)
    wanted = EvaluationSubmit(
        graph=encode(made.graph), slots=made.slots,
        data=tuple(arrays.known(source) for source in examples.sources), every=every,
        keys=arrays.send(keys.reshape(-1)) if keyed else None,
        patience=patience[0], least=patience[1],
    )  # fmt: skip
    return wanted, made.fixed


class _Arrays:
    """Arrays on their way to the node."""

    def __init__(self, link: Session, place: Place) -> None:
        self._link = link
        self.place = place

    def send(self, array: NumpyArray) -> ArrayId:
        """An array of this process."""
        return self.known(memory_source(array, self.place))

    def known(self, source: Source) -> ArrayId:
        return input_array(source, self._link.transport)


def _submit(link: Session, message: TrainingSubmit, overwrite: bool) -> JobInfo:
    call = link.transport.call
    try:
        return call("POST", "/v1/trainings", JobInfo, body=message, repeatable=True)
    except RemoteError as refusal:
        if refusal.code != "job_name_taken" or not overwrite:
            raise
    link.get(cast(str, message.name)).delete()
    return call("POST", "/v1/trainings", JobInfo, body=message, repeatable=True)


def _content_name(message: TrainingSubmit) -> str:
    local = message.local and msgspec.structs.replace(message.local, chosen=None)
    bare = msgspec.structs.replace(message, local=local)
    return f"training-{digest(JOB, msgspec.json.encode(bare))[:12]}"
