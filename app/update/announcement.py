"""What a repository announces: the newest version of the program.

Owns: its form and bounds, and the question which of two versions is newer. Must not: fetch it.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

import msgspec
from msgspec import Meta

__all__ = ["MAX_BYTES", "TARGET", "Announcement", "decode", "is_newer"]

TARGET: Final = "gpugoblin.json"
MAX_BYTES: Final = 4096

Version = Annotated[str, Meta(pattern=r"\A[0-9]{1,4}(\.[0-9]{1,4}){1,3}\Z")]


class Announcement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The newest version. `page`: where it is described, by https; empty for none."""

    version: Version
    page: Annotated[str, Meta(max_length=300, pattern=r"\A(https://[!-~]+)?\Z")] = ""


_decoder: Final = msgspec.json.Decoder(Announcement, strict=True)


def decode(data: bytes) -> Announcement:
    """An announcement from its bytes. Raises ValueError."""
    if len(data) > MAX_BYTES:
        raise ValueError(f"it is longer than {MAX_BYTES} bytes")
    return _decoder.decode(data)


def is_newer(version: str, own: str) -> bool:
    """Whether `version` is newer than `own`; what follows the numbers of `own` does not count."""
    return _numbers(version) > _numbers(own)


def _numbers(version: str) -> tuple[int, ...]:
    numbers = [int(part) for part in re.findall(r"\d+", re.split(r"[^\d.]", version)[0])]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
