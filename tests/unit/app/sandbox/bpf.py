"""An interpreter of seccomp programs, so that a filter is judged without running a process.

Owns: the subset of classic BPF that the kernel takes for seccomp and our assembler prints. It
checks what the kernel's verifier checks: jumps land inside, the program ends in a return.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

X86_64 = 0xC000003E


def decode(program: bytes) -> list[tuple[int, int, int, int]]:
    return [struct.unpack("<HBBI", program[at : at + 8]) for at in range(0, len(program), 8)]


def run(program: bytes, number: int, arguments: Sequence[int] = (), arch: int = X86_64) -> int:
    """The action for one system call."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, arch, 0, *(a % 2**64 for a in padded))
    code = decode(program)
    accumulator, at = 0, 0
    for _ in range(len(code)):
        operation, jump_true, jump_false, operand = code[at]
        at += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, operand)
        elif operation == 0x54:
            accumulator &= operand
        elif operation == 0x05:
            at += operand
        elif operation == 0x15:
            at += jump_true if accumulator == operand else jump_false
        elif operation == 0x35:
            at += jump_true if accumulator >= operand else jump_false
        elif operation == 0x06:
            return operand
        else:
            raise ValueError(f"operation {operation:#x}")
        if at >= len(code):
            raise ValueError("the program runs out of itself")
    raise ValueError("the program does not end")
