from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.philox import words


@pytest.mark.parametrize(
    ("key", "block", "stream", "expected"),
    [
        # The known answers of the authors' library Random123.
        (0, 0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (2**64 - 1, 2**62 - 1, -1, None),
    ],
)
def test_known_answers(key: int, block: int, stream: int, expected: str | None) -> None:
    found = words(key, stream, 4 * block, 4 * block + 4)
    if expected is not None:
        assert " ".join(f"{word:08x}" for word in found) == expected
    assert found.dtype == np.uint32


def test_any_part_is_the_part_of_the_whole() -> None:
    whole = words(7, 3, 0, 40)
    for start, stop in ((0, 1), (3, 9), (8, 8), (13, 40)):
        np.testing.assert_array_equal(words(7, 3, start, stop), whole[start:stop])


def test_keys_and_streams_differ() -> None:
    drawn = [words(key, stream, 0, 4).tobytes() for key in (0, 1, -1, 2**32) for stream in (0, 1)]
    assert len(set(drawn)) == 8
    assert words(-1, -1, 0, 4).tobytes() == words(2**64 - 1, 2**64 - 1, 0, 4).tobytes()
