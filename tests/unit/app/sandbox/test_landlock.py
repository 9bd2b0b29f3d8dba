"""Rights by ABI, and a ruleset loaded for real."""

from __future__ import annotations

import subprocess
import sys

import pytest

from app.sandbox import landlock


@pytest.mark.parametrize(
    ("version", "files", "network", "scopes"),
    [
        (1, 0x1FFF, 0, 0),
        (2, 0x3FFF, 0, 0),
        (3, 0x7FFF, 0, 0),
        (4, 0x7FFF, 3, 0),
        (5, 0xFFFF, 3, 0),
        (6, 0xFFFF, 3, 3),
        (9, 0xFFFF, 3, 3),
    ],
)
def test_each_abi_takes_away_what_it_knows(
    version: int, files: int, network: int, scopes: int
) -> None:
    assert landlock.handled(version) == (files, network, scopes)


def _run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


REAL = """
import os, sys
from app.sandbox import landlock
open_before = open("/etc/passwd").read(1)
used = landlock.restrict([
    landlock.PathRule("/proc/self", landlock.READ_FILE | landlock.READ_DIRECTORY),
    landlock.PathRule("/gg-not-there", landlock.READ_FILE),
])
told = [used == landlock.abi(), bool(open("/proc/self/status").read(1))]
for attempt in (
    lambda: open("/etc/passwd"),
    lambda: open("/proc/1/environ"),
    lambda: os.mkdir("/tmp/gg-landlock"),
    lambda: os.execv("/bin/true", ["true"]),
):
    try:
        attempt()
        told.append("open")
    except PermissionError:
        told.append("refused")
print(told)
"""


def test_only_what_the_rules_name_stays() -> None:
    assert _run(REAL) == "[True, True, 'refused', 'refused', 'refused', 'refused']\n"


WITHOUT = """
from app.sandbox import landlock
from app.sandbox.seccomp import *
from app.sandbox.syscalls import NUMBERS
gone = {"landlock_create_ruleset", "clone3"}
load(compile_policy(Policy(frozenset(NUMBERS) - gone, {}, frozenset(), errno_action(38))))
print(landlock.abi(), landlock.restrict([]), bool(open("/etc/passwd").read(1)))
"""


def test_a_kernel_without_landlock_is_told_apart() -> None:
    assert _run(WITHOUT) == "0 0 True\n"
