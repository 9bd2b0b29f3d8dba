"""The task of one micro-batch: a loss and its gradients from packed parameters.

Owns: how the tensors of a program lie in flat arrays, and the graph of a micro-batch that is made
from the graph of its loss. Must not: know optimizers, rounds or where arrays are.

Parameters travel as one flat tensor, gradients as another, so that a task has few blobs however
many tensors a model has, and the next version of the weights is one blob.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gpugoblin.catalog.bodies import replay
from gpugoblin.catalog.building import call, joined, reshaped
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.ir import Graph

__all__ = ["CARRIED", "MicroBatch", "Slot", "SlotKind", "loss_graph", "micro_batch", "unpacked"]

SlotKind = Literal["parameter", "buffer", "count", "fixed", "data", "key"]
"""What an input of a loss is. `parameter`: trained. `buffer`, `count`: float32 and int64 tensors
that the program itself writes. `fixed`: never changes. `data`: rows of a data array. `key`: of
random numbers."""

CARRIED: Final[tuple[SlotKind, ...]] = ("parameter", "buffer", "count")
_DTYPES: Final = {"parameter": "float32", "buffer": "float32", "count": "int64", "key": "int64"}


@dataclass(frozen=True, slots=True)
class Slot:
    """One input of the graph of a loss.

    Args:
        array: for `data` and `fixed`, which of those arrays.
        offset: where it begins in its flat array, in elements; equal offsets are one tensor.
    """

    kind: SlotKind
    array: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """The task of a micro-batch.

    Args:
        graph: inputs: the flat tensors of `carried` that there are, the data, the key if any is
            drawn from, the flat fixed arrays. outputs: the loss (1,), the flat gradient, then the
            flat buffers and counts as the program leaves them.
        carried: kinds that are there, in order.
        data: how many there are. keyed: whether random numbers are drawn.
        fixed: the numbers of the fixed arrays that it reads, in order.
        rows: examples of one micro-batch.
    """

    graph: Graph
    carried: tuple[SlotKind, ...]
    data: int
    keyed: bool
    fixed: tuple[int, ...]
    rows: int


def _refuse(reason: str) -> PlanError:
    return PlanError("training_malformed", reason=reason)


def _size(loss: Graph, slots: Sequence[Slot], kind: SlotKind) -> int:
    """Elements of a flat array."""
    ends = [
        slot.offset + spec.count
        for slot, spec in zip(slots, loss.inputs, strict=True)
        if slot.kind == kind
    ]
    return max(ends, default=0)


def _check(loss: Graph, slots: Sequence[Slot], updates: Sequence[int]) -> None:
    if len(slots) != len(loss.inputs):
        raise _refuse(f"the loss has {len(loss.inputs)} inputs, {len(slots)} are described")
    for number, (slot, spec) in enumerate(zip(slots, loss.inputs, strict=True)):
        wanted = _DTYPES.get(slot.kind, spec.dtype)
        if spec.dtype != wanted:
            raise _refuse(f"input {number} is a {slot.kind} of {spec.dtype}, not {wanted}")
        if slot.kind == "data" and not spec.rank:
            raise _refuse(f"input {number} is data without an axis of examples")
    if not any(slot.kind == "parameter" for slot in slots):
        raise PlanError("nothing_trainable")
    if len(loss.outputs) != 1 + len(updates):
        raise _refuse(f"the loss has {len(loss.outputs)} outputs, {1 + len(updates)} are described")
    spec = loss.output_specs()[0]
    if spec.dtype != "float32" or spec.count != 1:
        raise PlanError("loss_not_one_number", found=spec)
    for output, number in zip(loss.output_specs()[1:], updates, strict=True):
        known = 0 <= number < len(slots) and slots[number].kind in ("buffer", "count")
        if not known or output != loss.inputs[number]:
            raise _refuse(f"an output of {output} updates input {number}, which is none such")


def _rows(loss: Graph, slots: Sequence[Slot]) -> int:
    found = {
        spec.shape[0]
        for slot, spec in zip(slots, loss.inputs, strict=True)
        if slot.kind == "data"
    }  # fmt: skip
    if len(found) > 1:
        raise _refuse(f"data of {sorted(found)} examples in one micro-batch")
    return found.pop() if found else 1


class _Packed:
    """The inputs of a graph over flat arrays, and the tensors cut from them."""

    def __init__(self, builder: GraphBuilder, loss: Graph, slots: Sequence[Slot]) -> None:
        self._builder = builder
        self.carried = tuple(kind for kind in CARRIED if _size(loss, slots, kind))
        self.flat: dict[SlotKind, int] = {}
        for kind in self.carried:
            spec = TensorSpec(_DTYPES[kind], (_size(loss, slots, kind),))
            self.flat[kind] = builder.input(spec)
        pairs = list(zip(slots, loss.inputs, strict=True))
        data = {slot.array: spec for slot, spec in pairs if slot.kind == "data"}
        self.data = {array: builder.input(spec) for array, spec in sorted(data.items())}
        keyed = any(slot.kind == "key" for slot in slots)
        self.key = builder.input(TensorSpec("int64", (2,))) if keyed else None
        fixed: dict[int, tuple[str, int]] = {}
        for slot, spec in pairs:
            if slot.kind == "fixed":
                end = slot.offset + spec.count
                fixed[slot.array] = (spec.dtype, max(end, fixed.get(slot.array, ("", 0))[1]))
        self.fixed = {
            array: builder.input(TensorSpec(dtype, (count,)))
            for array, (dtype, count) in sorted(fixed.items())
        }
        if list(self.data) != list(range(len(self.data))):
            raise _refuse("the data arrays that the loss reads are not numbered from 0")

    def tensor(self, slot: Slot, spec: TensorSpec) -> int:
        if slot.kind == "data":
            return self.data[slot.array]
        if slot.kind == "key":
            assert self.key is not None  # noqa: S101 - made for such slots above
            return reshaped(self._builder, self.key, spec.shape)
        flat = self.fixed[slot.array] if slot.kind == "fixed" else self.flat[slot.kind]
        return unpacked(self._builder, flat, slot.offset, spec.shape)


def unpacked(builder: GraphBuilder, flat: int, offset: int, shape: Sequence[int]) -> int:
    """A tensor of `shape` from a flat one."""
    count = TensorSpec("float32", tuple(shape)).count
    if builder.spec(flat).shape != (count,):
        flat = builder.add("slice", [flat], start=(offset,), stop=(offset + count,), step=(1,))
    return reshaped(builder, flat, shape)


def micro_batch(loss: Graph, slots: Sequence[Slot], updates: Sequence[int] = ()) -> MicroBatch:
    """The task that gives the loss and the gradients of one micro-batch.

    Args:
        loss: outputs: the loss, one float32; then tensors that the program writes.
        slots: what each input of `loss` is.
        updates: for each further output the number of the input that it becomes.

    Raises:
        PlanError: `training_malformed`, `nothing_trainable`, `loss_not_one_number`.
        GraphError: not_differentiable, over_limit.
    """
    _check(loss, slots, updates)
    trained = [number for number, slot in enumerate(slots) if slot.kind == "parameter"]
    joint = gradient(loss, trained)
    builder = GraphBuilder()
    packed = _Packed(builder, loss, slots)
    values = [packed.tensor(slot, spec) for slot, spec in zip(slots, loss.inputs, strict=True)]
    made = replay(joint, builder, values)
    outputs = [reshaped(builder, made[0], (1,))]
    slopes = made[1 + len(updates) :]
    parts = [(slots[number].offset, value) for number, value in zip(trained, slopes, strict=True)]
    total = _size(loss, slots, "parameter")
    outputs.append(_laid_out(builder, parts, total, lambda a, b: call(builder, "add", a, b)))
    for kind in packed.carried[1:]:
        written = {slots[number].offset: made[1 + at] for at, number in enumerate(updates)
                   if slots[number].kind == kind}  # fmt: skip
        kept = [
            (slot.offset, written.get(slot.offset, value))
            for slot, value in zip(slots, values, strict=True)
            if slot.kind == kind
        ]
        outputs.append(_laid_out(builder, kept, _size(loss, slots, kind), lambda first, _: first))
    return MicroBatch(
        builder.build(outputs), packed.carried, len(packed.data), packed.key is not None,
        tuple(packed.fixed), _rows(loss, slots),
    )  # fmt: skip


def _laid_out(
    builder: GraphBuilder,
    parts: Sequence[tuple[int, int]],
    total: int,
    both: Callable[[int, int], int],
) -> int:
    """Tensors in one flat one by offset; those of one offset joined by `both`."""
    by_offset: dict[int, int] = {}
    for offset, value in parts:
        flat = reshaped(builder, value, (builder.spec(value).count,))
        known = by_offset.get(offset)
        by_offset[offset] = flat if known is None else both(known, flat)
    at, ordered = 0, []
    for offset, value in sorted(by_offset.items()):
        count = builder.spec(value).count
        if count == 0:
            continue
        if offset != at:
            raise _refuse(f"a tensor begins at {offset}, the one before it ends at {at}")
        ordered.append(value)
        at += count
    if at != total:
        raise _refuse(f"tensors of {at} elements in a flat one of {total}")
    return joined(builder, ordered)


def loss_graph(loss: Graph, slots: Sequence[Slot]) -> MicroBatch:
    """The task that gives the loss alone, for evaluation: the first output of `loss` as (1,).

    Raises:
        PlanError: `training_malformed`.
        GraphError: over_limit.
    """
    builder = GraphBuilder()
    packed = _Packed(builder, loss, slots)
    values = [packed.tensor(slot, spec) for slot, spec in zip(slots, loss.inputs, strict=True)]
    made = replay(loss, builder, values)
    spec = loss.output_specs()[0]
    if spec.dtype != "float32" or spec.count != 1:
        raise PlanError("loss_not_one_number", found=spec)
    return MicroBatch(
        builder.build([reshaped(builder, made[0], (1,))]), packed.carried, len(packed.data),
        packed.key is not None, tuple(packed.fixed), _rows(loss, slots),
    )  # fmt: skip
