"""The registry of messages: one entry a message and version.

Owns: the decorator `message` and the table that tests, docs and golden files walk. A name that is
declared twice is an error at import.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from msgspec import Struct

__all__ = ["MESSAGES", "MessageType", "Party", "message"]

Party = Literal["client", "node", "device", "coordinator"]

M = TypeVar("M", bound=type[Struct])


@dataclass(frozen=True, slots=True)
class MessageType:
    """One message: who sends it to whom, in which version, and how large it may be."""

    name: str
    version: int
    sender: Party
    receiver: Party
    max_bytes: int
    struct: type[Struct]

    @property
    def key(self) -> str:
        return f"{self.name}@{self.version}"


MESSAGES: dict[str, MessageType] = {}


def message(
    name: str, *, version: int = 1, sender: Party, receiver: Party, max_bytes: int
) -> Callable[[M], M]:
    """Registers a Struct as message `name`. `max_bytes` bounds the bytes before decoding."""

    def register(struct: M) -> M:
        entry = MessageType(name, version, sender, receiver, max_bytes, struct)
        if entry.key in MESSAGES:
            raise LookupError(f"message {entry.key} is declared twice")
        MESSAGES[entry.key] = entry
        struct.__goblin_message__ = entry  # type: ignore[attr-defined]
        return struct

    return register
