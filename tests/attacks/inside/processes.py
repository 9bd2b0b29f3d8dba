"""Attacks that aim at other processes, or at having some. Targets are the test's own bait."""

from __future__ import annotations

import ctypes
import os
import threading
import time

from .calls import NULL, call, try_call
from .table import Bait, Outcome, attack, bounded, opened, refused

SIGCONT = 18
NEW_USER, NEW_TIME = 0x10000000, 0x80
VM, THREAD, SIGHAND = 0x100, 0x10000, 0x800


@attack("stage two", "EPERM", control=True)
def signal_to_bait(bait: Bait) -> Outcome:
    return try_call("kill", bait["pid"], SIGCONT)


@attack("stage two", "EPERM")
def signal_to_all(bait: Bait) -> Outcome:
    return try_call("kill", -1, 0)


@attack("stage two", "EPERM")
def signal_to_process_1(bait: Bait) -> Outcome:
    return try_call("tgkill", 1, 1, SIGCONT)


@attack("stage two", "EPERM", control=True)
def signal_to_thread_of_bait(bait: Bait) -> Outcome:
    return try_call("tgkill", bait["pid"], bait["pid"], SIGCONT)


@attack("stage two", "EPERM", control=True)
def signal_the_oldest_way(bait: Bait) -> Outcome:
    return try_call("tkill", bait["pid"], SIGCONT)


@attack("stage two", "EPERM", control=True)
def signal_with_a_value(bait: Bait) -> Outcome:
    information = (ctypes.c_int * 32)(SIGCONT, 0, -1)
    return try_call("rt_sigqueueinfo", bait["pid"], SIGCONT, information)


@attack("stage two", "EPERM", control=True)
def signal_to_a_thread_with_a_value(bait: Bait) -> Outcome:
    information = (ctypes.c_int * 32)(SIGCONT, 0, -1)
    return try_call("rt_tgsigqueueinfo", bait["pid"], bait["pid"], SIGCONT, information)


@attack("stage two", "EPERM", control=True)
def handle_of_bait(bait: Bait) -> Outcome:
    return try_call("pidfd_open", bait["pid"], 0)


@attack("stage two", "EPERM")
def signal_by_handle(bait: Bait) -> Outcome:
    return try_call("pidfd_send_signal", -1, SIGCONT, NULL, 0)


@attack("stage two", "EPERM", control=True)
def signal_from_a_descriptor(bait: Bait) -> Outcome:
    """The kernel signals the owner of a descriptor: F_SETOWN names any process."""
    return try_call("fcntl", bait["channel"], 8, bait["pid"])


@attack("stage two", "EPERM", control=True)
def copy_a_descriptor(bait: Bait) -> Outcome:
    return try_call("dup", bait["channel"])


@attack("stage two", "EPERM", control=True)
def copy_a_descriptor_by_fcntl(bait: Bait) -> Outcome:
    return try_call("fcntl", bait["channel"], 0, 0)


@attack("stage two", "EPERM", control=True)
def make_a_pipe(bait: Bait) -> Outcome:
    return try_call("pipe2", (ctypes.c_int * 2)(), 0)


def _child(result: int) -> Outcome:
    if result == 0:
        os._exit(0)
    os.waitpid(result, 0)
    return opened(result)


@attack("seccomp", "EPERM", control=True)
def fork(bait: Bait) -> Outcome:
    result, number = call("fork")
    return refused(number) if result < 0 else _child(result)


@attack("seccomp", "EPERM", control=True)
def fork_by_the_library(bait: Bait) -> Outcome:
    try:
        result = os.fork()
    except OSError as error:
        return refused(error.errno or 0)
    return _child(result)


@attack("seccomp", "EPERM", control=True)
def fork_by_clone(bait: Bait) -> Outcome:
    result, number = call("clone", 17, 0, 0, 0, 0)
    return refused(number) if result < 0 else _child(result)


@attack("seccomp", "EPERM")
def fork_that_shares_memory(bait: Bait) -> Outcome:
    """Without a stack the kernel would refuse it by itself; the filter does so first."""
    return try_call("clone", VM | SIGHAND, 0, 0, 0, 0)


@attack("seccomp", "EPERM")
def vfork(bait: Bait) -> Outcome:
    """As clone with the flags of vfork, and SIGHAND without VM, which the kernel refuses."""
    return try_call("clone", 0x4000 | SIGHAND | 17, 0, 0, 0, 0)


@attack("seccomp", "EPERM", control=False)
def clone_into_a_user_namespace(bait: Bait) -> Outcome:
    result, number = call("clone", NEW_USER | 17, 0, 0, 0, 0)
    return refused(number) if result < 0 else _child(result)


@attack("seccomp", "EPERM")
def thread_in_a_new_namespace(bait: Bait) -> Outcome:
    return try_call("clone", VM | THREAD | SIGHAND | NEW_USER, 0, 0, 0, 0)


@attack("seccomp", "ENOSYS", control=True)
def clone_by_the_new_call(bait: Bait) -> Outcome:
    arguments = (ctypes.c_uint64 * 8)(0, 0, 0, 0, 17, 0, 0, 0)
    result, number = call("clone3", arguments, 64)
    return refused(number) if result < 0 else _child(result)


@attack("seccomp", "ENOSYS")
def clone_by_the_new_call_into_namespaces(bait: Bait) -> Outcome:
    arguments = (ctypes.c_uint64 * 8)(NEW_USER | NEW_TIME, 0, 0, 0, 17, 0, 0, 0)
    result, number = call("clone3", arguments, 64)
    return refused(number) if result < 0 else _child(result)


@attack("stage two", "EPERM")
def run_a_program(bait: Bait) -> Outcome:
    return try_call("execve", bait["python"].encode(), NULL, NULL)


@attack("stage two", "EPERM")
def run_a_program_by_descriptor(bait: Bait) -> Outcome:
    return try_call("execveat", bait["output_fd"], b"\0", NULL, NULL, 0x1000)


@attack("stage two", "EPERM")
def run_a_setuid_program(bait: Bait) -> Outcome:
    return try_call("execve", b"/usr/bin/passwd", NULL, NULL)


@attack("stage two", "EPERM", control=True)
def wait_for_others(bait: Bait) -> Outcome:
    result, number = call("wait4", -1, NULL, 1, NULL)
    return refused(number) if result < 0 and number != 10 else opened()


@attack("limits", "RuntimeError", expected="bounded", limit=1024, alone=True)
def thread_bomb(bait: Bait) -> Outcome:
    release = threading.Event()
    threading.stack_size(32 * 1024)
    started: list[threading.Thread] = []
    try:
        while len(started) < 3000:
            thread = threading.Thread(target=release.wait, daemon=True)
            thread.start()
            started.append(thread)
    except (RuntimeError, MemoryError) as error:
        return bounded(len(started), type(error).__name__)
    finally:
        release.set()
    return opened(len(started))


@attack("limits", "RuntimeError", "MemoryError", expected="bounded", limit=128, alone=True)
def thread_bomb_of_full_stacks(bait: Bait) -> Outcome:
    release = threading.Event()
    threading.stack_size(8 * 1024 * 1024)
    started = 0
    try:
        while started < 2000:
            threading.Thread(target=release.wait, daemon=True).start()
            started += 1
    except (RuntimeError, MemoryError) as error:
        return bounded(started, type(error).__name__)
    finally:
        release.set()
        time.sleep(0)
    return opened(started)
