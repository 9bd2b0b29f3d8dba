"""The registry of messages."""

from __future__ import annotations

import msgspec
import pytest

import gpugoblin.wire.messages
from gpugoblin.wire.codec import message_type
from gpugoblin.wire.registry import MESSAGES, message

MIB = 1024 * 1024


def test_every_message_knows_itself() -> None:
    assert len(MESSAGES) >= 25
    for key, entry in MESSAGES.items():
        assert key == f"{entry.name}@{entry.version}"
        assert message_type(entry.struct) is entry
        assert 0 < entry.max_bytes <= 32 * MIB
        assert (entry.struct.__doc__ or "").strip()


def test_a_name_is_declared_once() -> None:
    class Second(msgspec.Struct):
        number: int

    register = message("contact", sender="device", receiver="coordinator", max_bytes=1)
    with pytest.raises(LookupError, match="contact@1"):
        register(Second)
    assert MESSAGES["contact@1"].struct is gpugoblin.wire.messages.contact.Contact


def test_messages_are_frozen_and_closed() -> None:
    for entry in MESSAGES.values():
        configuration = entry.struct.__struct_config__
        assert configuration.frozen, entry.key
        assert configuration.forbid_unknown_fields, entry.key
