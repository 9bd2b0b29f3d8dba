"""Codings of tensors."""

from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.blobs.coding import CODINGS, TENSOR_DTYPES, coding
from gpugoblin.catalog.casting import cast_array
from gpugoblin.catalog.spec import DTYPES
from gpugoblin.errors import StoreError


@pytest.mark.parametrize("name", sorted(CODINGS))
@pytest.mark.parametrize("dtype", sorted(TENSOR_DTYPES))
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_round_trip(name: str, dtype: str, shape: tuple[int, ...]) -> None:
    numbers = np.arange(6)[: int(np.prod(shape))].reshape(shape) * 3
    array = cast_array(numbers, dtype)
    used = coding(name)
    data = used.encode(array)
    assert data.nbytes == used.coded_bytes(dtype, shape)
    back = used.decode(data, dtype, shape)
    assert used.lossless
    assert back.dtype == array.dtype
    assert back.shape == shape
    np.testing.assert_array_equal(back, array)
    assert not back.flags.writeable


def test_strided_and_big_endian_become_plain() -> None:
    array = np.arange(12, dtype=">i4").reshape(3, 4).T
    assert bytes(coding("raw").encode(array)) == array.astype("<i4").tobytes()


def test_wrong_size() -> None:
    with pytest.raises(StoreError) as caught:
        coding("raw").decode(memoryview(b"123"), "int32", (1,))
    assert caught.value.code == "array_truncated"


def test_unknown_coding() -> None:
    with pytest.raises(StoreError) as caught:
        coding("zip")
    assert caught.value.code == "coding_unknown"


def test_dtypes_are_those_of_the_catalog() -> None:
    assert dict(TENSOR_DTYPES) == dict(DTYPES)
