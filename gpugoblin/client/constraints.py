"""`gg.where`: what a card must have, or, with a condition, a choice between arrays.

Owns: reading quantities such as "12GB" and "100Mb/s". One name serves both uses because both are
what people call it; the arguments tell them apart.
"""

from __future__ import annotations

import re
from typing import Any, Final, overload

from gpugoblin.capture.array import Array, ArrayLike
from gpugoblin.capture.dtypes import Number
from gpugoblin.capture.functions import choose
from gpugoblin.errors import ClientError
from gpugoblin.wire.bounds import SandboxLevel
from gpugoblin.wire.messages.task import Constraints

__all__ = ["link_bytes_per_s", "memory_bytes", "where"]

_QUANTITY: Final = re.compile(r"(\d+(?:\.\d+)?) *([A-Za-z/]*)", re.ASCII)
_BYTES: Final = {
    "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
_LINKS: Final = {"kb/s": 10**3, "Mb/s": 10**6, "Gb/s": 10**9}


@overload
def where(condition: ArrayLike, x1: ArrayLike | Number, x2: ArrayLike | Number, /) -> Array: ...
@overload
def where(
    *, min_memory: str | int = 0, link: str | int = 0, sandbox: SandboxLevel = "full"
) -> Constraints: ...


def where(
    *arrays: Any, min_memory: str | int = 0, link: str | int = 0, sandbox: SandboxLevel = "full"
) -> Array | Constraints:
    """With three arrays: `x1` where the condition, else `x2`. With keywords: where a job may run.

    Args:
        min_memory: of the card, such as "12GB" or a number of bytes.
        link: at least, such as "100Mb/s" or a number of bytes a second. Lab nodes of this version
            refuse it (`link_not_offered`).
        sandbox: the walls around the engine, `full`, `reduced` or `none`.

    Raises:
        CaptureError: as every elementwise function.
        ClientError: `quantity_malformed`.
        TypeError: neither three arrays nor keywords.
    """
    if arrays:
        if len(arrays) != 3 or min_memory or link or sandbox != "full":
            raise TypeError("gg.where takes a condition and two arrays, or keywords only")
        return choose(*arrays)
    return Constraints(
        min_memory_bytes=memory_bytes(min_memory),
        sandbox=sandbox,
        min_link_bytes_per_s=link_bytes_per_s(link),
    )


def memory_bytes(given: str | int) -> int:
    """`"12GB"` -> 12,000,000,000; `"1.5GiB"` -> 1,610,612,736.

    Raises:
        ClientError: `quantity_malformed`.
    """
    return _quantity(given, _BYTES, "an amount of memory", "12GB")


def link_bytes_per_s(given: str | int) -> int:
    """`"100Mb/s"` -> 12,500,000 bytes a second.

    Raises:
        ClientError: `quantity_malformed`.
    """
    bits = {unit: factor / 8 for unit, factor in _LINKS.items()}
    whole = {f"{unit}/s": factor for unit, factor in _BYTES.items()}
    return _quantity(given, {**bits, **whole}, "the speed of a link", "100Mb/s")


def _quantity(given: str | int, units: dict[str, Any], kind: str, example: str) -> int:
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    found = _QUANTITY.fullmatch(given.strip()) if isinstance(given, str) else None
    if found is None or found[2] not in units:
        raise ClientError("quantity_malformed", value=given, kind=kind, example=example)
    return int(float(found[1]) * units[found[2]])
