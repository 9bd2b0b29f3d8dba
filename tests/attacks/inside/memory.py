"""Attacks that aim at more memory than was lent, or at memory that runs as code."""

from __future__ import annotations

import ctypes
import errno
import os

from .calls import NULL, call, try_call
from .table import Bait, Outcome, attack, bounded, opened, refused

MIB = 1024 * 1024
READ, WRITE, EXECUTE = 1, 2, 4
SHARED, PRIVATE, ANONYMOUS = 1, 2, 0x20
GROWS_DOWN, NO_RESERVE, HUGE = 0x100, 0x4000, 0x40000


def _map(size: int, protection: int, flags: int, descriptor: int = -1) -> tuple[int, int]:
    return call("mmap", 0, size, protection, flags, descriptor, 0)


def _try_map(size: int, protection: int, flags: int, descriptor: int = -1) -> Outcome:
    address, number = _map(size, protection, flags, descriptor)
    if address < 0:
        return refused(number)
    call("munmap", address, size)
    return opened()


@attack("limits", "ENOMEM", expected="bounded", limit=512, alone=True)
def private_memory_bomb(bait: Bait) -> Outcome:
    taken = 0
    while taken < 4096:
        address, number = _map(16 * MIB, READ | WRITE, PRIVATE | ANONYMOUS)
        if address < 0:
            return bounded(taken, errno.errorcode[number])
        taken += 16
    return opened(taken)


@attack("limits", "ENOMEM", expected="bounded", limit=512, alone=True)
def memory_bomb_by_permission(bait: Bait) -> Outcome:
    """Reserved addresses cost nothing; making them writable must."""
    size = 4096 * MIB
    base, number = _map(size, 0, PRIVATE | ANONYMOUS | NO_RESERVE)
    if base < 0:
        return refused(number)
    for taken in range(0, 4096, 16):
        result, number = call("mprotect", base + taken * MIB, 16 * MIB, READ | WRITE)
        if result < 0:
            return bounded(taken, errno.errorcode[number])
    return opened(size)


@attack("limits", "ENOMEM", expected="bounded", limit=512, alone=True)
def memory_bomb_by_growth(bait: Bait) -> Outcome:
    address, number = _map(MIB, READ | WRITE, PRIVATE | ANONYMOUS)
    if address < 0:
        return refused(number)
    for size in range(2, 4096, 16):
        grown, number = call("mremap", address, (size - 16 if size > 2 else 1) * MIB, size * MIB, 1)
        if grown < 0:
            return bounded(size - 16, errno.errorcode[number])
        address = grown
    return opened()


@attack("limits", "ENOMEM", expected="bounded", limit=512, alone=True)
def memory_bomb_by_copies_of_the_arena(bait: Bait) -> Outcome:
    """Private copies of pages of a shared file."""
    size = os.fstat(bait["output_fd"]).st_size
    for taken in range(0, 4096 * MIB, size):
        address, number = _map(size, READ | WRITE, PRIVATE, bait["output_fd"])
        if address < 0:
            return bounded(taken // MIB, errno.errorcode[number])
    return opened()


@attack("limits", "ENOMEM", expected="bounded", limit=512, alone=True)
def heap_bomb(bait: Bait) -> Outcome:
    """brk answers a refusal with the old end."""
    start, _ = call("brk", 0)
    for taken in range(16, 4096, 16):
        wanted = start + taken * MIB
        reached, _ = call("brk", wanted)
        if reached != wanted:
            return bounded(taken - 16, "ENOMEM")
    return opened()


@attack("limits", "ENOMEM")
def a_tebibyte_at_once(bait: Bait) -> Outcome:
    return _try_map(2**40, READ | WRITE, PRIVATE | ANONYMOUS | NO_RESERVE)


@attack("stage two", "EPERM", control=True)
def shared_memory_bomb(bait: Bait) -> Outcome:
    return _try_map(64 * MIB, READ | WRITE, SHARED | ANONYMOUS)


@attack("stage two", "EPERM", control=True)
def memory_file(bait: Bait) -> Outcome:
    return try_call("memfd_create", b"gg\0", 0)


@attack("stage two", "EPERM", control=True)
def memory_file_of_8_gib(bait: Bait) -> Outcome:
    descriptor, number = call("memfd_create", b"gg\0", 0)
    if descriptor < 0:
        return refused(number)
    return try_call("ftruncate", descriptor, 8 * 1024 * MIB)


@attack("landlock", "EACCES", control=True)
def shared_memory_through_dev_zero(bait: Bait) -> Outcome:
    descriptor = os.open("/dev/zero", os.O_RDONLY)
    try:
        return _try_map(64 * MIB, READ, SHARED, descriptor)
    finally:
        os.close(descriptor)


@attack("seccomp", "EPERM", control=True)
def memory_that_grows_downward(bait: Bait) -> Outcome:
    return _try_map(64 * MIB, READ | WRITE, PRIVATE | ANONYMOUS | GROWS_DOWN)


@attack("seccomp", "EPERM")
def huge_pages(bait: Bait) -> Outcome:
    return _try_map(2 * MIB, READ | WRITE, PRIVATE | ANONYMOUS | HUGE)


@attack("stage two", "EPERM", control=True)
def old_shared_memory(bait: Bait) -> Outcome:
    """Asks for the test's own segment by its key."""
    return try_call("shmget", bait["shm_key"], 0, 0)


@attack("stage two", "EPERM", control=True)
def old_semaphores(bait: Bait) -> Outcome:
    return try_call("semget", bait["shm_key"], 0, 0)


@attack("stage two", "EPERM", control=False)
def message_queue(bait: Bait) -> Outcome:
    return try_call("mq_open", b"gg\0", os.O_RDONLY, 0, NULL)


@attack("stage two", "EPERM", control=True)
def writable_code(bait: Bait) -> Outcome:
    return _try_map(4096, READ | WRITE | EXECUTE, PRIVATE | ANONYMOUS)


@attack("stage two", "EPERM", control=True)
def data_made_code(bait: Bait) -> Outcome:
    address, number = _map(4096, READ | WRITE, PRIVATE | ANONYMOUS)
    if address < 0:
        return refused(number)
    return try_call("mprotect", address, 4096, READ | EXECUTE)


@attack("stage two", "EPERM", control=True)
def data_made_code_with_a_key(bait: Bait) -> Outcome:
    address, _ = _map(4096, READ | WRITE, PRIVATE | ANONYMOUS)
    return try_call("pkey_mprotect", address, 4096, READ | EXECUTE, -1)


@attack("stage two", "EPERM", control=True)
def arena_run_as_code(bait: Bait) -> Outcome:
    return _try_map(4096, READ | EXECUTE, SHARED, bait["input_fd"])


@attack("stage two", "OSError", control=True)
def load_a_library(bait: Bait) -> Outcome:
    try:
        ctypes.CDLL(bait["library"])
    except OSError:
        return Outcome("refused", "OSError")
    return opened()


@attack("stage two", "EPERM", control=True)
def asynchronous_files(bait: Bait) -> Outcome:
    return try_call("io_setup", 1, ctypes.byref(ctypes.c_ulong(0)))


@attack("stage two", "EPERM", control=True)
def remap_pages(bait: Bait) -> Outcome:
    return try_call("mlock2", 0, 0, 0)
