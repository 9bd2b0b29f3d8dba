"""`gg.prepare`: a training loop of one's own, three lines changed.

Owns: the module that steps on the lab node, and reading torch's optimizers. Each step is a training
of one step: verified like any other, and gone from the node when its weights are here. Must not:
keep weights anywhere but in the module: torch code that saves, loads or looks at them goes on
working.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from gpugoblin.capture.caller import Place, caller
from gpugoblin.catalog.spec import Array as NumpyArray
from gpugoblin.client.run import Run
from gpugoblin.client.run_checkpoint import Checkpoint
from gpugoblin.client.session import Session
from gpugoblin.client.train import begin
from gpugoblin.client.train_data import data_set
from gpugoblin.client.train_model import TrainModel, from_torch
from gpugoblin.errors import ClientError
from gpugoblin.ids import fresh_id
from gpugoblin.optim.adam import Adam, AdamW
from gpugoblin.optim.sgd import SGD
from gpugoblin.optim.step import Optimizer
from gpugoblin.wire.messages.training import NamedTensor

__all__ = ["Prepared", "optimizer_of_torch", "prepare"]


def prepare(
    model: Any,
    optimizer: Any,
    *,
    loss: Callable[..., Any] | None = None,
    micro_batch: int | None = None,
    clip_norm: float | None = None,
    executor: str = "auto",
    session: Session | None = None,
) -> tuple[Prepared, Any]:
    """A torch module whose steps are computed on the lab node, and its optimizer.

        model, optimizer = gg.prepare(model, optimizer, loss=F.cross_entropy)
        for batch in loader:
            loss = model.step(batch)        # instead of forward, backward, optimizer.step()

    The weights travel with every step; a run of `gg.train` leaves them on the node.

    Args:
        optimizer: torch.optim.SGD, Adam or AdamW with one group of parameters, or one of
            gpugoblin's. Its rate is read before each step, so torch's schedulers work.
        loss, clip_norm, executor, session: as `gg.train` has them. micro_batch: examples a task at
            most; a batch is cut into equal parts, and a loader's last one may be short.

    Raises:
        ClientError: `training_refused`, for another optimizer or micro-batch.
    """
    place = caller()
    optimizer_of_torch(optimizer, place)
    if micro_batch is not None and (not isinstance(micro_batch, int) or micro_batch < 1):
        reason = "a whole number of 1 or more is wanted"
        raise ClientError("training_refused", line=place, name="micro_batch", value=micro_batch,
                          reason=reason)  # fmt: skip
    return Prepared(model, optimizer, loss, micro_batch, clip_norm, executor, session), optimizer


def optimizer_of_torch(given: Any, place: Place) -> Optimizer:
    """The optimizer of gpugoblin that does what torch's does.

    Raises:
        ClientError: `training_refused`.
    """
    if isinstance(given, Optimizer):
        return given
    kind = type(given).__name__
    groups = getattr(given, "param_groups", None)
    if kind not in ("SGD", "Adam", "AdamW") or not groups:
        raise _refused(place, kind, "torch's SGD, Adam or AdamW is wanted, or one of gpugoblin's")
    if len(groups) != 1:
        raise _refused(place, kind, f"it has {len(groups)} groups of parameters, not one")
    group = groups[0]
    if group.get("maximize"):
        raise _refused(place, kind, "it climbs; negate the loss instead")
    rate = float(group["lr"])
    decay = float(group.get("weight_decay", 0.0))
    if kind == "SGD":
        return SGD(
            rate, float(group["momentum"]), float(group["dampening"]), bool(group["nesterov"]),
            decay,
        )  # fmt: skip
    beta1, beta2 = group["betas"]
    # torch's AdamW is, in newer versions, an Adam that is told to decouple.
    apart = kind == "AdamW" or bool(group.get("decoupled_weight_decay"))
    return (AdamW if apart else Adam)(
        rate, float(beta1), float(beta2), float(group["eps"]), decay, bool(group["amsgrad"])
    )


def _refused(place: Place, kind: str, reason: str) -> ClientError:
    return ClientError("training_refused", line=place, name="optimizer", value=kind, reason=reason)


class Prepared:
    """A torch module with `step`. Everything else is the module's own."""

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        loss: Callable[..., Any] | None,
        micro_batch: int | None,
        clip_norm: float | None,
        executor: str,
        session: Session | None,
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._loss = loss
        self._micro_batch = micro_batch
        self._options = {"clip_norm": clip_norm, "executor": executor, "session": session}
        self._captured: dict[tuple[Any, ...], TrainModel] = {}
        self._state: tuple[NumpyArray, ...] = ()
        self._done = 0

    @property
    def module(self) -> Any:
        """The torch module itself."""
        return self._model

    def step(self, *batch: Any) -> float:
        """Forward, backward and one step of the optimizer on a batch; the loss before the step.

        Args:
            batch: arrays or tensors whose first axis counts examples, or one tuple of them.

        Raises:
            ClientError, CaptureError, RemoteError: as `gg.train`. JobFailed: the step failed; the
                module is as it was.
        """
        place = caller()
        given = batch[0] if len(batch) == 1 and isinstance(batch[0], tuple | list) else batch
        examples = data_set(tuple(given), place, "batch")
        rows = self._rows(examples.examples)
        made = self._graph([np.asarray(one.array[:rows]) for one in examples.sources], place)  # type: ignore[union-attr]
        start = Checkpoint(self._done, made.tensors, self._flat(made), self._state, {})
        run = begin(
            made, examples, optimizer_of_torch(self._optimizer, place), place=place, steps=1,
            batch=examples.examples, rows=rows, name=fresh_id("step"), start=start, shuffle=False,
            **cast(Any, self._options),
        )  # fmt: skip
        run.wait()
        return self._take(run)

    def _take(self, run: Run) -> float:
        found = run.weights()
        value = float(run.losses[0])
        run.load_into(self._model)
        self._state, self._done = found.state, found.step
        run.delete()
        return value

    def _rows(self, examples: int) -> int:
        wanted = self._micro_batch or min(examples, 64)
        return max(n for n in range(1, min(wanted, examples) + 1) if examples % n == 0)

    def _graph(self, batch: list[NumpyArray], place: Place) -> TrainModel:
        """The graph for batches of these shapes, captured when they are first met."""
        key = (self._model.training, *((one.shape, str(one.dtype)) for one in batch))
        known = self._captured.get(key)
        if known is None:
            known = from_torch(self._model, self._loss, batch, place)
            self._captured[key] = known
        return known

    def _flat(self, made: TrainModel) -> dict[str, NumpyArray]:
        """The module's tensors as they are now."""
        from gpugoblin.capture.torch.library import numpy_of

        state = {
            **dict(self._model.named_buffers(remove_duplicate=False)),
            **dict(self._model.named_parameters(remove_duplicate=False)),
        }

        def flat(one: NamedTensor) -> NumpyArray:
            return np.asarray(numpy_of(state[one.name])).reshape(-1)

        return {
            kind: np.concatenate([flat(one) for one in made.tensors if one.kind == kind])
            for kind in made.flat
        }

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._model(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)
