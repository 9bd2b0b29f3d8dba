"""The two seccomp policies: what a starting engine may call, and what a working one may.

Owns: the lists and the rules, each with its reason. Must not: assemble or load anything.

Stage 1 is loaded by bubblewrap before the interpreter starts, stage 2 by the engine after its
warm-up and before the first byte of a task. The kernel keeps the strictest answer of both.
"""

from __future__ import annotations

import errno
from typing import Final

from app.sandbox.seccomp import Condition, Policy, Rule, errno_action
from app.sandbox.spec import CardPolicy

__all__ = ["stage_one", "stage_two"]

_REFUSED: Final = errno_action(errno.EPERM)

_STAGE_ONE: Final = """
read write readv writev pread64 pwrite64 preadv lseek open openat close close_range fstat stat
lstat newfstatat statx access faccessat faccessat2 readlink readlinkat getdents64 getcwd fcntl dup
dup2 dup3 pipe pipe2 fstatfs statfs ftruncate poll ppoll select pselect6 epoll_create1 epoll_ctl
epoll_wait epoll_pwait eventfd2 munmap mprotect mremap madvise brk mincore msync mlock
munlock membarrier memfd_create rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending
rt_sigsuspend rt_sigtimedwait sigaltstack restart_syscall tgkill futex futex_waitv set_tid_address
set_robust_list get_robust_list rseq gettid getpid getppid exit exit_group sched_yield
sched_getaffinity sched_setaffinity sched_getscheduler sched_getparam sched_get_priority_max
sched_get_priority_min getcpu getpriority getuid geteuid getgid getegid getresuid getresgid
getpgrp umask clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time getitimer
uname sysinfo getrusage getrlimit getrandom arch_prctl get_mempolicy set_mempolicy mbind sendmsg
recvmsg sendto recvfrom execve wait4 seccomp landlock_create_ruleset landlock_add_rule
landlock_restrict_self
"""

# No library of ours calls these. A process that does is not ours any more: it dies loudly.
_KILLED: Final = """
ptrace process_vm_readv process_vm_writev bpf mount umount2 open_tree move_mount fsopen fsconfig
fsmount fspick mount_setattr pivot_root chroot setns unshare keyctl add_key request_key
perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register init_module
finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff name_to_handle_at
open_by_handle_at fanotify_init fanotify_mark personality modify_ldt iopl ioperm quotactl
quotactl_fd acct syslog sethostname setdomainname settimeofday clock_settime clock_adjtime
pidfd_getfd kcmp process_madvise move_pages migrate_pages vmsplice
"""

_STAGE_TWO: Final = """
read write readv writev pread64 pwrite64 preadv lseek close fstat newfstatat poll ppoll select
pselect6 epoll_create1 epoll_ctl epoll_wait epoll_pwait eventfd2 munmap mremap madvise brk mincore
membarrier rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait
sigaltstack restart_syscall futex futex_waitv set_robust_list get_robust_list rseq gettid getpid
getppid exit exit_group sched_yield getcpu getuid geteuid getgid getegid getresuid getresgid
getpriority clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time uname sysinfo
getrusage getrlimit getrandom sendmsg recvmsg sendto recvfrom
"""

_CLONE_VM, _CLONE_THREAD = 0x100, 0x10000
_CLONE_NEW = 0x7E020000  # NEWNS NEWCGROUP NEWUTS NEWIPC NEWUSER NEWPID NEWNET
_PROT_WRITE, _PROT_EXEC, _PROT_GROWS = 2, 4, 0x03000000
_MAP_SHARED, _MAP_ANONYMOUS = 0x01, 0x20
_MAP_GROWSDOWN, _MAP_HUGETLB = 0x0100, 0x40000
_WRITING = 0x1 | 0x2 | 0x40 | 0x200 | 0x400 | 0x400000  # WRONLY RDWR CREAT TRUNC APPEND TMPFILE
_MAKING = 0x40 | 0x200 | 0x400 | 0x400000  # CREAT TRUNC APPEND TMPFILE
_WORD = 2**32 - 1

_PRCTL_STARTING: Final = (
    1,  # PR_SET_PDEATHSIG
    3,  # PR_GET_DUMPABLE
    15,  # PR_SET_NAME
    16,  # PR_GET_NAME
    21,  # PR_GET_SECCOMP
    38,  # PR_SET_NO_NEW_PRIVS
    39,  # PR_GET_NO_NEW_PRIVS
    0x53564D41,  # PR_SET_VMA: names of anonymous memory
)
_PRCTL_WORKING: Final = (3, 15, 16, 21, 39, 0x53564D41)
_IOCTL: Final = (
    0x5401,  # TCGETS: is it a terminal?
    0x5451,  # FIOCLEX
    0x541B,  # FIONREAD
    0x5421,  # FIONBIO
)
_TYPE = 0xFF00  # the family within a command's number (Linux `ioctl.h`)
_CARD_IOCTL: Final[dict[CardPolicy, tuple[Condition, ...]]] = {
    "none": (),
    "software": (),
    "drm": (Condition(1, _WORD & _TYPE, ord("d") << 8),),
    "nvidia": (
        Condition(1, _WORD & _TYPE, ord("F") << 8),
        Condition(1, _WORD & ~0xFF, 0),  # UVM's are bare numbers
        Condition(1, _WORD & ~0x3, 0x30000000),  # UVM_INITIALIZE and its end
        Condition(1, _WORD & _TYPE, ord("d") << 8),  # its render node
    ),
}
_MAKES_CODE: Final[tuple[CardPolicy, ...]] = ("software",)
"""Drivers that compute on the processor compile kernels to machine code while working."""
_FCNTL: Final = (1, 2, 3, 4)  # GETFD SETFD GETFL SETFL; no duplicates, locks, leases, seals


def _any_of(argument: int, values: tuple[int, ...]) -> Rule:
    return Rule(tuple((Condition(argument, _WORD, value),) for value in values), _REFUSED)


_THREAD_ONLY = Rule(
    (
        (
            Condition(
                0,
                _CLONE_VM | _CLONE_THREAD | _CLONE_NEW,
                _CLONE_VM | _CLONE_THREAD,
            ),
        ),
    ),
    _REFUSED,
)
# glibc falls back to clone, whose flags a filter can see.
_NOT_THERE = Rule((), errno_action(errno.ENOSYS))
_NO_FAMILY = Rule((), errno_action(errno.EAFNOSUPPORT))
# The pointer to new limits must be null in all its 64 bits.
_LIMITS_READ_ONLY = Rule(((Condition(2, 2**64 - 1, 0),),), _REFUSED)
# Memory that grows downward or comes from the pool of huge pages is not counted by RLIMIT_DATA.
_COUNTED_MEMORY = Rule(((Condition(3, _MAP_GROWSDOWN | _MAP_HUGETLB, 0),),), _REFUSED)


def _mmap_working() -> Rule:
    counted = _MAP_GROWSDOWN | _MAP_HUGETLB
    no_code = Condition(2, _PROT_EXEC, 0)
    return Rule(
        (
            (no_code, Condition(3, counted | _MAP_SHARED, 0)),
            (no_code, Condition(3, counted | _MAP_ANONYMOUS, 0)),
        ),
        _REFUSED,
    )


def _protect_working(policy: CardPolicy) -> Rule:
    no_code = (Condition(2, _PROT_EXEC | _PROT_GROWS, 0),)
    if policy not in _MAKES_CODE:
        return Rule((no_code,), _REFUSED)
    # Written first, closed for writing, then run; never both, and no library comes this way.
    return Rule((no_code, (Condition(2, _PROT_WRITE | _PROT_GROWS, 0),)), _REFUSED)


def _open_working(policy: CardPolicy) -> Rule:
    # NVIDIA's driver opens its nodes anew for each mapping; Landlock says which files those are.
    writing = _MAKING if policy == "nvidia" else _WRITING
    return Rule(((Condition(2, writing, 0),),), _REFUSED)


def _ioctl(policy: CardPolicy) -> Rule:
    """Few commands on any file, and those of the card's one family."""
    family = tuple((condition,) for condition in _CARD_IOCTL[policy])
    return Rule((*_any_of(1, _IOCTL).alternatives, *family), _REFUSED)


def stage_one(policy: CardPolicy = "none") -> Policy:
    """The start: enough to load an interpreter, NumPy, a card's driver and the walls themselves."""
    return Policy(
        allowed=frozenset(_STAGE_ONE.split()),
        ruled={
            "clone": _THREAD_ONLY,
            "clone3": _NOT_THERE,
            "socket": _NO_FAMILY,
            "prctl": _any_of(0, _PRCTL_STARTING),
            "prlimit64": _LIMITS_READ_ONLY,
            "ioctl": _ioctl(policy),
            "mmap": _COUNTED_MEMORY,
        },
        killed=frozenset(_KILLED.split()),
        otherwise=_REFUSED,
    )


def stage_two(own_pid: int, policy: CardPolicy = "none") -> Policy:
    """The work: no program, no new file, no shared or executable memory, no second descriptor.

    Args:
        own_pid: the engine's process id as it sees it itself, the only target of its signals.
        policy: what its card's driver is given beside; executable memory for one that makes code.
    """
    return Policy(
        allowed=frozenset(_STAGE_TWO.split()),
        ruled={
            "clone": _THREAD_ONLY,
            "clone3": _NOT_THERE,
            "openat": _open_working(policy),
            "mmap": _mmap_working(),
            "mprotect": _protect_working(policy),
            "fcntl": _any_of(1, _FCNTL),
            "tgkill": Rule(((Condition(0, _WORD, own_pid),),), _REFUSED),
            "prctl": _any_of(0, _PRCTL_WORKING),
            "prlimit64": _LIMITS_READ_ONLY,
            "ioctl": _ioctl(policy),
        },
        killed=frozenset(_KILLED.split()),
        otherwise=_REFUSED,
    )
