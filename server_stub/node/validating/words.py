"""What a validator and the node say to each other beyond items and answers.

Owns: the message with which a validator asks for an item, the paths, and the bounds. Items and
answers are the frames that the node's own workers speak (`workers.frames`).
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from gpugoblin.errors import NodeError

__all__ = [
    "ANSWER_PATH", "BLOBS_PATH", "HOLD_S", "LOST_S", "MAX_TAKE_BYTES", "PIECE_BYTES", "TAKE_PATH",
    "Take", "decode_take",
]  # fmt: skip

TAKE_PATH: Final = "/v1/validator/take"
ANSWER_PATH: Final = "/v1/validator/answer"
BLOBS_PATH: Final = "/v1/validator/blobs"

MAX_TAKE_BYTES: Final = 4096
PIECE_BYTES: Final = 8 * 2**20
"""Of a blob, in one answer."""

HOLD_S: Final = 10.0
"""How long a question for work is held where there is none."""

LOST_S: Final = 40.0
"""A validator that was not heard for so long is gone, with what it had."""

MAX_ITEMS: Final = 16
"""That a validator says to have."""

_Id = Annotated[str, Meta(max_length=128)]


class Take(Struct, frozen=True, forbid_unknown_fields=True):
    """Asks for an item, or (`want` is false) says that the validator is still busy.

    Items are of the node's own version only: `version` and `catalog_hash` must be the node's.
    `has` names the items that it works on: what it was given long ago and does not name never
    reached it, or ended with an earlier process.
    """

    version: _Id
    catalog_hash: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    want: bool = True
    has: Annotated[tuple[_Id, ...], Meta(max_length=MAX_ITEMS)] = ()


def decode_take(body: bytes) -> Take:
    """Raises NodeError `parameter_invalid`."""
    try:
        return msgspec.json.decode(body, type=Take)
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise NodeError("parameter_invalid", name="body", value="", reason=str(cause)) from cause
