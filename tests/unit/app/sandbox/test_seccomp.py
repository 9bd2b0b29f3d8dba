"""The assembler, proven by an interpreter of its programs, and the loading for real."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.sandbox.seccomp import (
    ALLOW,
    KILL,
    Condition,
    Policy,
    Rule,
    compile_policy,
    errno_action,
    load,
)
from app.sandbox.syscalls import NUMBERS

from .bpf import run

REFUSED = errno_action(errno.EPERM)
NAMES = sorted(NUMBERS)


def _policy(**changes: object) -> Policy:
    fields: dict[str, object] = {
        "allowed": frozenset({"read"}),
        "ruled": {},
        "killed": frozenset({"mount"}),
        "otherwise": REFUSED,
    }
    return Policy(**{**fields, **changes})  # type: ignore[arg-type]


def _says(policy: Policy, name: str, arguments: tuple[int, ...]) -> int:
    """The policy read directly: what every program must say."""
    if name in policy.allowed:
        return ALLOW
    if name in policy.killed:
        return KILL
    rule = policy.ruled.get(name)
    if rule is None:
        return policy.otherwise
    for alternative in rule.alternatives:
        if all(arguments[c.argument] & c.mask == c.value for c in alternative):
            return ALLOW
    return rule.otherwise


words = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2**32, 2**32 - 1, 2**63]))


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    mask = draw(words.filter(bool))
    return Condition(draw(st.integers(0, 5)), mask, draw(words) & mask)


rules = st.builds(
    Rule,
    st.lists(st.lists(conditions(), max_size=3).map(tuple), max_size=3).map(tuple),
    st.sampled_from([REFUSED, errno_action(errno.ENOSYS), KILL]),
)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    names = draw(st.permutations(NAMES))
    cut = sorted(draw(st.lists(st.integers(0, len(names)), min_size=3, max_size=3)))
    ruled = names[cut[1] : min(cut[2], cut[1] + 12)]
    return (
        Policy(
            allowed=frozenset(names[: cut[0]]) | {"read"} - set(names[cut[0] :]),
            ruled={name: draw(rules) for name in ruled},
            killed=frozenset(names[cut[0] : cut[1]]),
            otherwise=REFUSED,
        )
        if cut[0]
        else _policy()
    )


@settings(max_examples=40)
@given(policies(), st.sampled_from(NAMES), st.tuples(*[words] * 6))
def test_program_says_what_the_policy_says(
    policy: Policy, name: str, arguments: tuple[int, ...]
) -> None:
    said = run(compile_policy(policy), NUMBERS[name], arguments)
    assert said == _says(policy, name, arguments)


@given(st.integers(0, 2**32 - 1))
def test_every_number_gets_an_answer(number: int) -> None:
    said = run(compile_policy(_policy()), number)
    expected = {NUMBERS["read"]: ALLOW, NUMBERS["mount"]: KILL}.get(number, REFUSED)
    assert said == (KILL if number >= 2**30 else expected)


@pytest.mark.parametrize("arch", [0x40000003, 0xC00000B7, 0])
def test_other_architectures_die(arch: int) -> None:
    assert run(compile_policy(_policy()), NUMBERS["read"], arch=arch) == KILL


def test_calls_of_the_x32_table_die() -> None:
    assert run(compile_policy(_policy()), 0x40000000 | NUMBERS["read"]) == KILL


def test_both_halves_of_an_argument_are_looked_at() -> None:
    rule = Rule(((Condition(2, 2**64 - 1, 0),),), REFUSED)
    program = compile_policy(_policy(ruled={"prlimit64": rule}))
    number = NUMBERS["prlimit64"]
    assert run(program, number, (0, 7, 0)) == ALLOW
    assert run(program, number, (0, 7, 1)) == REFUSED
    assert run(program, number, (0, 7, 2**32)) == REFUSED


def test_one_name_in_two_groups_is_refused() -> None:
    with pytest.raises(ValueError, match="two groups"):
        _policy(killed=frozenset({"read"}))


def test_a_name_without_number_is_refused() -> None:
    with pytest.raises(ValueError, match="without a number"):
        _policy(allowed=frozenset({"no_such_call"}))


@pytest.mark.parametrize(("argument", "mask", "value"), [(6, 1, 0), (0, 0, 0), (0, 1, 2)])
def test_a_condition_that_never_holds_is_refused(argument: int, mask: int, value: int) -> None:
    with pytest.raises(ValueError, match="never be true"):
        Condition(argument, mask, value)


@pytest.mark.parametrize("number", [0, 4096])
def test_an_errno_out_of_range_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match=r"1\.\.4095"):
        errno_action(number)


def test_a_program_too_long_for_the_kernel_is_refused() -> None:
    alternatives = tuple((Condition(0, 2**64 - 1, value),) for value in range(1000))
    with pytest.raises(ValueError, match="the kernel takes 4096"):
        compile_policy(_policy(ruled={"ioctl": Rule(alternatives, REFUSED)}))


LOADED = """
import os, threading
from app.sandbox.seccomp import *
from app.sandbox.syscalls import NUMBERS
gate, told = threading.Event(), []
def other():
    gate.wait()
    try:
        os.getcwd()
    except PermissionError:
        told.append("thread")
thread = threading.Thread(target=other)
thread.start()
allowed = frozenset(NUMBERS) - {"getcwd", "clone3"}
load(compile_policy(Policy(allowed, {}, frozenset(), errno_action(1))))
try:
    os.getcwd()
except PermissionError:
    told.append("main")
gate.set()
thread.join()
print(told, open("/proc/self/status").read().count("NoNewPrivs:\\t1"))
"""


def test_loaded_program_holds_for_threads_that_were_there_before() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['main', 'thread'] 1\n"


def test_a_refused_program_says_so() -> None:
    with pytest.raises(OSError, match="seccomp"):
        load(b"\xff" * 8)
