"""The search: thousands of byte strings at once, at some 100 MB/s.

Owns: finding. It is exact: the table only chooses where to look closer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tests.helpers.canary_forms import LEAST_BYTES, Form

__all__ = ["Canary", "Hit", "Search"]

_BITS: Final = 20
_DIGITS: Final = frozenset(b"0123456789")
_HEX: Final = frozenset(b"0123456789abcdefABCDEF")
_CONTEXT_BYTES: Final = 24


@dataclass(frozen=True, slots=True)
class Canary:
    """Something that the coordinator must never see.

    Args:
        kind: `operator`, `pattern`, `dimension`, `name`, `hash`, `id` or `size`.
        what: for people.
        numbers: values that say it, wherever a source has numbers.
    """

    kind: str
    what: str
    forms: tuple[Form, ...]
    numbers: frozenset[float] = frozenset()


@dataclass(frozen=True, slots=True)
class Hit:
    """A canary that was found. `place` names the source, `context` what stands around it."""

    canary: Canary
    form: str
    place: str
    offset: int
    context: bytes

    def __str__(self) -> str:
        canary = self.canary
        return (
            f"{canary.kind} {canary.what} ({self.form}) in {self.place} at {self.offset}: "
            f"{self.context!r}"
        )


class Search:
    """Looks for all forms of all canaries."""

    def __init__(self, canaries: Iterable[Canary], *, strong_only: bool = False) -> None:
        self._by_key: dict[int, list[tuple[Canary, Form, int]]] = defaultdict(list)
        self._by_number: dict[float, Canary] = {}
        for canary in canaries:
            self._by_number |= dict.fromkeys(canary.numbers, canary)
            for form in canary.forms:
                if strong_only and not form.is_strong:
                    continue
                if len(form.data) < LEAST_BYTES:
                    raise ValueError(f"{form} is too short to be looked for")
                start = _rarest(form.data)
                key = int.from_bytes(form.data[start : start + LEAST_BYTES], "little")
                self._by_key[key].append((canary, form, start))
        self._keys = np.array(sorted(self._by_key), np.uint32)
        self._table = np.zeros(1 << _BITS, np.bool_)
        self._table[_spread(self._keys)] = True

    def find(self, place: str, data: bytes | bytearray) -> Iterator[Hit]:
        """Every canary in `data`, once for each form of it."""
        seen: set[tuple[int, str]] = set()
        for position, key in self._candidates(data):
            for canary, form, start in self._by_key[key]:
                begin = position - start
                once = (id(canary), form.label)
                if once in seen or begin < 0 or not data.startswith(form.data, begin):
                    continue
                end = begin + len(form.data)
                if form.bounded and not _stands_alone(data, begin, end, form):
                    continue
                seen.add(once)
                context = bytes(data[max(0, begin - _CONTEXT_BYTES) : end + _CONTEXT_BYTES])
                yield Hit(canary, form.label, place, begin, context)

    def compare(self, place: str, numbers: Iterable[float]) -> Iterator[Hit]:
        """Every canary that one of these numbers says."""
        for number in numbers:
            canary = self._by_number.get(number)
            if canary is not None:
                yield Hit(canary, "as a number", place, 0, repr(number).encode())

    def _candidates(self, data: bytes | bytearray) -> Iterator[tuple[int, int]]:
        """Positions whose four bytes begin the key of some form."""
        for shift in range(LEAST_BYTES):
            count = (len(data) - shift) // LEAST_BYTES
            if count <= 0 or not len(self._keys):
                return
            words = np.frombuffer(data, "<u4", count, shift)
            likely = np.flatnonzero(self._table[_spread(words)])
            found = words[likely]
            exact = self._keys[np.searchsorted(self._keys, found) % len(self._keys)] == found
            for index, key in zip(likely[exact].tolist(), found[exact].tolist(), strict=True):
                yield shift + LEAST_BYTES * index, key


def _spread(keys: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Fibonacci hashing (Knuth, volume 3, section 6.4) to the size of the table."""
    product: npt.NDArray[np.uint32] = keys * np.uint32(2654435769)
    product >>= np.uint32(32 - _BITS)
    return product


def _rarest(data: bytes) -> int:
    """Where the most telling four bytes begin: zeros and repetitions are everywhere."""

    def worth(start: int) -> int:
        window = data[start : start + LEAST_BYTES]
        return len(set(window)) + sum(byte != 0 for byte in window)

    return max(range(len(data) - LEAST_BYTES + 1), key=worth)


def _stands_alone(data: bytes | bytearray, begin: int, end: int, form: Form) -> bool:
    """As `Form.bounded` says."""
    width = form.bounded
    figures = _DIGITS if form.is_strong else _HEX
    before = bytes(data[max(0, begin - 2 * width) : begin]).replace(b"\0", b"")
    after = bytes(data[end : end + width]).replace(b"\0", b"")
    if before and (before[-1] in figures or (before[-1:] == b"." and before[:1].isdigit())):
        return False
    return not (after and after[0] in figures)
