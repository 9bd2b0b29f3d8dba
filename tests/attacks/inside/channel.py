"""Attacks on the parent through what the engine legitimately holds: the channel and the arenas."""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from .calls import NULL, call, try_call
from .table import Bait, Outcome, attack, bounded, opened, refused

READ, WRITE, SHARED = 1, 2, 1
DONT_WAIT = 0x40


def _message(channel: int, data: bytes, control: bytes = b"", flags: int = 0) -> tuple[int, int]:
    payload = ctypes.create_string_buffer(data, max(1, len(data)))
    vector = (ctypes.c_uint64 * 2)(ctypes.addressof(payload), len(data))
    extra = ctypes.create_string_buffer(control, max(1, len(control)))
    header = (ctypes.c_uint64 * 7)(
        0, 0, ctypes.addressof(vector), 1, ctypes.addressof(extra) if control else 0, len(control)
    )
    return call("sendmsg", channel, header, flags)


@attack("limits", expected="bounded", limit=100)
def hundred_descriptors(bait: Bait) -> Outcome:
    """The parent reads without room for descriptors, so the kernel drops them; the test counts."""
    many = struct.pack("<QII", 16 + 400, 1, 1) + struct.pack("<100i", *[bait["channel"]] * 100)
    sent, number = _message(bait["channel"], b'{"kind":"hundred"}', many)
    return refused(number) if sent < 0 else bounded(100)


@attack("namespaces", "EPERM")
def credentials_of_somebody(bait: Bait) -> Outcome:
    """SCM_CREDENTIALS that name process 1."""
    lie = (
        struct.pack("<QII", 16 + 12, 1, 2)
        + struct.pack("<iII", 1, os.getuid(), os.getgid())
        + bytes(4)
    )
    sent, number = _message(bait["channel"], b"lie", lie)
    return refused(number) if sent < 0 else opened()


@attack("limits", "EMSGSIZE")
def message_of_a_mebibyte(bait: Bait) -> Outcome:
    sent, number = _message(bait["channel"], bytes(1024 * 1024), flags=DONT_WAIT)
    return refused(number) if sent < 0 else opened()


@attack("limits", "EAGAIN", expected="bounded", limit=999_999, alone=True)
def flood_of_messages(bait: Bait) -> Outcome:
    """The kernel holds some 90, then the engine waits for itself. How many are read meanwhile, and
    thrown away, hangs on how busy the machine is."""
    for sent in range(1_000_000):
        result, number = _message(bait["channel"], bytes(1000), flags=DONT_WAIT)
        if result < 0:
            drained = bounded(sent, errno.errorcode[number])
            return drained
    return opened()


@attack("seals", "EPERM")
def shrink_the_output_arena(bait: Bait) -> Outcome:
    return try_call("ftruncate", bait["output_fd"], 0)


@attack("seals", "EPERM")
def grow_the_output_arena(bait: Bait) -> Outcome:
    return try_call("ftruncate", bait["output_fd"], 2**40)


@attack("stage two", "EPERM")
def punch_a_hole(bait: Bait) -> Outcome:
    return try_call("fallocate", bait["output_fd"], 3, 0, 4096)


@attack("seals", "EPERM")
def write_over_the_end(bait: Bait) -> Outcome:
    size = os.fstat(bait["output_fd"]).st_size
    return try_call("pwrite64", bait["output_fd"], b"x", 1, size)


@attack("seals", "EPERM")
def write_the_inputs(bait: Bait) -> Outcome:
    return try_call("pwrite64", bait["input_fd"], b"x", 1, 0)


@attack("seals", "EPERM")
def map_the_inputs_for_writing(bait: Bait) -> Outcome:
    result, number = call("mmap", 0, 4096, READ | WRITE, SHARED, bait["input_fd"], 0)
    return refused(number) if result < 0 else opened()


@attack("seals", "EPERM", "EACCES")
def inputs_made_writable_later(bait: Bait) -> Outcome:
    address, number = call("mmap", 0, 4096, READ, SHARED, bait["input_fd"], 0)
    if address < 0:
        return refused(number)
    return try_call("mprotect", address, 4096, READ | WRITE)


@attack("stage two", "EPERM")
def reopen_the_inputs_for_writing(bait: Bait) -> Outcome:
    try:
        os.close(os.open(f"/proc/self/fd/{bait['input_fd']}", os.O_RDWR))
    except OSError as error:
        return refused(error.errno or 0)
    return opened()


@attack("stage two", "EPERM")
def change_the_inputs_through_a_second_opening(bait: Bait) -> Outcome:
    """Where a driver must open its nodes anew, the filter lets this through; the seal does not."""
    try:
        second = os.open(f"/proc/self/fd/{bait['input_fd']}", os.O_RDWR)
        try:
            os.pwrite(second, b"x", 0)
        finally:
            os.close(second)
    except OSError as error:
        return refused(error.errno or 0)
    return opened()


@attack("stage two", "EPERM")
def seal_the_outputs_against_the_parent(bait: Bait) -> Outcome:
    return try_call("fcntl", bait["output_fd"], 1033, 0x10)


@attack("stage two", "EPERM")
def lease_on_the_outputs(bait: Bait) -> Outcome:
    return try_call("fcntl", bait["output_fd"], 1024, 0)


@attack("stage two", "EPERM")
def change_mode_of_the_outputs(bait: Bait) -> Outcome:
    return try_call("fchmod", bait["output_fd"], 0)


@attack("seccomp", "EPERM", control=True)
def type_into_the_terminal(bait: Bait) -> Outcome:
    """TIOCSTI; without a terminal the kernel says ENOTTY, the filter EPERM before it."""
    result, number = call("ioctl", 0, 0x5412, b"x")
    return (
        opened("ENOTTY") if number == errno.ENOTTY else refused(number) if result < 0 else opened()
    )


@attack("seccomp", "EPERM", control=True)
def paste_into_the_console(bait: Bait) -> Outcome:
    result, number = call("ioctl", 0, 0x541C, b"\x03")
    return (
        opened("ENOTTY") if number == errno.ENOTTY else refused(number) if result < 0 else opened()
    )


@attack("seccomp", "EPERM", control=True)
def command_to_a_device(bait: Bait) -> Outcome:
    """A number of the NVIDIA driver, which an engine on the processor has no business with."""
    result, number = call("ioctl", 0, 0xC020462A, ctypes.create_string_buffer(64))
    return (
        opened("ENOTTY") if number == errno.ENOTTY else refused(number) if result < 0 else opened()
    )


@attack("seccomp", "EPERM")
def splice_between_descriptors(bait: Bait) -> Outcome:
    return try_call("splice", bait["output_fd"], NULL, bait["channel"], NULL, 1, 0)


@attack("seccomp", "EPERM")
def send_a_file_by_the_kernel(bait: Bait) -> Outcome:
    return try_call("sendfile", bait["channel"], bait["input_fd"], NULL, 0)


@attack("seccomp", "EPERM")
def flush_all_disks(bait: Bait) -> Outcome:
    return try_call("sync")
