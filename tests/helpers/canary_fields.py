"""What the fields of a message could carry, read from their declarations.

Owns: the walk over message types. It asks what a field *admits*, not what is sent in it today.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec.inspect
from msgspec.inspect import (
    BoolType,
    BytesType,
    CollectionType,
    DictType,
    FloatType,
    IntType,
    LiteralType,
    NoneType,
    StrType,
    StructType,
    TupleType,
    UnionType,
)

__all__ = ["Capacity", "Carrier", "carriers"]

Capacity = Literal["hash", "shape", "number"]
"""`hash`: 256 bits in one value. `shape`: a text such as `10007x30011`, or several large numbers
in a row. `number`: one large number."""

HASH_BYTES: Final = 32
SMALL: Final = 255
"""A number up to this tells no dimension worth hiding."""

_HASHES: Final = tuple(
    spelled
    for number in range(8)
    for digest in (hashlib.blake2s(bytes([number])).hexdigest(),)
    for spelled in (digest, digest.upper())
)
_SHAPES: Final = (*(f"10007{mark}30011" for mark in "xX,;:/*.-_+@ "), "(10007, 30011)")


@dataclass(frozen=True, slots=True)
class Carrier:
    """A field, as a path from its message, and what it could carry."""

    field: str
    capacity: Capacity


def carriers(struct: type[msgspec.Struct]) -> set[Carrier]:
    """Every field of a message that could carry a hash, a shape or a large number."""
    return set(_walk(msgspec.inspect.type_info(struct), "", False))


def _walk(kind: Any, path: str, repeated: bool) -> Iterator[Carrier]:
    if isinstance(kind, StructType):
        for field in kind.fields:
            name = f"{path}.{field.encode_name}" if path else field.encode_name
            yield from _walk(field.type, name, repeated)
    elif isinstance(kind, UnionType):
        for each in kind.types:
            yield from _walk(each, path, repeated)
    elif isinstance(kind, CollectionType):
        yield from _walk(kind.item_type, f"{path}[]", True)
    elif isinstance(kind, TupleType):
        for each in kind.item_types:
            yield from _walk(each, f"{path}[]", True)
    elif isinstance(kind, DictType):
        yield from _walk(kind.key_type, f"{path}{{key}}", True)
        yield from _walk(kind.value_type, f"{path}{{}}", True)
    else:
        for capacity in _capacities(kind, repeated):
            yield Carrier(path, capacity)


def _capacities(kind: Any, repeated: bool) -> Iterator[Capacity]:
    if isinstance(kind, StrType):
        if any(_admits(kind, text) for text in _HASHES):
            yield "hash"
        if any(_admits(kind, text) for text in _SHAPES):
            yield "shape"
    elif isinstance(kind, BytesType):
        if kind.max_length is None or kind.max_length >= HASH_BYTES:
            yield "hash"
    elif isinstance(kind, (IntType, FloatType)):
        limit = kind.le if kind.le is not None else kind.lt
        if limit is None or limit > SMALL:
            yield "shape" if repeated else "number"
    elif not isinstance(kind, (BoolType, LiteralType, NoneType)):
        raise AssertionError(f"{kind} may carry anything: declare what")


def _admits(kind: StrType, text: str) -> bool:
    if kind.max_length is not None and len(text) > kind.max_length:
        return False
    if kind.min_length is not None and len(text) < kind.min_length:
        return False
    return kind.pattern is None or re.search(kind.pattern, text) is not None
