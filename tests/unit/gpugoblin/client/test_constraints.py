"""gg.where: quantities, and its two uses."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.client.constraints import link_bytes_per_s, memory_bytes
from gpugoblin.errors import ClientError
from gpugoblin.wire.messages.task import Constraints


@pytest.mark.parametrize(
    ("given", "size"),
    [("12GB", 12 * 10**9), ("1.5 GiB", 3 << 29), ("0 B", 0), (7, 7), (" 3MB ", 3 * 10**6)],
)
def test_memory(given: str | int, size: int) -> None:
    assert memory_bytes(given) == size


@pytest.mark.parametrize(("given", "rate"), [("100Mb/s", 12_500_000), ("1MB/s", 10**6), (5, 5)])
def test_links(given: str | int, rate: int) -> None:
    assert link_bytes_per_s(given) == rate


@pytest.mark.parametrize("given", ["12", "GB", "-1GB", "12gb", "1e9B", -1, True, 1.5, None])
def test_what_is_no_quantity(given: object) -> None:
    with pytest.raises(ClientError) as caught:
        memory_bytes(given)  # type: ignore[arg-type]
    assert caught.value.code == "quantity_malformed"
    assert "'12GB'" in caught.value.next_step


def test_where_a_job_may_run() -> None:
    assert gg.where(min_memory="1kB", link="8kb/s", sandbox="reduced") == Constraints(
        min_memory_bytes=1000, sandbox="reduced", min_link_bytes_per_s=1000
    )


def test_where_chooses_between_arrays() -> None:
    assert gg.where(np.array([True, False]), 1.0, 2.0).shape == (2,)
    with pytest.raises(TypeError):
        gg.where(np.array([True]), 1.0)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        gg.where(np.array([True]), 1.0, 2.0, min_memory=3)  # type: ignore[call-overload]
