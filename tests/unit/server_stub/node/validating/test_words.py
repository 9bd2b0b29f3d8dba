"""What a validator asks with, and what is refused of it."""

from __future__ import annotations

import msgspec
import pytest

from gpugoblin.errors import NodeError
from server_stub.node.validating.words import MAX_TAKE_BYTES, Take, decode_take

__all__: list[str] = []


def test_a_question_comes_back_as_it_was() -> None:
    take = Take("1.0", "a" * 64, False)
    body = msgspec.json.encode(take)
    assert len(body) < MAX_TAKE_BYTES
    assert decode_take(body) == take


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b'{"version":"1","catalog_hash":"a"}'])
def test_nonsense_is_refused_by_code(body: bytes) -> None:
    with pytest.raises(NodeError) as caught:
        decode_take(body)
    assert caught.value.code == "parameter_invalid"
