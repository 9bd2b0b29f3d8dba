"""Philox4x32-10: random words as a function of a counter and a key.

Owns: the words, in NumPy. Source: J. K. Salmon and others, Parallel Random Numbers: As Easy as
1, 2, 3, SC11, 2011. Any backend gets the same words, in any order, for any part of them.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["ROUNDS", "words"]

ROUNDS: Final = 10

Words = npt.NDArray[np.uint32]

_FIRST: Final = np.uint64(0xD2511F53)
_SECOND: Final = np.uint64(0xCD9E8D57)
_STEPS: Final = (0x9E3779B9, 0xBB67AE85)
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)


def words(key: int, stream: int, start: int, stop: int) -> Words:
    """The words `start` to `stop` (excluded) of a stream.

    Word i is word i % 4 of the block whose counter has i // 4 in its lower and `stream` in its
    upper 64 bits. `key` and `stream` are taken modulo 2^64.
    """
    first, last = start // 4, -(-stop // 4)
    blocks = np.arange(first, last, dtype=np.uint64)
    upper = stream % 2**64
    state = [
        blocks & _LOW,
        blocks >> _HALF,
        np.full(blocks.shape, upper % 2**32, np.uint64),
        np.full(blocks.shape, upper >> 32, np.uint64),
    ]
    keys = [key % 2**32, (key % 2**64) >> 32]
    for _ in range(ROUNDS):
        left, right = state[0] * _FIRST, state[2] * _SECOND
        state = [
            (right >> _HALF) ^ state[1] ^ np.uint64(keys[0]),
            right & _LOW,
            (left >> _HALF) ^ state[3] ^ np.uint64(keys[1]),
            left & _LOW,
        ]
        keys = [(known + step) % 2**32 for known, step in zip(keys, _STEPS, strict=True)]
    found = np.stack(state, axis=-1).astype(np.uint32).reshape(-1)
    return found[start - 4 * first : stop - 4 * first]
