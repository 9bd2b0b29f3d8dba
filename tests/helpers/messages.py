"""Values of messages, made from their declarations alone.

Owns: a hypothesis strategy and two deterministic examples for every Struct, and a walk over all
fields. A field type that is not known here is an error, so that a new one is thought about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

import gpugoblin.wire.messages  # noqa: F401 - fills the registry

SAMPLES = {
    r"\A[01]*\Z": "1101",
    r"\A[a-z]{1,12}_[a-z2-7]{1,26}\Z": "kind_abcdefghijklmnopqrstuvwxyz",
    r"\A[0-9a-f]{64}\Z": "0123456789abcdef" * 4,
    r"\A[0-9a-f]{16}\Z": "0123456789abcdef",
    r"\A[0-9a-f]{4}(-[0-9a-f]{4}){3}\Z": "0123-4567-89ab-cdef",
    r"\A[A-Z0-9]{4}-[A-Z0-9]{4}\Z": "BCDF-GHJK",
    r"\A[A-Za-z0-9_.@+:-]+\Z": "build-1.2.3+abc",
    r"\A[A-Za-z0-9_.-]+\Z": "eyJhbGciOiJFZERTQSJ9.eyJqdGkiOiJ4In0.c2ln",
    r"\A[!-?A-~]+@[!-?A-~]+\Z": "ann@example.org",
    r"\A[a-z]{2}\Z": "fr",
    r"\A[0-9]{8}\Z": "12345678",
    r"\Ahttps?://[A-Za-z0-9.:\[\]-]+\Z": "https://lab.example.org:8443",
}
"""One text for each pattern that messages use."""


def strategy(struct: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Valid values of a Struct."""
    return _strategy(inspect.type_info(struct))


def example(struct: type[msgspec.Struct], *, bare: bool) -> Any:
    """One fixed value. `bare`: optional fields keep their defaults, sequences are short."""
    return msgspec.convert(_example(inspect.type_info(struct), bare), struct)


def text_fields(struct: type[msgspec.Struct]) -> list[tuple[str, inspect.StrType]]:
    """Path and type of every text that a value can hold, dictionary keys included."""
    return [(p, t) for p, t in walk(struct) if isinstance(t, inspect.StrType)]


def walk(struct: type[msgspec.Struct]) -> list[tuple[str, Any]]:
    """Path and type of everything a value can hold."""
    return list(_walk(inspect.type_info(struct), struct.__name__))


def _inner(kind: Any) -> Any:
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def _strategy(kind: Any) -> st.SearchStrategy[Any]:
    kind = _inner(kind)
    match kind:
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.IntType():
            low = kind.ge if kind.ge is not None else -(2**63)
            high = kind.le if kind.le is not None else 2**63 - 1
            return st.integers(low, high)
        case inspect.FloatType():
            low = kind.ge if kind.ge is not None else kind.gt
            return st.floats(
                low, kind.le, exclude_min=kind.gt is not None, allow_nan=False, allow_infinity=False
            )
        case inspect.StrType():
            return _texts(kind)
        case inspect.BytesType():
            return st.binary(min_size=kind.min_length or 0, max_size=min(kind.max_length or 99, 99))
        case inspect.LiteralType():
            return st.sampled_from(list(kind.values))
        case inspect.UnionType():
            return st.one_of([_strategy(one) for one in kind.types])
        case inspect.VarTupleType():
            low = kind.min_length or 0
            most = min(kind.max_length if kind.max_length is not None else 3, low + 3)
            items = st.lists(_strategy(kind.item_type), min_size=low, max_size=most)
            return items.map(tuple)
        case inspect.DictType():
            return st.dictionaries(_strategy(kind.key_type), _strategy(kind.value_type), max_size=3)
        case inspect.StructType():
            fields = {field.name: _strategy(field.type) for field in kind.fields}
            return st.builds(kind.cls, **fields)
    raise TypeError(f"no strategy for {kind!r}")


def _texts(kind: inspect.StrType) -> st.SearchStrategy[str]:
    low, high = kind.min_length or 0, kind.max_length
    if kind.pattern is None:
        return st.text(
            st.characters(exclude_categories=["Cs"]), min_size=low, max_size=min(high or 20, 20)
        )
    texts = st.from_regex(re.compile(kind.pattern, re.ASCII))
    return texts.filter(lambda text: low <= len(text) <= (high or len(text)))


def _example(kind: Any, bare: bool) -> Any:
    kind = _inner(kind)
    match kind:
        case inspect.BoolType():
            return not bare
        case inspect.NoneType():
            return None
        case inspect.IntType():
            return _number(kind, 3 if bare else 40)
        case inspect.FloatType():
            return float(_number(kind, 0.5 if bare else 1234.5))
        case inspect.StrType():
            return "some text" if kind.pattern is None else SAMPLES[kind.pattern]
        case inspect.BytesType():
            return bytes(range(min(kind.min_length or 5, kind.max_length or 5)))
        case inspect.LiteralType():
            return kind.values[0 if bare else -1]
        case inspect.UnionType():
            given = [one for one in kind.types if not isinstance(_inner(one), inspect.NoneType)]
            return _example(given[0], bare)
        case inspect.VarTupleType():
            count = max(kind.min_length or 0, 0 if bare else 2)
            most = kind.max_length if kind.max_length is not None else count
            return tuple(_example(kind.item_type, bare) for _ in range(min(count, most)))
        case inspect.DictType():
            return {_example(kind.key_type, bare): _example(kind.value_type, bare)}
        case inspect.StructType():
            return {
                field.encode_name: _example(field.type, bare)
                for field in kind.fields
                if field.required or not bare
            }
    raise TypeError(f"no example for {kind!r}")


def _number(kind: Any, wished: float) -> Any:
    low = kind.ge if kind.ge is not None else wished
    high = kind.le if kind.le is not None else wished
    return min(max(wished, low), high)


def _walk(kind: Any, path: str) -> Iterator[tuple[str, Any]]:
    kind = _inner(kind)
    yield path, kind
    match kind:
        case inspect.UnionType():
            for one in kind.types:
                yield from _walk(one, path)
        case inspect.VarTupleType():
            yield from _walk(kind.item_type, f"{path}[]")
        case inspect.DictType():
            yield from _walk(kind.key_type, f"{path}.keys")
            yield from _walk(kind.value_type, f"{path}.values")
        case inspect.StructType():
            for field in kind.fields:
                yield from _walk(field.type, f"{path}.{field.encode_name}")


def json_paths(value: Any) -> list[tuple[Any, ...]]:
    """The path to every node of a JSON value, the root first."""
    found: list[tuple[Any, ...]] = [()]
    if isinstance(value, dict):
        for key, item in value.items():
            found += [(key, *rest) for rest in json_paths(item)]
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += [(index, *rest) for rest in json_paths(item)]
    return found
