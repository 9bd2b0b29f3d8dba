"""Dtypes as the standard asks for them."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.errors import CaptureError
from tests.helpers.lazy import agree

X = gg.array(np.ones((2, 3), np.float32))


def test_kinds() -> None:
    assert gg.isdtype(gg.int32, "integral")
    assert gg.isdtype(gg.uint8, ("bool", "unsigned integer"))
    assert gg.isdtype("float32", "numeric") is not gg.isdtype("bool", "numeric")
    assert gg.isdtype(X.dtype, gg.float32)


def test_combining() -> None:
    assert gg.result_type(gg.int32, "int64", 3) == np.int64
    assert gg.result_type(X, 2.5) == np.float32
    assert gg.can_cast("int32", "int64")
    assert not gg.can_cast(X, "int32")
    with pytest.raises(CaptureError, match="dtypes_mixed"):
        gg.result_type(X, "int32")
    with pytest.raises(CaptureError, match="argument_refused"):
        gg.result_type(1.0)


def test_limits() -> None:
    assert gg.finfo(X).eps == np.finfo(np.float32).eps
    assert gg.iinfo(gg.int32).max == 2**31 - 1


def test_the_namespace() -> None:
    info = gg.__array_namespace_info__()
    assert info.default_dtypes()["real floating"] == gg.float32
    assert info.dtypes(kind="bool") == {"bool": gg.bool}
    assert set(info.dtypes()) >= {"float32", "int64", "bool"}
    assert info.devices() == [info.default_device()] == [X.device]
    assert info.capabilities()["boolean indexing"] is False
    assert X.__array_namespace__(api_version="2024.12") is gg
    assert X.to_device(X.device) is X
    for wrong in (lambda: X.__array_namespace__(api_version="1"), lambda: X.to_device("cpu")):
        with pytest.raises(CaptureError, match="argument_refused"):
            wrong()


def test_from_dlpack() -> None:
    agree(gg.from_dlpack(np.arange(3, dtype=np.float32)), [0, 1, 2])
