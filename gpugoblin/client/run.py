"""A run: a training that lives on the lab node under a name.

Owns: what a researcher can do with one. Every method asks the node; the object itself may be thrown
away and found again with `gg.get(name)` from any machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np

from gpugoblin.capture.runner import PathLike
from gpugoblin.catalog.spec import DTYPES
from gpugoblin.catalog.spec import Array as NumpyArray
from gpugoblin.client.job import Job, Link
from gpugoblin.client.run_checkpoint import Checkpoint, write_checkpoint
from gpugoblin.client.run_views import RunView, choose_run_renderer, plot_run, rounds_table
from gpugoblin.client.waiting import wait_until_over
from gpugoblin.errors import ClientError
from gpugoblin.wire.messages.job import JobInfo
from gpugoblin.wire.messages.training import RoundRow, TrainingInfo, TrainingRounds
from gpugoblin.wire.remote import RemoteError

__all__ = ["Run"]


def _joined(parts: list[NumpyArray]) -> NumpyArray:
    """Tensors as the flat one that they are parts of."""
    return np.concatenate([one.reshape(-1) for one in parts])


class Run(Job):
    """A training on the lab node. Made by `gg.train`, `gg.get` and `gg.jobs`."""

    def __init__(self, link: Link, info: JobInfo) -> None:
        super().__init__(link, info)
        self._losses = np.zeros(0, np.float32)

    def training(self) -> TrainingInfo:
        """How the training stands: steps, weights that are kept, the optimizer."""
        found = self._link.transport.call("GET", self._training_path(), TrainingInfo)
        self._info = found.job
        return found

    @property
    def losses(self) -> NumpyArray:
        """The loss of every step that is done and verified, float32: before the step, the mean over
        its batch."""
        return self._read_losses(self.training())

    @property
    def evaluations(self) -> NumpyArray:
        """Rows of (steps done, loss), float64: the losses on the data that is not trained on."""
        found = self.training()
        if not found.every or len(self.arrays) < 3:
            return np.zeros((0, 2))
        values: list[float] = []
        for number in range(found.done // found.every):
            try:
                values.append(float(self.arrays[2][number]))
            except RemoteError as error:
                if error.code != "region_not_verified":
                    raise
                break
        steps = found.first_step + found.every * (1 + np.arange(len(values)))
        return np.stack([steps.astype(np.float64), np.array(values)], axis=1)

    @property
    def gradient_norms(self) -> dict[str, NumpyArray]:
        """The norm of the gradient of every parameter, by step."""
        found = self.training()
        names = [
            one.name
            for one in sorted(found.tensors, key=lambda one: one.offset)
            if one.kind == "parameter"
        ]
        table = self.arrays[1][: found.done]
        return {name: np.array(table[:, number]) for number, name in enumerate(names)}

    def _read_losses(self, found: TrainingInfo) -> NumpyArray:
        known = self._losses.size
        if found.done > known:
            fresh = np.asarray(self.arrays[0][known : found.done])
            self._losses = np.concatenate([self._losses, fresh])
        return np.array(self._losses)

    def view(self) -> RunView:
        """How far it is now. Prints as a line, shows as a table in a notebook."""
        found = self.training()
        return RunView(found, self._read_losses(found))

    def wait(self, timeout: float | None = None) -> Run:
        """Waits until the run is done, and shows its loss as it falls.

        Args:
            timeout: seconds to wait at most; the run goes on beyond.

        Returns:
            the run itself.

        Raises:
            JobFailed: with the node's code and text; the weights of the last good step are kept.
            ClientError: `job_timeout`, `job_cancelled`, `node_unreachable`.
            KeyboardInterrupt: Ctrl-C detaches; a second one within two seconds cancels.
        """
        renderer = choose_run_renderer(self.view)
        self._ended(wait_until_over(self, timeout, renderer))
        return self

    def table(self, first: int = 0, count: int = 1000) -> Any:
        """A line for each round: who computed, what was verified how, redone, sent."""
        return rounds_table(self.rounds(first, count))

    def rounds(self, first: int = 0, count: int = 1000) -> tuple[RoundRow, ...]:
        """The figures of rounds that are done, at most 1,000 from number `first` on."""
        path = f"{self._training_path()}/rounds"
        query: dict[str, str | int] = {"first": first, "count": count}
        return self._link.transport.call("GET", path, TrainingRounds, query=query).rounds

    def record(self) -> tuple[str, ...]:
        """By round, which shards were in time ("1") and which were taken into the next one ("0"):
        what a run with `late=` follows from beside its data, and `record=` repeats it by.

        Empty where rounds wait for all their shards.
        """
        found: list[str] = []
        while some := self.rounds(len(found)):
            found += [one.in_time for one in some]
        return tuple(found) if any(found) else ()

    def plot(self, what: str = "loss", path: PathLike | None = None) -> Any:
        """A matplotlib figure of the loss (or `gradients`), with evaluations where there are.

        Args:
            path: also save it there.

        Raises:
            ClientError: `package_missing`, `training_refused`.
        """
        return plot_run(self, what, path)

    def weights(self, version: int | None = None) -> Checkpoint:
        """The weights after the newest step, or after `version` steps if they are kept.

        Raises:
            ClientError: `training_no_weights`. RemoteError: `version_gone`.
        """
        while True:
            found = self.training()
            if not found.versions:
                raise ClientError("training_no_weights", name=self.name)
            wanted = found.versions[-1] if version is None else version
            try:
                return self._fetched(found, wanted)
            except RemoteError as error:
                # A step that came in between has let go of them.
                if error.code != "version_gone" or version is not None:
                    raise

    def _fetched(self, found: TrainingInfo, version: int) -> Checkpoint:
        parts: dict[tuple[str, int], list[NumpyArray]] = {}
        for number, one in enumerate(found.carried):
            array = np.empty(one.shape, DTYPES[one.dtype])
            query: dict[str, str | int] = {"version": version, "number": number}
            if array.nbytes:
                target = memoryview(array.reshape(-1).view(np.uint8).data)
                path = f"{self._training_path()}/weights"
                self._link.transport.download(path, target, query=query)
            parts.setdefault((one.kind, one.slot), []).append(array)
        flat = {kind: _joined(some) for (kind, _), some in parts.items() if kind != "state"}
        state = [_joined(some) for (kind, _), some in sorted(parts.items()) if kind == "state"]
        facts = {
            "optimizer": msgspec.json.decode(found.optimizer), "batch": found.batch,
            "micro": found.micro, "seed": found.seed, "shuffle": found.shuffle,
            "local_steps": found.local_steps, "assurance": "full", "name": self.name,
            "content": found.content,
        }  # fmt: skip
        return Checkpoint(version, found.tensors, flat, tuple(state), facts)

    def checkpoint(self, path: PathLike, version: int | None = None) -> Path:
        """Writes the weights, the optimizer's state and the place in the data to one safetensors
        file, from which `gg.train(..., resume=path)` goes on and which PyTorch loads.

        Raises:
            StoreError: `file_unwritable`. ClientError, RemoteError: as `weights`.
        """
        return write_checkpoint(path, self.weights(version))

    def load_into(self, model: Any, version: int | None = None) -> Any:
        """Writes the newest weights into a torch module, all or none, and returns it.

        Raises:
            ClientError: `checkpoint_misfit`, and as `weights`.
        """
        from gpugoblin.capture.torch.library import load_torch

        torch = load_torch()
        found = self.weights(version)
        state = {
            **dict(model.named_buffers(remove_duplicate=False)),
            **dict(model.named_parameters(remove_duplicate=False)),
        }
        named = found.named()
        for name, array in named.items():
            if name not in state or tuple(state[name].shape) != array.shape:
                reason = f"the module has no {name} of shape {array.shape}"
                raise ClientError("checkpoint_misfit", path=self.name, reason=reason)
        with torch.no_grad():
            for name, array in named.items():
                state[name].copy_(torch.from_numpy(array))
        return model

    def _training_path(self) -> str:
        return f"/v1/trainings/{quote(self.id, safe='')}"

    def __repr__(self) -> str:
        return f"<run {self._info.name}: {self._info.state}>"

    def __rich__(self) -> Any:
        return self.view().__rich__()

    def _repr_html_(self) -> str:
        return self.view()._repr_html_()
