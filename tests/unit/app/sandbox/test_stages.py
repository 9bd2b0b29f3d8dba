"""The two policies, call by call and rule by rule."""

from __future__ import annotations

import errno

import pytest

from app.sandbox.seccomp import ALLOW, KILL, compile_policy, errno_action
from app.sandbox.spec import CardPolicy
from app.sandbox.stages import stage_one, stage_two
from app.sandbox.syscalls import NUMBERS

from .bpf import run

PID = 2
ONE = compile_policy(stage_one())
TWO = compile_policy(stage_two(PID))
PROGRAMS = {"one": ONE, "two": TWO}
REFUSED = errno_action(errno.EPERM)

VM_THREAD = 0x100 | 0x10000


def _verdict(program: bytes, name: str, *arguments: int) -> int:
    return run(program, NUMBERS[name], arguments)


def test_sizes_are_within_what_was_decided() -> None:
    one, two = stage_one(), stage_two(PID)
    assert len(one.allowed) + len(one.ruled) == 123
    assert len(two.allowed) + len(two.ruled) <= 80
    assert len(one.killed) == len(two.killed) == 56
    assert len(ONE) // 8 <= 400
    assert len(TWO) // 8 <= 400


def test_second_stage_adds_nothing_to_the_first() -> None:
    one, two = stage_one(), stage_two(PID)
    assert two.allowed <= one.allowed
    assert set(two.ruled) <= one.allowed | set(one.ruled)


@pytest.mark.parametrize("stage", ["one", "two"])
def test_every_call_gets_the_answer_of_its_group(stage: str) -> None:
    policy = stage_one() if stage == "one" else stage_two(PID)
    names = {number: name for name, number in NUMBERS.items()}
    for number in range(600):
        name = names.get(number, "")
        verdict = run(PROGRAMS[stage], number)
        if name in policy.allowed:
            assert verdict == ALLOW, name
        elif name in policy.killed:
            assert verdict == KILL, name
        elif name not in policy.ruled:
            assert verdict == REFUSED, name


# Nothing that makes a process, a program, a socket, or a name in a file system.
NEVER = """
fork vfork execveat socketpair connect bind listen accept kill tkill pidfd_open symlink link mknod
openat2 memfd_secret setuid setresuid setgroups setrlimit setpriority sched_setscheduler shmget
inotify_init1 io_setup pkey_mprotect process_vm_readv
"""
NEVER_WORKING = """
execve memfd_create ftruncate getdents64 readlink stat lstat open pipe pipe2 dup dup2 dup3
sched_setaffinity get_mempolicy set_mempolicy mbind mlock seccomp landlock_restrict_self wait4
arch_prctl umask socket close_range
"""


def test_never_allowed() -> None:
    for program in (ONE, TWO):
        assert [name for name in NEVER.split() if _verdict(program, name) == ALLOW] == []


def test_not_allowed_while_working() -> None:
    assert [name for name in NEVER_WORKING.split() if _verdict(TWO, name) != REFUSED] == []


@pytest.mark.parametrize("program", [ONE, TWO])
@pytest.mark.parametrize(
    ("flags", "verdict"),
    [
        (VM_THREAD, ALLOW),
        (VM_THREAD | 0x3D0F00, ALLOW),  # what glibc sets for a thread
        (17, REFUSED),  # fork
        (0x100, REFUSED),
        (0x10000, REFUSED),
        (0x4111, REFUSED),  # vfork
        *((VM_THREAD | 1 << bit, REFUSED) for bit in (17, 25, 26, 27, 28, 29, 30)),
    ],
)
def test_clone_makes_threads_only(program: bytes, flags: int, verdict: int) -> None:
    assert _verdict(program, "clone", flags) == verdict


@pytest.mark.parametrize("program", [ONE, TWO])
def test_clone3_is_not_there(program: bytes) -> None:
    assert _verdict(program, "clone3", 2**47, 88) == errno_action(errno.ENOSYS)


def test_no_family_of_sockets_is_there() -> None:
    for family in range(46):
        assert _verdict(ONE, "socket", family, 1, 0) == errno_action(errno.EAFNOSUPPORT)


@pytest.mark.parametrize("program", [ONE, TWO])
def test_limits_are_read_only(program: bytes) -> None:
    assert _verdict(program, "prlimit64", 0, 7, 0, 2**47) == ALLOW
    assert _verdict(program, "prlimit64", 0, 7, 2**47, 0) == REFUSED
    assert _verdict(program, "prlimit64", 0, 7, 16, 0) == REFUSED


@pytest.mark.parametrize(
    ("option", "one", "two"),
    [
        (15, ALLOW, ALLOW),
        (16, ALLOW, ALLOW),
        (3, ALLOW, ALLOW),
        (0x53564D41, ALLOW, ALLOW),
        (38, ALLOW, REFUSED),
        (1, ALLOW, REFUSED),
        (4, REFUSED, REFUSED),  # dumpable
        (8, REFUSED, REFUSED),  # keep capabilities
        (35, REFUSED, REFUSED),  # memory map
        (47, REFUSED, REFUSED),  # ambient capabilities
        (0x59616D61, REFUSED, REFUSED),  # let others trace
    ],
)
def test_prctl_by_option(option: int, one: int, two: int) -> None:
    assert _verdict(ONE, "prctl", option) == one
    assert _verdict(TWO, "prctl", option) == two


@pytest.mark.parametrize("program", [ONE, TWO])
@pytest.mark.parametrize(
    ("request_number", "verdict"),
    [
        (0x5401, ALLOW),
        (0x541B, ALLOW),
        (0x5412, REFUSED),  # TIOCSTI
        (0x541C, REFUSED),  # TIOCLINUX
        (0xC020462A, REFUSED),  # the NVIDIA driver's
        (0xC0406440, REFUSED),  # a DRM driver's
        (2**32 | 0x5412, REFUSED),
    ],
)
def test_ioctl_by_request(program: bytes, request_number: int, verdict: int) -> None:
    assert _verdict(program, "ioctl", 0, request_number) == verdict


@pytest.mark.parametrize(
    ("protection", "flags", "one", "two"),
    [
        (3, 0x22, ALLOW, ALLOW),  # private
        (3, 0x01, ALLOW, ALLOW),  # the arenas
        (3, 0x20022, ALLOW, ALLOW),  # a thread's stack
        (5, 0x02, ALLOW, REFUSED),  # a library
        (7, 0x22, ALLOW, REFUSED),
        (3, 0x21, ALLOW, REFUSED),  # shared and anonymous
        (3, 0x23, ALLOW, REFUSED),  # the same, validated
        (3, 0x122, REFUSED, REFUSED),  # grows downward
        (3, 0x40022, REFUSED, REFUSED),  # huge pages
    ],
)
def test_mmap(protection: int, flags: int, one: int, two: int) -> None:
    assert _verdict(ONE, "mmap", 0, 4096, protection, flags) == one
    assert _verdict(TWO, "mmap", 0, 4096, protection, flags) == two


@pytest.mark.parametrize(("protection", "verdict"), [(0, ALLOW), (3, ALLOW), (4, REFUSED)])
def test_no_memory_becomes_code(protection: int, verdict: int) -> None:
    assert _verdict(TWO, "mprotect", 4096, 4096, protection) == verdict
    assert _verdict(ONE, "mprotect", 4096, 4096, protection) == ALLOW


@pytest.mark.parametrize(
    ("flags", "verdict"),
    [
        (0, ALLOW),
        (0x80000, ALLOW),  # O_CLOEXEC
        (0x1, REFUSED),
        (0x2, REFUSED),
        (0x40, REFUSED),
        (0x200, REFUSED),
        (0x400, REFUSED),
        (0x410000, REFUSED),  # O_TMPFILE
    ],
)
def test_files_are_opened_for_reading_only(flags: int, verdict: int) -> None:
    assert _verdict(TWO, "openat", 0, 2**47, flags) == verdict


@pytest.mark.parametrize(
    ("command", "verdict"),
    [(1, ALLOW), (4, ALLOW), (0, REFUSED), (8, REFUSED), (1024, REFUSED), (1033, REFUSED)],
)
def test_fcntl_by_command(command: int, verdict: int) -> None:
    assert _verdict(TWO, "fcntl", 3, command) == verdict


def test_signals_go_to_the_engine_itself_only() -> None:
    assert _verdict(TWO, "tgkill", PID, 7, 6) == ALLOW
    assert _verdict(TWO, "tgkill", 1, 1, 9) == REFUSED


RWX, RX, RW = 7, 5, 3
PRIVATE_MEMORY, OF_A_FILE = 0x22, 0x02


def _answers(policy: CardPolicy) -> dict[str, bool]:
    program = compile_policy(stage_two(PID, policy))

    def passes(name: str, *arguments: int) -> bool:
        return _verdict(program, name, *arguments) == ALLOW

    return {
        "write, then run": passes("mprotect", 0, 4096, RX),
        "write and run": passes("mprotect", 0, 4096, RWX),
        "map to run": passes("mmap", 0, 4096, RX, PRIVATE_MEMORY),
        "load a library": passes("mmap", 0, 4096, RX, OF_A_FILE),
        "graphics command": passes("ioctl", 3, 0xC0106400),
        "NVIDIA's command": passes("ioctl", 3, 0xC020462A),
        "UVM's command": passes("ioctl", 3, 0x30000001),
        "UVM's bare number": passes("ioctl", 3, 33),
        "a terminal's command": passes("ioctl", 3, 0x5412),
        "reopen for writing": passes("openat", 0, 0, 2),
        "create": passes("openat", 0, 0, 0x42),
    }


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        ("none", set()),
        ("software", {"write, then run"}),
        ("drm", {"graphics command"}),
        (
            "nvidia",
            {
                "graphics command",
                "NVIDIA's command",
                "UVM's command",
                "UVM's bare number",
                "reopen for writing",
            },
        ),
    ],
)
def test_what_a_card_adds(policy: CardPolicy, allowed: set[str]) -> None:
    assert {what for what, passes in _answers(policy).items() if passes} == allowed
    one, plain = stage_one(policy), stage_one()
    assert (one.allowed, one.killed, set(one.ruled)) == (
        plain.allowed, plain.killed, set(plain.ruled),
    )  # fmt: skip
