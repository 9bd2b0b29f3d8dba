"""Which dtypes are computed, and how they combine."""

from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.capture.caller import NOWHERE
from gpugoblin.capture.dtypes import catalog_dtype, literal_dtype, promote
from gpugoblin.errors import CaptureError


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("float32", "float32"), (np.float32, "float32"), (np.dtype("<i4"), "int32"),
        ("int64", "int64"), (int, "int64"), (bool, "bool"), (np.bool_, "bool"),
    ],
)  # fmt: skip
def test_dtypes_of_the_catalog(given: object, name: str) -> None:
    assert catalog_dtype(given, NOWHERE, "x") == name


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        (">f8", "byte order"), ("longdouble", '.astype("float32")'),
        ("uint64", '.astype("int64")'), (">f4", "byte order"),
        ("complex64", "real and imaginary"), ("U3", "NumPy"),
        ("bfloat16", "NumPy"), (None, "NumPy"),
    ],
)  # fmt: skip
def test_every_other_dtype_is_refused_with_the_fix(given: object, fix: str) -> None:
    with pytest.raises(CaptureError) as caught:
        catalog_dtype(given, NOWHERE, "the file a.npy")
    assert caught.value.code == "dtype_refused"
    assert caught.value.what.startswith("<unknown>: the file a.npy has dtype ")
    assert fix in caught.value.next_step


def test_promotion() -> None:
    for one, other, common in (
        ("int32", "int64", "int64"), ("int8", "uint8", "int16"), ("uint8", "int32", "int32"),
        ("float32", "float64", "float64"),
    ):  # fmt: skip
        assert promote("add", (one, other), "", NOWHERE) == common
        assert promote("add", (other, one), "", NOWHERE) == common
    for name in ("float32", "float64", "int32", "int64", "bool"):
        assert promote("add", (name, name), "", NOWHERE) == name


@pytest.mark.parametrize(
    "mixture", [("float32", "int32"), ("bool", "int64"), ("float32", "bool"), ("int64", "float32")]
)
def test_mixtures_are_refused(mixture: tuple[str, str]) -> None:
    with pytest.raises(CaptureError) as caught:
        promote("add", mixture, "a and b", NOWHERE)
    assert caught.value.code == "dtypes_mixed"
    assert ".astype(" in caught.value.next_step


@pytest.mark.parametrize(
    ("number", "dtype"),
    [
        (1, "float32"), (0.1, "float32"), (float("inf"), "float32"), (float("nan"), "float32"),
        (1e39, "float64"), (-128, "int8"), (255, "uint8"), (-(2**31), "int32"),
        (2**63 - 1, "int64"), (True, "bool"),
    ],
)  # fmt: skip
def test_numbers_that_fit(number: float, dtype: str) -> None:
    assert literal_dtype("add", number, dtype, NOWHERE) == dtype


@pytest.mark.parametrize(
    ("number", "dtype"),
    [
        (1e39, "float32"), (128, "int8"), (-1, "uint8"), (2**31, "int32"),
        (2**63, "int64"), (0.5, "int64"), (1, "bool"),
        (True, "float32"), (True, "int32"), (0.5, "bool"),
    ],
)  # fmt: skip
def test_numbers_that_do_not_fit(number: float, dtype: str) -> None:
    with pytest.raises(CaptureError) as caught:
        literal_dtype("add", number, dtype, NOWHERE)
    assert caught.value.code == "dtypes_mixed"
