"""Raw system calls and opens, with the outcome of the attempt. Owns that and nothing else."""

from __future__ import annotations

import ctypes
import os

from app.sandbox.syscalls import NUMBERS

from .table import Outcome, opened, refused

__all__ = ["LIBC", "NULL", "call", "raw", "try_call", "try_open"]

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
NULL = ctypes.c_void_p(None)


def _wide(argument: object) -> object:
    return ctypes.c_long(argument) if isinstance(argument, int) else argument


def raw(number: int, *arguments: object) -> tuple[int, int]:
    """(result, errno) of a call by number; whole numbers are passed 64 bits wide."""
    ctypes.set_errno(0)
    result = LIBC.syscall(ctypes.c_long(number), *map(_wide, arguments))
    return result, ctypes.get_errno()


def call(name: str, *arguments: object) -> tuple[int, int]:
    """(result, errno) of a call by name."""
    return raw(NUMBERS[name], *arguments)


def try_call(name: str, *arguments: object) -> Outcome:
    """The attempt's outcome; a descriptor that it gave is left open (the engine ends soon)."""
    result, number = call(name, *arguments)
    return refused(number) if result < 0 else opened(result)


def try_open(path: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> Outcome:
    """Opens, and reads up to 64 bytes of it where reading was asked."""
    try:
        descriptor = os.open(path, flags, mode)
    except OSError as error:
        return refused(error.errno or 0)
    try:
        if flags & os.O_ACCMODE == os.O_WRONLY:
            return opened()
        return opened(os.read(descriptor, 64))
    except OSError as error:
        return refused(error.errno or 0)
    finally:
        os.close(descriptor)
