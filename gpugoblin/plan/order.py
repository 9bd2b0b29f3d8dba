"""Which examples a micro-batch reads.

Owns: the order of a data set, as a pure function of its seed. It is the data cursor of a training:
the number of a step says which examples it reads, so nothing about it has to be remembered.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gpugoblin.errors import PlanError

__all__ = ["Order", "permutation"]


@lru_cache(maxsize=4)
def permutation(count: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """The numbers 0 to count - 1 in a random order.

    Sorted by 64-bit numbers of the Philox4x64-10 counter (NumPy's raw stream, which is fixed, where
    its `permutation` is not), keyed by seed and epoch; equal ones stay in order.
    """
    raw = np.random.Philox(key=np.array([seed, epoch], np.uint64)).random_raw(count)
    order: npt.NDArray[np.int64] = np.argsort(raw, kind="stable").astype(np.int64)
    order.setflags(write=False)
    return order


@dataclass(frozen=True, slots=True)
class Order:
    """The order of `examples` in batches; what is left of an epoch after whole batches is not read.

    Args:
        shuffle: otherwise every epoch reads from the front.

    Raises:
        PlanError: `data_too_short`.
    """

    examples: int
    batch: int
    seed: int = 0
    shuffle: bool = True

    def __post_init__(self) -> None:
        if self.examples < self.batch or self.batch < 1:
            raise PlanError("data_too_short", examples=self.examples, batch=self.batch)

    @property
    def steps_per_epoch(self) -> int:
        return self.examples // self.batch

    def rows(self, step: int, first: int, count: int) -> tuple[int, ...]:
        """Examples `first` to `first + count` of the batch of a step, counted from 0."""
        epoch, place = divmod(step, self.steps_per_epoch)
        start = place * self.batch + first
        if not self.shuffle:
            return tuple(range(start, start + count))
        order = permutation(self.examples, self.seed, epoch)
        return tuple(order[start : start + count].tolist())
