"""From a policy (which system call, with which arguments, gets which answer) to a seccomp program.

Owns: the shape of a policy, the assembler to classic BPF (Linux `filter.h`, `seccomp.h`) and the
loading of a program into the own process. Must not: decide what is allowed (`stages.py` does), nor
import anything but the standard library: this runs inside the engine.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from app.sandbox.syscalls import AUDIT_ARCH_X86_64, NUMBERS, X32_BIT

__all__ = [
    "ALLOW",
    "KILL",
    "Condition",
    "Policy",
    "Rule",
    "compile_policy",
    "errno_action",
    "load",
]

ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000
"""The whole process dies of SIGSYS and the kernel logs the number of the call."""

INSTRUCTION: Final = struct.Struct("<HBBI")
LIMIT_INSTRUCTIONS: Final = 4096

_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_AND = 0x54  # BPF_ALU | BPF_AND | BPF_K
_JUMP = 0x05  # BPF_JMP | BPF_JA
_JUMP_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_JUMP_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K

_OFFSET_NUMBER = 0
_OFFSET_ARCH = 4
_OFFSET_ARGUMENTS = 16
_HALF = 0xFFFFFFFF


def errno_action(errno: int) -> int:
    """The action that answers a call with this error, without running it."""
    if not 0 < errno < 4096:
        raise ValueError(f"errno {errno} is outside 1..4095")
    return 0x00050000 | errno


@dataclass(frozen=True, slots=True)
class Condition:
    """True if `arguments[argument] & mask == value`, all 64 bits wide."""

    argument: int
    mask: int
    value: int

    def __post_init__(self) -> None:
        if not 0 <= self.argument < 6 or not 0 < self.mask < 2**64 or self.value & ~self.mask:
            raise ValueError(f"a condition that can never be true: {self}")


@dataclass(frozen=True, slots=True)
class Rule:
    """Allows a call if all conditions of one alternative hold, else answers with `otherwise`."""

    alternatives: tuple[tuple[Condition, ...], ...]
    otherwise: int


@dataclass(frozen=True, slots=True)
class Policy:
    """What a filter says about every call.

    Args:
        allowed: names that pass whatever their arguments.
        ruled: names that pass under their rule.
        killed: names that end the process.
        otherwise: the action for every other name.
    """

    allowed: frozenset[str]
    ruled: Mapping[str, Rule]
    killed: frozenset[str]
    otherwise: int

    def __post_init__(self) -> None:
        names = [*self.allowed, *self.ruled, *self.killed]
        if len(set(names)) != len(names):
            raise ValueError("a call stands in two groups of one policy")
        unknown = sorted(set(names) - set(NUMBERS))
        if unknown:
            raise ValueError(f"calls without a number: {unknown}")


Operation = tuple[int, int, int, int]


def _give(action: int) -> Operation:
    return (_RETURN, 0, 0, action)


def _condition(condition: Condition, skip_true: int) -> list[Operation]:
    """Falls through when true; jumps past the next `skip_true` operations of its end when not."""
    checks: list[Operation] = []
    for half in (0, 1):
        mask = (condition.mask >> (32 * half)) & _HALF
        if not mask:
            continue
        value = (condition.value >> (32 * half)) & _HALF
        checks.append((_LOAD, 0, 0, _OFFSET_ARGUMENTS + 8 * condition.argument + 4 * half))
        if mask != _HALF:
            checks.append((_AND, 0, 0, mask))
        checks.append((_JUMP_EQUAL, 0, 0, value))
    # Only now is the distance of each check to the end known.
    return [
        (code, 0, len(checks) - 1 - at + skip_true, operand) if code == _JUMP_EQUAL else operation
        for at, operation in enumerate(checks)
        for code, _, _, operand in (operation,)
    ]


def _rule(rule: Rule) -> list[Operation]:
    program: list[Operation] = []
    for alternative in rule.alternatives:
        block: list[Operation] = [_give(ALLOW)]
        for condition in reversed(alternative):
            block = _condition(condition, len(block)) + block
        program += block
    program.append(_give(rule.otherwise))
    return program


def _runs(policy: Policy) -> list[tuple[int, int | Rule]]:
    """First number of each run of calls with one answer, ascending, from 0 on."""
    answers: dict[int, int | Rule] = {NUMBERS[name]: ALLOW for name in policy.allowed}
    answers.update({NUMBERS[name]: KILL for name in policy.killed})
    answers.update({NUMBERS[name]: rule for name, rule in policy.ruled.items()})
    runs: list[tuple[int, int | Rule]] = []
    for number in range(max(answers) + 2):
        answer = answers.get(number, policy.otherwise)
        if not runs or runs[-1][1] != answer:
            runs.append((number, answer))
    return runs


def _tree(runs: list[tuple[int, int | Rule]]) -> list[Operation]:
    """A balanced search over the runs: about seven comparisons a call."""
    if len(runs) == 1:
        answer = runs[0][1]
        return _rule(answer) if isinstance(answer, Rule) else [_give(answer)]
    middle = len(runs) // 2
    low, high = _tree(runs[:middle]), _tree(runs[middle:])
    pivot = runs[middle][0]
    if len(low) <= 255:
        return [(_JUMP_AT_LEAST, len(low), 0, pivot), *low, *high]
    # A conditional jump reaches 255 operations; an unconditional one reaches all.
    return [(_JUMP_AT_LEAST, 0, 1, pivot), (_JUMP, 0, 0, len(low)), *low, *high]


def compile_policy(policy: Policy) -> bytes:
    """The program: wrong architecture and x32 calls die first, then a search by number.

    Raises:
        ValueError: longer than the kernel takes.
    """
    program: list[Operation] = [
        (_LOAD, 0, 0, _OFFSET_ARCH),
        (_JUMP_EQUAL, 1, 0, AUDIT_ARCH_X86_64),
        _give(KILL),
        (_LOAD, 0, 0, _OFFSET_NUMBER),
        (_JUMP_AT_LEAST, 0, 1, X32_BIT),
        _give(KILL),
        *_tree(_runs(policy)),
    ]
    if len(program) > LIMIT_INSTRUCTIONS:
        raise ValueError(f"{len(program)} BPF instructions; the kernel takes {LIMIT_INSTRUCTIONS}")
    return b"".join(INSTRUCTION.pack(*operation) for operation in program)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def load(program: bytes) -> None:
    """Puts all threads of this process under `program`, for good.

    Sets no_new_privs first, which the kernel demands of an unprivileged process.

    Raises:
        OSError: the kernel refused, or a thread could not be brought under the filter.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    set_no_new_privs, set_mode_filter, every_thread = 38, 1, 1
    if libc.prctl(set_no_new_privs, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")
    buffer = ctypes.create_string_buffer(program, len(program))
    request = _Program(len(program) // INSTRUCTION.size, ctypes.addressof(buffer))
    answer = libc.syscall(
        ctypes.c_long(NUMBERS["seccomp"]),
        ctypes.c_ulong(set_mode_filter),
        ctypes.c_ulong(every_thread),
        ctypes.byref(request),
    )
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")
    if answer > 0:
        raise OSError(0, f"seccomp: thread {answer} could not be brought under the filter")
