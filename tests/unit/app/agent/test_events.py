"""Every event survives the way to a dict and back."""

from __future__ import annotations

import json
from typing import get_args

import msgspec
import pytest

from app.agent import events
from app.agent.events import Event, from_dict, to_dict
from app.agent.machine import _HANDLERS

SAMPLES: dict[str, object] = {
    "int": 3,
    "str": "word_abc",
    "float": 1.5,
    "bool": True,
}


def sample(kind: type[msgspec.Struct]) -> msgspec.Struct:
    """An event with every field filled by its declared type."""
    values: dict[str, object] = {}
    for field in msgspec.structs.fields(kind):
        info = msgspec.inspect.type_info(field.type)
        if isinstance(info, msgspec.inspect.LiteralType):
            values[field.name] = info.values[0]
        elif isinstance(info, msgspec.inspect.VarTupleType):
            item = info.item_type
            if isinstance(item, msgspec.inspect.StructType):
                values[field.name] = (sample(item.cls),)
            elif isinstance(item, msgspec.inspect.TupleType):
                values[field.name] = (("word_a", "word_b"),)
            else:
                values[field.name] = ("word_a",)
        else:
            values[field.name] = SAMPLES[type(info).__name__.removesuffix("Type").lower()]
    return kind(**values)


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_there_and_back(kind: type[msgspec.Struct]) -> None:
    event = sample(kind)
    plain = json.loads(json.dumps(to_dict(event)))  # type: ignore[arg-type]
    assert plain["type"] == kind.__name__
    assert from_dict(plain) == event


def test_every_event_is_exported_and_handled() -> None:
    kinds = set(get_args(Event))
    assert kinds == set(_HANDLERS)
    assert {kind.__name__ for kind in kinds} <= set(events.__all__)


@pytest.mark.parametrize("plain", [{}, {"type": "Nothing"}, {"type": "Tick", "now": 1}])
def test_anything_else_is_refused(plain: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        from_dict(plain)
