"""One opened NVIDIA card: its context, its stream, its memory.

Owns: the primary context and one stream of low priority. Must not: know a kernel.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Final

from app.engine.backends.cuda.loader import Library, driver, require
from gpugoblin.errors import EngineError

__all__ = ["Card", "Device", "cards", "choose"]

LEAST_ARCHITECTURE: Final = 75
_MAJOR: Final = 75
_MINOR: Final = 76
_BLOCKING: Final = 4
_NON_BLOCKING_STREAM: Final = 1


@dataclass(frozen=True, slots=True)
class Card:
    """Args:
    uuid: 32 hexadecimal digits.
    architecture: compute capability times ten.
    """

    number: int
    name: str
    uuid: str
    architecture: int


def cards(library: Library) -> list[Card]:
    """Every card of the driver, in its order.

    Raises:
        EngineError: `card_missing` where the driver answers that it has none.
    """
    result = library.cuInit(0)
    if result:
        raise EngineError(
            "card_missing", backend="cuda", reason=f"NVIDIA's driver finds no card ({result})"
        )
    count = ctypes.c_int()
    require(library.cuDeviceGetCount(ctypes.byref(count)), "counting the cards")
    return [_card(library, number) for number in range(count.value)]


def _card(library: Library, number: int) -> Card:
    handle = ctypes.c_int()
    require(library.cuDeviceGet(ctypes.byref(handle), number), "asking for a card")
    name = ctypes.create_string_buffer(128)
    require(library.cuDeviceGetName(name, 128, handle.value), "asking for a card's name")
    uuid = ctypes.create_string_buffer(16)
    require(library.cuDeviceGetUuid_v2(uuid, handle.value), "asking for a card's UUID")
    found = []
    for attribute in (_MAJOR, _MINOR):
        value = ctypes.c_int()
        require(
            library.cuDeviceGetAttribute(ctypes.byref(value), attribute, handle.value),
            "asking what a card can do",
        )
        found.append(value.value)
    text = name.value.decode("utf-8", "replace")
    return Card(handle.value, text, uuid.raw.hex(), 10 * found[0] + found[1])


def choose(known: list[Card], uuid: str = "") -> Card:
    """The card with this UUID; without one the first.

    Raises:
        EngineError: `card_missing`, `card_unsuited`.
    """
    wanted = uuid.replace("-", "").lower().removeprefix("gpu")
    found = [card for card in known if not wanted or card.uuid == wanted]
    if not found:
        reason = f"no card has the UUID {wanted[:32]}" if wanted else "there is no card"
        raise EngineError("card_missing", backend="cuda", reason=reason)
    card = found[0]
    if card.architecture < LEAST_ARCHITECTURE:
        raise EngineError("card_unsuited", card=card.name, missing="compute capability 7.5")
    return card


class Device:
    """Owns the context and the stream until `close`.

    Raises:
        EngineError: `card_missing`, `card_unsuited`, `card_failed`.
    """

    def __init__(self, uuid: str = "", library: Library | None = None) -> None:
        self.library = driver() if library is None else library
        self.card = choose(cards(self.library), uuid)
        self._context: ctypes.c_void_p | None = ctypes.c_void_p()
        # Waiting threads sleep; where somebody else set the flags first, theirs stay.
        self.library.cuDevicePrimaryCtxSetFlags_v2(self.card.number, _BLOCKING)
        require(
            self.library.cuDevicePrimaryCtxRetain(ctypes.byref(self._context), self.card.number),
            f"opening {self.card.name}",
        )
        self.enter()
        least = ctypes.c_int()
        self.library.cuCtxGetStreamPriorityRange(ctypes.byref(least), None)
        self.stream = ctypes.c_void_p()
        require(
            self.library.cuStreamCreateWithPriority(
                ctypes.byref(self.stream), _NON_BLOCKING_STREAM, least.value
            ),
            "making a stream",
        )

    def enter(self) -> None:
        """Makes the context that of the calling thread; every thread must, once."""
        require(self.library.cuCtxSetCurrent(self._context), "entering the context")

    def version(self) -> int:
        """Of the driver's CUDA: 13000 is 13.0."""
        found = ctypes.c_int()
        require(self.library.cuDriverGetVersion(ctypes.byref(found)), "asking for the version")
        return found.value

    def free_bytes(self) -> int:
        """What the card has free now, for anybody."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        require(
            self.library.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)),
            "asking for free memory",
        )
        return free.value

    def allocate(self, size_bytes: int) -> int:
        """The address of new memory of the card.

        Raises:
            EngineError: `card_memory`.
        """
        found = ctypes.c_uint64()
        doing = f"allocating {size_bytes} bytes"
        require(self.library.cuMemAlloc_v2(ctypes.byref(found), max(256, size_bytes)), doing)
        return found.value

    def free(self, address: int) -> None:
        require(self.library.cuMemFree_v2(address), "freeing memory")

    def synchronize(self) -> None:
        """Waits for all that was queued."""
        require(self.library.cuStreamSynchronize(self.stream), "waiting for the card")

    def close(self) -> None:
        """Gives the context back, and with it all memory that is left."""
        if self._context is None:
            return
        self.library.cuStreamDestroy_v2(self.stream)
        self.library.cuCtxSetCurrent(None)
        self.library.cuDevicePrimaryCtxRelease_v2(self.card.number)
        self._context = None
