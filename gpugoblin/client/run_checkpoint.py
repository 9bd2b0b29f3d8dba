"""Checkpoints: one safetensors file that PyTorch loads, with everything that a run needs to go on.

Owns: that file. The model's tensors have the names of its state dict; the state of the optimizer is
named `optimizer/<number>`; the metadata holds JSON: steps done, the order of the data, the
optimizer. Must not: speak to a node.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from msgspec import Meta, Struct

from gpugoblin.capture.runner import PathLike
from gpugoblin.catalog.spec import Array as NumpyArray
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import ClientError, GraphError, StoreError
from gpugoblin.optim.step import Optimizer
from gpugoblin.optim.words import optimizer_of
from gpugoblin.wire.messages.training import NamedTensor

__all__ = ["FORMAT", "Checkpoint", "Reading", "read_checkpoint", "write_checkpoint"]

FORMAT: Final = "gpugoblin training 1"
_STATE: Final = "optimizer/"


_Number = Annotated[int, Meta(ge=1, le=1 << 40)]


class Reading(Struct, frozen=True):
    """What decides which examples a run reads. `batch`: of a step, or of a round of local steps."""

    batch: _Number
    micro: _Number
    seed: int
    shuffle: bool
    local_steps: _Number = 1

    def words(self) -> dict[str, Any]:
        """The same as the arguments of `gg.train`."""
        found: dict[str, Any] = {"batch": self.batch, "seed": self.seed, "shuffle": self.shuffle}
        if self.local_steps > 1:
            found["batch"] = self.micro
            found["shards"] = self.batch // (self.micro * self.local_steps)
        return found


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Weights after some steps.

    Args:
        step: steps done since the very first run.
        tensors: names and places in the flat arrays.
        flat: the flat arrays by kind. state: of the optimizer, flat.
        facts: what else the file says: optimizer, seed, batch, assurance.
    """

    step: int
    tensors: tuple[NamedTensor, ...]
    flat: Mapping[str, NumpyArray]
    state: tuple[NumpyArray, ...]
    facts: Mapping[str, Any]
    path: str = ""

    @property
    def local_steps(self) -> int:
        """Steps of the optimizer in a task of its run. Raises ClientError `checkpoint_misfit`."""
        return self._reading().local_steps

    def named(self) -> dict[str, NumpyArray]:
        """The model's tensors by the names of its state dict."""
        found = {}
        for one in self.tensors:
            count = int(np.prod(one.shape, dtype=np.int64))
            part = self.flat[one.kind][one.offset : one.offset + count]
            found[one.name] = np.array(part).reshape(one.shape)
        return found

    def require(self, tensors: Sequence[NamedTensor]) -> None:
        """Raises ClientError `checkpoint_misfit` unless it has just these tensors."""
        mine = {one.name: one for one in self.tensors}
        theirs = {one.name: one for one in tensors}
        for name in (*theirs, *mine):
            if name not in mine or name not in theirs:
                where = "the model" if name in theirs else "the checkpoint"
                raise self._misfit(f"only {where} has {name}")
            if mine[name] != theirs[name]:
                shapes = f"{mine[name].shape} and {theirs[name].shape}"
                raise self._misfit(f"{name} is another tensor there ({shapes})")

    def require_state(self, optimizer: Optimizer, reading: Reading) -> None:
        """Raises ClientError `checkpoint_misfit` unless its steps are counted in such rounds, and
        its state is what such an optimizer keeps; its rate and the like may be others."""
        mine = self._reading()
        if mine.local_steps != reading.local_steps:
            raise self._misfit(
                f"it is of a run with local_steps={mine.local_steps}, not {reading.local_steps}"
            )
        if mine.local_steps > 1:
            return  # What is kept is the momentum of the outer step.
        try:
            theirs = optimizer_of(self.facts["optimizer"])
        except (GraphError, KeyError, AttributeError) as cause:
            raise self._misfit(f"its optimizer is not known: {cause}") from cause
        kept, wanted = self._kept(theirs), self._kept(optimizer)
        if kept != wanted:
            raise self._misfit(
                f"its optimizer {type(theirs).__name__} keeps {_listed(kept)}, "
                f"{type(optimizer).__name__} as it is given keeps {_listed(wanted)}"
            )

    def _kept(self, optimizer: Optimizer) -> list[str]:
        specs = [
            TensorSpec("float32", one.shape) for one in self.tensors if one.kind == "parameter"
        ]
        return [slot.name for spec in specs for slot in optimizer.slots(spec)]

    def read_otherwise(self, reading: Reading) -> str:
        """The arguments with which its run reads other examples than one of `reading`, in words;
        empty: the examples that come next for the one do for the other."""
        mine, theirs = self._reading().words(), reading.words()
        other = [f"{name}={mine[name]}" for name in mine if mine[name] != theirs[name]]
        return ", ".join(other)

    def _reading(self) -> Reading:
        try:
            return msgspec.convert(self.facts, Reading)
        except msgspec.ValidationError as cause:
            raise self._misfit(f"it does not say how its run read the data: {cause}") from cause

    def _misfit(self, reason: str) -> ClientError:
        return ClientError("checkpoint_misfit", path=self.path or "of the run", reason=reason)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(dict.fromkeys(names)) or "nothing"


def write_checkpoint(path: PathLike, checkpoint: Checkpoint) -> Path:
    """Writes the file, whole or not at all.

    Raises:
        StoreError: `file_unwritable`.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    target = Path(path).expanduser().absolute()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    arrays = checkpoint.named()
    for number, one in enumerate(checkpoint.state):
        arrays[f"{_STATE}{number}"] = np.ascontiguousarray(one)
    told = {
        "format": FORMAT,
        "step": checkpoint.step,
        "tensors": msgspec.to_builtins(checkpoint.tensors),
        "state": len(checkpoint.state),
        **checkpoint.facts,
    }
    try:
        save_file(arrays, temporary, metadata={"gpugoblin": json.dumps(told)})
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except (OSError, SafetensorError) as cause:
        temporary.unlink(missing_ok=True)
        raise StoreError("file_unwritable", path=str(target), reason=str(cause)) from cause
    return target


def read_checkpoint(path: PathLike) -> Checkpoint:
    """Reads a file of `write_checkpoint`.

    Raises:
        ClientError: `checkpoint_misfit`, when it is none, or not whole.
    """
    from safetensors import SafetensorError, safe_open

    shown = os.fspath(path)
    try:
        with safe_open(os.path.expanduser(shown), framework="numpy") as file:
            told = json.loads((file.metadata() or {}).get("gpugoblin", "null"))
            if not isinstance(told, dict) or told.get("format") != FORMAT:
                raise ClientError(
                    "checkpoint_misfit", path=shown, reason="it is no checkpoint of gpugoblin"
                )
            tensors = msgspec.convert(told["tensors"], tuple[NamedTensor, ...])
            flat = {
                kind: _flat(file, [one for one in tensors if one.kind == kind])
                for kind in ("parameter", "buffer", "count")
                if any(one.kind == kind for one in tensors)
            }
            state = tuple(file.get_tensor(f"{_STATE}{n}") for n in range(int(told["state"])))
            step = int(told["step"])
    except (OSError, SafetensorError, KeyError, ValueError, msgspec.ValidationError) as cause:
        raise ClientError("checkpoint_misfit", path=shown, reason=str(cause)) from cause
    own = {"format", "step", "tensors", "state"}
    facts = {name: value for name, value in told.items() if name not in own}
    return Checkpoint(step, tensors, flat, state, facts, shown)


def _flat(file: Any, tensors: Sequence[NamedTensor]) -> NumpyArray:
    ordered = sorted(tensors, key=lambda one: one.offset)
    parts = [np.asarray(file.get_tensor(one.name)).reshape(-1) for one in ordered]
    return np.ascontiguousarray(np.concatenate(parts))
