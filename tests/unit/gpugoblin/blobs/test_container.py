"""Containers."""

from __future__ import annotations

import numpy as np
import pytest
import safetensors.numpy

from gpugoblin.blobs.container import load_tensors, save_tensors
from gpugoblin.errors import StoreError


def test_round_trip() -> None:
    tensors = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "b": np.array(3, np.int64),
        "c": np.zeros((0, 4), np.int32),
        "d": np.array([True, False]),
    }
    back = load_tensors(save_tensors(tensors, {"job": "x"}))
    assert back.keys() == tensors.keys()
    for name, array in tensors.items():
        assert back[name].dtype == array.dtype
        np.testing.assert_array_equal(back[name], array)


def test_what_is_no_container() -> None:
    for data in (b"", b"\x08\0\0\0\0\0\0\0notjson!", b"\xff" * 20):
        with pytest.raises(StoreError) as caught:
            load_tensors(data, "there")
        assert caught.value.code == "array_unreadable"


def test_other_dtypes_are_refused() -> None:
    data = safetensors.numpy.save({"x": np.zeros(3, np.uint16)})
    with pytest.raises(StoreError) as caught:
        load_tensors(data)
    assert caught.value.code == "array_dtype"
