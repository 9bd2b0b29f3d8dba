"""Attacks that aim at becoming somebody, at priority, and at the limits."""

from __future__ import annotations

import ctypes
import resource

from .calls import NULL, call, try_call
from .table import Bait, Outcome, attack, opened, read, refused


def _call(
    name: str, call_name: str, *arguments: object, control: bool = False, answer: str = "EPERM"
) -> None:
    def run(bait: Bait) -> Outcome:
        return try_call(call_name, *arguments)

    run.__name__ = name
    attack("seccomp", answer, control=control)(run)


_call("become_root", "setuid", 0)
_call("become_root_three_ways", "setresuid", 0, 0, 0)
_call("become_root_group", "setresgid", 0, 0, 0)
_call("give_up_groups", "setgroups", 0, NULL)
_call("join_root_group", "setgid", 0)
_call("new_session", "setsid")
_call("new_process_group", "setpgid", 0, 0, control=True)
_call("higher_priority", "setpriority", 0, 0, -5)
_call("higher_priority_of_disk", "ioprio_set", 1, 0, 0x2000)
_call("deadline_scheduling", "sched_setattr", 0, NULL, 0)
_call("pin_to_a_processor", "sched_setaffinity", 0, 8, (ctypes.c_ulong * 1)(1), control=True)
_call("lock_all_memory", "mlockall", 1)
_call("memory_policy", "set_mempolicy", 0, NULL, 0, control=True)
_call("local_thread_area", "set_thread_area", NULL)


@attack("seccomp", "EPERM")
def real_time_scheduling(bait: Bait) -> Outcome:
    return try_call("sched_setscheduler", 0, 1, ctypes.byref(ctypes.c_int(1)))


@attack("seccomp", "EPERM", control=True)
def capabilities_by_call(bait: Bait) -> Outcome:
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    return try_call("capset", header, (ctypes.c_uint32 * 6)())


@attack("seccomp", "EPERM")
def raise_a_limit(bait: Bait) -> Outcome:
    wished = (ctypes.c_ulong * 2)(2**40, 2**40)
    return try_call("setrlimit", int(resource.RLIMIT_DATA), wished)


@attack("seccomp", "EPERM", control=True)
def change_a_limit_the_new_way(bait: Bait) -> Outcome:
    """To what it is: changes nothing, and yet must be refused."""
    now = (ctypes.c_ulong * 2)()
    call("prlimit64", 0, int(resource.RLIMIT_DATA), NULL, now)
    return try_call("prlimit64", 0, int(resource.RLIMIT_DATA), now, NULL)


def _prctl(name: str, option: int, *arguments: int, control: bool = False) -> None:
    def run(bait: Bait) -> Outcome:
        return try_call("prctl", option, *arguments)

    run.__name__ = name
    attack("stage two", "EPERM", control=control)(run)


_prctl("hide_from_the_parent", 4, 0)
_prctl("adopt_orphans", 36, 1, control=True)
_prctl("let_others_trace", 0x59616D61, 2**64 - 1)
_prctl("ambient_capability", 47, 2, 21, 0, 0)
_prctl("secure_bits", 28, 0)
_prctl("move_own_memory_map", 35, 1, 0, 0, 0)
_prctl("outlive_the_parent", 1, 0, control=True)
_prctl("speculation_control", 53, 0, 2, 0, 0)


@attack("stage two", "EPERM", control=True)
def looser_filter_then_socket(bait: Bait) -> Outcome:
    """A filter that allows everything; the kernel would keep the stricter answer anyway."""
    allow = ctypes.create_string_buffer(b"\x06\0\0\0\0\0\xff\x7f", 8)
    program = (ctypes.c_uint64 * 2)(1, ctypes.addressof(allow))
    call("prctl", 38, 1, 0, 0, 0)
    result, number = call("seccomp", 1, 0, program)
    if result < 0:
        return refused(number)
    return try_call("socket", 1, 1, 0)


@attack("stage two", "EPERM", control=True)
def ask_landlock_for_more(bait: Bait) -> Outcome:
    return try_call("landlock_create_ruleset", NULL, 0, 1)


@attack("-", expected="read")
def own_dumpable_flag(bait: Bait) -> Outcome:
    result, number = call("prctl", 3, 0, 0, 0, 0)
    return refused(number) if result < 0 else read(str(result))


@attack("namespaces", "nobody", control=True)
def learn_user_and_host(bait: Bait) -> Outcome:
    result, _ = call("getuid")
    buffer = ctypes.create_string_buffer(65 * 6)
    call("uname", buffer)
    host = buffer.raw[65:130].rstrip(b"\0").decode()
    if (result, host) == (65534, "engine"):
        return Outcome("refused", "nobody")
    return opened(f"{result} {host}")
