"""Small trainings for tests: a least-squares model as a graph, its message, and what it must give.

Owns: `Linear`, the reference in NumPy, and submitting it to a lab of `tests.helpers.lab`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from gpugoblin.catalog.building import call, reduced
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.serialize import encode
from gpugoblin.hashing import JOB, digest
from gpugoblin.ids import ArrayId
from gpugoblin.optim.sgd import SGD
from gpugoblin.optim.words import words_of
from gpugoblin.plan.microbatches import Slot
from gpugoblin.plan.order import Order
from gpugoblin.wire.messages.job import ArrayCreate, ArrayInfo, JobInfo
from gpugoblin.wire.messages.training import GraphSlot, NamedTensor, TrainingInfo, TrainingSubmit
from tests.helpers.lab import Lab

__all__ = ["SLOTS", "Linear", "linear_loss", "linear_message", "submit", "training_info"]

SLOTS = (Slot("data", 0), Slot("data", 1), Slot("parameter", 0, 0), Slot("parameter", 0, 3))


def linear_loss(rows: int) -> Graph:
    """The mean square of x w + c - y, for x (rows, 3), y (rows,), w (3,), c ()."""
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (rows, 3)))
    y = builder.input(TensorSpec("float32", (rows,)))
    w = builder.input(TensorSpec("float32", (3,)))
    c = builder.input(TensorSpec("float32", (1,)))
    product = reduced(builder, "sum", call(builder, "mul", x, w), (1,), keepdims=False)
    gap = call(builder, "sub", call(builder, "add", product, c), y)
    return builder.build(
        [reduced(builder, "mean", call(builder, "mul", gap, gap), (0,), keepdims=False)]
    )


@dataclass(frozen=True)
class Linear:
    """Data, and the losses and weights that plain descent gives on them."""

    examples: int = 40
    batch: int = 8
    rate: float = 0.1
    seed: int = 3

    @property
    def data(self) -> tuple[Array, Array]:
        rng = np.random.default_rng(7)
        x = rng.standard_normal((self.examples, 3)).astype(np.float32)
        return x, (x @ np.array([1.0, -2.0, 0.5]) + 0.25).astype(np.float32)

    def run(self, steps: int, weights: Array | None = None, first: int = 0) -> tuple[Array, Array]:
        """Losses of the steps, and the weights after them, in float64."""
        x, y = (one.astype(np.float64) for one in self.data)
        order = Order(self.examples, self.batch, self.seed)
        w = np.zeros(4) if weights is None else weights.astype(np.float64)
        losses = []
        for step in range(first, first + steps):
            rows = list(order.rows(step, 0, self.batch))
            gap = x[rows] @ w[:3] + w[3] - y[rows]
            losses.append((gap**2).mean())
            slope = 2 * np.concatenate([x[rows].T @ gap, [gap.sum()]]) / len(rows)
            w = w - self.rate * slope
        return np.array(losses), w


def linear_message(
    model: Linear, micro: int, steps: int, named: Sequence[ArrayId], **fields: Any
) -> TrainingSubmit:
    """The message. `named`: the arrays of parameters, steps, keys, and both of the data."""
    parameters, numbers, keys, x, y = named
    given: dict[str, Any] = {
        "graph": encode(linear_loss(micro)),
        "slots": tuple(GraphSlot(one.kind, one.array, one.offset) for one in SLOTS),
        "updates": (),
        "tensors": (NamedTensor("parameter", "w", 0, (3,)), NamedTensor("parameter", "c", 3, (1,))),
        "parameters": parameters, "buffers": None, "counts": None, "state": (),
        "steps_array": numbers, "keys": keys, "data": (x, y), "fixed": (),
        "optimizer": msgspec.json.encode(words_of(SGD(model.rate))).decode(), "steps": steps,
        "batch": model.batch, "micro": micro, "seed": model.seed, "name": "line",
    }  # fmt: skip
    return TrainingSubmit(**{**given, **fields})


def submit(
    lab: Lab, model: Linear, micro: int = 4, steps: int = 6, weights: Array | None = None,
    x: Array | None = None, **fields: Any,
) -> JobInfo:  # fmt: skip
    """Sends the arrays as files, and the message."""
    micros = model.batch // micro
    local = fields.get("local")
    span = local.steps if local else 1
    own, y = model.data
    arrays = (
        np.zeros(4, np.float32) if weights is None else weights.astype(np.float32),
        np.arange(steps * span, dtype=np.int64), np.zeros(2 * steps * micros, np.int64),
        own if x is None else x, y,
    )  # fmt: skip
    named = [_known(lab, one, number) for number, one in enumerate(arrays)]
    message = linear_message(model, micro, steps, named, **fields)
    return lab.client.call("POST", "/v1/trainings", JobInfo, body=message)


def _known(lab: Lab, array: Array, number: int) -> ArrayId:
    """An array of the node's; equal ones have one name, as those of the client do."""
    print_ = digest(JOB, [str(number).encode(), np.ascontiguousarray(array).tobytes()])
    path = lab.root / f"{print_[:16]}.npy"
    np.save(path, array)
    dtype: Any = str(array.dtype)
    message = ArrayCreate("npy", dtype, array.shape, print_, str(path))
    return lab.client.call("POST", "/v1/arrays", ArrayInfo, body=message).array


def training_info(lab: Lab, job: JobInfo) -> TrainingInfo:
    """How a training stands."""
    return lab.client.call("GET", f"/v1/trainings/{job.job}", TrainingInfo)
