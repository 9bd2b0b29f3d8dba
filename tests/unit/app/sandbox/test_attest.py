"""What a walled process looks like from outside, and every way in which one does not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

import pytest

from app.sandbox.attest import Expectation, Sight, look, mismatches, own_namespaces
from app.sandbox.limits import wished_limits
from app.sandbox.spec import CardAccess
from gpugoblin.units import MIB

MEMORY = 256 * MIB
MASKED = frozenset({"/proc/cmdline"})
RO, RW = frozenset({"ro"}), frozenset({"rw"})
NONE = "0000000000000000"

LIMITS = f"""Limit                     Soft Limit           Hard Limit           Units
Max data size             {MEMORY}            {MEMORY}            bytes
Max file size             1073741824           1073741824           bytes
Max stack size            8388608              8388608              bytes
Max core file size        0                    0                    bytes
Max open files            256                  256                  files
Max locked memory         0                    0                    bytes
Max msgqueue size         0                    0                    bytes
Max nice priority         0                    0
Max realtime priority     0                    0
"""

GOOD = Sight(
    status={
        "NoNewPrivs": "1",
        "Seccomp": "2",
        "Seccomp_filters": "2",
        "Uid": "999\t999\t999\t999",
        "NSpid": "4711\t2",
        **dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), NONE),
    },
    namespaces={name: f"{name}:[2]" for name in ("user", "pid", "net", "ipc", "uts", "mnt")},
    descriptors={
        0: "/dev/null",
        1: "/dev/null",
        2: "pipe:[1]",
        4: "socket:[9]",
        5: "/memfd:input (deleted)",
        6: "/memfd:output (deleted)",
    },
    mounts={
        "/": ("tmpfs", RO),
        "/runtime": ("ext4", RO),
        "/sys/devices/system/cpu": ("sysfs", RO),
        "/proc": ("proc", RW),
        "/proc/cmdline": ("devtmpfs", RO),
        "/dev": ("tmpfs", RO),
        "/dev/null": ("devtmpfs", RW),
        "/dev/zero": ("devtmpfs", RW),
        "/dev/urandom": ("devtmpfs", RW),
        "/tmp": ("tmpfs", RW),
    },
    limits=LIMITS,
    children=(),
)
EXPECTED = Expectation(
    level="full",
    descriptors=("socket:[9]", "/memfd:input (deleted)", "/memfd:output (deleted)"),
    outside={name: f"{name}:[1]" for name in GOOD.namespaces},
    filters=2,
    uid=999,
    memory_bytes=MEMORY,
)


def _with(original: Mapping[str, object], **changes: object) -> dict[str, object]:
    changed = {**original, **changes}
    return {name: value for name, value in changed.items() if value is not None}


def _status(**changes: object) -> Sight:
    return replace(GOOD, status=_with(GOOD.status, **changes))  # type: ignore[arg-type]


def _mounts(**changes: object) -> Sight:
    named = {"/" + name.replace("_", "/"): value for name, value in changes.items()}
    return replace(GOOD, mounts=_with(GOOD.mounts, **named))  # type: ignore[arg-type]


def _descriptor(number: int, target: str) -> Sight:
    return replace(GOOD, descriptors={**GOOD.descriptors, number: target})


def test_a_walled_process_is_found_walled() -> None:
    assert mismatches(GOOD, EXPECTED, MASKED) == []


@pytest.mark.parametrize(
    "target",
    ["anon_inode:[eventfd]", "anon_inode:[eventpoll]", "/dev/urandom", "/runtime/app/x.py"],
)
def test_descriptors_of_its_own_making_are_harmless(target: str) -> None:
    assert mismatches(_descriptor(9, target), EXPECTED, MASKED) == []


WRONG = [
    (_status(NoNewPrivs="0"), "NoNewPrivs is 0, not 1"),
    (_status(Seccomp="0"), "Seccomp is 0, not 2"),
    (_status(Seccomp_filters="1"), "Seccomp_filters is 1, not 2"),
    (_status(Seccomp_filters=None), "Seccomp_filters is missing, not 2"),
    (_status(CapEff="0000000000000001"), "CapEff is 0000000000000001, not 0"),
    (_status(CapBnd="000001ffffffffff"), "CapBnd is 000001ffffffffff, not 0"),
    (_status(CapAmb=None), "CapAmb is missing, not 0"),
    (_status(Uid="0\t999\t999\t999"), "Uid is 0\t999\t999\t999, not 999"),
    (_status(NSpid="4711"), "it shares the host's process ids"),
    (
        replace(GOOD, namespaces={**GOOD.namespaces, "net": "net:[1]"}),
        "it is in the parent's net namespace",
    ),
    (replace(GOOD, namespaces={}), "it is in the parent's user namespace"),
    (_descriptor(7, "socket:[10]"), "descriptor 7 is socket:[10]"),
    (_descriptor(7, "socket:[9]"), "descriptor 7 is socket:[9]"),
    (_descriptor(7, "/etc/passwd"), "descriptor 7 is /etc/passwd"),
    (_descriptor(7, "/memfd:own (deleted)"), "descriptor 7 is /memfd:own (deleted)"),
    (_descriptor(7, "anon_inode:[userfaultfd]"), "descriptor 7 is anon_inode:[userfaultfd]"),
    (_mounts(home=("ext4", RO)), "/home is mounted"),
    (_mounts(dev_kvm=("devtmpfs", RW)), "/dev/kvm is mounted"),
    (_mounts(tmp=None), "/tmp is not mounted"),
    (_mounts(runtime=("ext4", RW)), "/runtime is writable"),
    (_mounts(dev=("tmpfs", RW)), "/dev is writable"),
    (_mounts(dev=("devtmpfs", RO)), "/dev is the host's"),
    (replace(GOOD, limits=LIMITS.replace("256  ", "9999 ")), "Max open files is 9999, not 256"),
    (replace(GOOD, children=(4712,)), "it has children: (4712,)"),
]


@pytest.mark.parametrize(("sight", "said"), WRONG)
def test_every_gap_is_seen(sight: Sight, said: str) -> None:
    assert said in mismatches(sight, EXPECTED, MASKED)


def test_reduced_level_is_judged_without_namespaces() -> None:
    bare = replace(
        GOOD,
        namespaces=EXPECTED.outside,
        mounts={},
        status={**GOOD.status, "CapBnd": "000001ffffffffff", "NSpid": "4711"},
    )
    reduced = replace(EXPECTED, level="reduced")
    assert mismatches(bare, reduced, frozenset()) == []
    armed = replace(bare, status={**bare.status, "CapPrm": "0000000000000002"})
    assert mismatches(armed, reduced, frozenset()) == ["CapPrm is 0000000000000002, not 0"]


def test_this_very_process_is_not_walled() -> None:
    sight = look(os.getpid())
    assert sight.namespaces == own_namespaces()
    assert "/" in sight.mounts
    expected = replace(EXPECTED, outside=own_namespaces())
    assert len(mismatches(sight, expected, MASKED)) > 10


def test_a_process_that_is_gone_cannot_be_looked_at() -> None:
    with pytest.raises(OSError, match="No such"):
        look(2**22)


def test_all_limits_of_a_launch_are_among_those_judged() -> None:
    assert len(wished_limits(MEMORY)) == len(LIMITS.splitlines()) - 1


def test_a_card_shows_its_own_node_and_no_other() -> None:
    place = "/sys/devices/pci0000:00/0000:01:00.0"
    card = CardAccess("drm", nodes=("/dev/dri/renderD129",), shown=(place,))
    expected = replace(EXPECTED, card=card)
    node = {"/dev/dri/renderD129": ("devtmpfs", RW)}
    sight = replace(
        GOOD,
        mounts={**GOOD.mounts, **node, place: ("sysfs", RO)},
        descriptors={**GOOD.descriptors, 7: "/dev/dri/renderD129"},
    )
    assert mismatches(sight, expected, MASKED) == []
    assert mismatches(sight, EXPECTED, MASKED) == [
        "descriptor 7 is /dev/dri/renderD129",
        "/dev/dri/renderD129 is mounted",
        f"{place} is mounted",
    ]
    other = replace(sight, mounts={**sight.mounts, "/dev/dri/renderD128": ("devtmpfs", RW)})
    assert mismatches(other, expected, MASKED) == ["/dev/dri/renderD128 is mounted"]
    assert f"{place} is writable" in mismatches(
        replace(sight, mounts={**sight.mounts, place: ("sysfs", RW)}), expected, MASKED
    )
    assert "/dev/dri/renderD129 is not mounted" in mismatches(GOOD, expected, MASKED)
