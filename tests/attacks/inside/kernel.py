"""Calls that no library of ours makes. Each must end the process with SIGSYS.

The arguments are chosen so that a kernel that carries the call out changes nothing: no page, no
module, no target, or values that it refuses by itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from .calls import NULL, call, raw, try_call
from .table import Bait, Outcome, killer, opened, refused

__all__ = ["GATES"]

GATES: dict[str, tuple[Callable[[], int], object]] = {}
"""`int80`: made by the entry program while code could still be made, with the page it lies in."""

BLOCK = ctypes.create_string_buffer(256)
EMPTY = b"\0"
NOWHERE = b"/gg-nowhere\0"


def _call(name: str, *arguments: object, control: bool = False, title: str | None = None) -> None:
    def run(bait: Bait) -> Outcome:
        return try_call(name, *arguments)

    killer(title or name, run, control)


def _on_process_1(name: str, *arguments: object) -> None:
    _call(name, 1, *arguments)


_call("ptrace", 0, 0, 0, 0, title="ptrace_ask_to_be_traced")
_call("ptrace", 0x4206, 1, 0, 0, title="ptrace_process_1")
_on_process_1("process_vm_readv", NULL, 0, NULL, 0, 0)
_on_process_1("process_vm_writev", NULL, 0, NULL, 0, 0)
_call("bpf", 0, NULL, 0)
_call("mount", NOWHERE, NOWHERE, NOWHERE, 0, NULL)
_call("umount2", NOWHERE, 0)
_call("open_tree", -1, NOWHERE, 0)
_call("move_mount", -1, NOWHERE, -1, NOWHERE, 0)
_call("fsopen", NOWHERE, 0)
_call("fsconfig", -1, 0, NULL, NULL, 0)
_call("fsmount", -1, 0, 0)
_call("fspick", -1, NOWHERE, 0)
_call("mount_setattr", -1, NOWHERE, 0, NULL, 0)
_call("pivot_root", NOWHERE, NOWHERE)
_call("chroot", NOWHERE)
_call("setns", -1, 0)
_call("unshare", 0x10000000, title="unshare_user")
_call("unshare", 0x40000000, title="unshare_network")
_call("unshare", 0x00020000, title="unshare_mounts")
_call("unshare", 0, title="unshare_nothing", control=True)
_call("keyctl", 0, -3, 0, 0, 0, control=True)
_call("add_key", EMPTY, EMPTY, NULL, 0, -3)
_call("request_key", EMPTY, EMPTY, NULL, -3)
_call("perf_event_open", NULL, 0, -1, -1, 0)
_call("userfaultfd", 1)
_call("io_uring_setup", 0, BLOCK)
_call("io_uring_enter", -1, 0, 0, 0, NULL, 0)
_call("io_uring_register", -1, 0, NULL, 0)
_call("init_module", NULL, 0, EMPTY)
_call("finit_module", -1, EMPTY, 0)
_call("delete_module", NOWHERE, 0)
_call("kexec_load", 0, 0, NULL, 0xFFFF)
_call("kexec_file_load", -1, -1, 0, NULL, 0xFFFF)
_call("reboot", 0, 0, 0, NULL)
_call("swapon", NOWHERE, 0)
_call("swapoff", NOWHERE)
_call("name_to_handle_at", -100, b"/\0", BLOCK, ctypes.byref(ctypes.c_int()), 0)
_call("open_by_handle_at", -1, BLOCK, 0)
_call("fanotify_init", 0, 0)
_call("fanotify_mark", -1, 0, 0, 0, NULL)
_call("personality", 0xFFFFFFFF, control=True)
_call("modify_ldt", 0, BLOCK, 16, control=True)
_call("iopl", 0)
_call("ioperm", 0x80, 1, 0)
_call("quotactl", 0x80000100, NULL, 0, NULL)
_call("quotactl_fd", -1, 0, 0, NULL)
_call("acct", NOWHERE)
_call("syslog", 10, NULL, 0)
_call("sethostname", EMPTY, -1)
_call("setdomainname", EMPTY, -1)
_call("settimeofday", NULL, NULL)
_call("clock_settime", 0, NULL)
_call("clock_adjtime", 0, NULL)
_call("pidfd_getfd", -1, 0, 0)
_call("kcmp", 1, 1, 0, 0, 0)
_call("process_madvise", -1, NULL, 0, 0, 0)
_call("move_pages", 0, 0, NULL, NULL, NULL, 0, control=True)
_call("migrate_pages", 0, 1, BLOCK, BLOCK)
_call("vmsplice", -1, NULL, 0, 0)


def _int80(bait: Bait) -> Outcome:
    return opened(GATES["int80"][0]())


killer("call_by_the_32_bit_gate", _int80, control=True)


def _x32(bait: Bait) -> Outcome:
    result, number = raw(0x40000000 | 39)
    return refused(number) if result < 0 else opened(result)


killer("call_of_the_x32_table", _x32)


def _in_a_thread(bait: Bait) -> Outcome:
    """A thread that was there before the second filter must be under it, and takes all along."""
    import threading

    thread = threading.Thread(target=lambda: call("chroot", NOWHERE))
    thread.start()
    thread.join()
    return opened()


killer("from_another_thread", _in_a_thread)
