"""The numbers of system calls."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.sandbox.syscalls import NUMBERS

HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")


def test_numbers_are_distinct_and_known_ones_are_right() -> None:
    assert len(set(NUMBERS.values())) == len(NUMBERS)
    assert (NUMBERS["read"], NUMBERS["execve"], NUMBERS["seccomp"]) == (0, 59, 317)
    assert NUMBERS["landlock_restrict_self"] == 446


@pytest.mark.skipif(not HEADER.exists(), reason="the kernel's headers are not installed")
def test_numbers_are_those_of_the_kernels_header() -> None:
    header = dict(re.findall(r"#define __NR_(\w+) (\d+)", HEADER.read_text(encoding="ascii")))
    assert {name: header.get(name) for name in NUMBERS} == {
        name: str(number) for name, number in NUMBERS.items()
    }
