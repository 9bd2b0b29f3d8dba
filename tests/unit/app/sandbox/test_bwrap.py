"""The list of steps for one engine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sandbox import operations as op
from app.sandbox.bwrap import DEVICES, View, command, fixed_environment, operations
from app.sandbox.spec import CardAccess

VIEW = View(
    runtime="/host/runtime",
    seccomp_fd=7,
    status_fd=8,
    masked=("/proc/cmdline",),
    environment={"CARD": "1", "PATH": "/evil", "GPUGOBLIN_WALLS": "0"},
)

WHOLE = """
--unshare-user --unshare-ipc --unshare-pid --unshare-net --unshare-uts --unshare-cgroup-try
--disable-userns --assert-userns-disabled --uid 65534 --gid 65534 --hostname engine
--cap-drop ALL --die-with-parent --new-session --clearenv
--setenv CARD 1 --setenv PATH /runtime/bin --setenv GPUGOBLIN_WALLS 1 --setenv HOME /tmp
--setenv LANG C.UTF-8 --setenv LD_LIBRARY_PATH /runtime/lib:/runtime/system
--setenv PYTHONHASHSEED 0 --setenv OPENBLAS_NUM_THREADS 1 --setenv OMP_NUM_THREADS 1
--setenv GPUGOBLIN_LEVEL full --setenv GPUGOBLIN_RUNTIME /runtime
--dir /lib64 --ro-bind /host/runtime /runtime
--symlink /runtime/system/ld-linux-x86-64.so.2 /lib64/ld-linux-x86-64.so.2
--ro-bind /sys/devices/system/cpu /sys/devices/system/cpu
--proc /proc --ro-bind /dev/null /proc/cmdline
--size 65536 --tmpfs /dev --dev-bind /dev/null /dev/null --dev-bind /dev/zero /dev/zero
--dev-bind /dev/urandom /dev/urandom --remount-ro /dev
--perms 0700 --size 67108864 --tmpfs /tmp --remount-ro / --chdir /tmp
--seccomp 7 --json-status-fd 8
"""


def test_the_whole_list() -> None:
    assert op.arguments(operations(VIEW)) == WHOLE.split()


def test_the_command_ends_in_the_engine() -> None:
    words = command("/usr/bin/bwrap", VIEW, ["python", "child.py"])
    assert words[0] == "/usr/bin/bwrap"
    assert words[-3:] == ["--", "python", "child.py"]


def test_variables_of_a_backend_never_replace_the_fixed_ones() -> None:
    given = {o.name: o.value for o in operations(VIEW) if isinstance(o, op.SetEnvironment)}
    fixed = fixed_environment("/runtime", "full", "/runtime/lib:/runtime/system")
    assert given == {"CARD": "1", **fixed}


def test_root_is_closed_after_every_other_file_step() -> None:
    steps = operations(VIEW)
    last = steps.index(op.RemountReadOnly("/"))
    files = (op.ReadOnlyBind, op.DeviceBind, op.Symlink, op.Directory, op.Proc, op.Tmpfs)
    assert all(at < last for at, step in enumerate(steps) if isinstance(step, files))


def test_an_engine_on_the_processor_gets_three_harmless_nodes() -> None:
    nodes = [step.path for step in operations(VIEW) if isinstance(step, op.DeviceBind)]
    assert nodes == list(DEVICES) == ["/dev/null", "/dev/zero", "/dev/urandom"]


@pytest.mark.parametrize("place", ["/etc", "/home", "/root", "/run", "/var", "/usr", "/"])
def test_nothing_else_of_the_host_is_shown(place: str) -> None:
    shown = [step.source for step in operations(VIEW) if isinstance(step, op.ReadOnlyBind)]
    assert place not in shown


def test_binds_stay_few() -> None:
    binds = [s for s in operations(VIEW) if isinstance(s, (op.ReadOnlyBind, op.DeviceBind))]
    assert len(binds) < 25


def test_a_card_adds_its_nodes_and_its_directory_and_nothing_else() -> None:
    place = "/sys/devices/pci0000:00/0000:01:00.0"
    card = CardAccess(
        "drm",
        nodes=("/dev/dri/renderD129",),
        shown=(place, "/proc/driver/nvidia"),
        links=((place, "/sys/bus/pci/devices/0000:01:00.0"),),
    )
    plain, with_card = operations(VIEW), operations(replace(VIEW, card=card))
    assert [step for step in plain if step not in with_card] == []
    assert [step for step in with_card if step not in plain] == [
        op.SetEnvironment("GPUGOBLIN_CARD_POLICY", "drm"),
        op.SetEnvironment("GPUGOBLIN_CARD_NODES", "/dev/dri/renderD129"),
        op.SetEnvironment("GPUGOBLIN_CARD_SHOWN", f"{place}|/proc/driver/nvidia"),
        op.ReadOnlyBind(place, place),
        op.Symlink(place, "/sys/bus/pci/devices/0000:01:00.0"),
        op.DeviceBind("/dev/dri/renderD129"),
    ]
    nodes, closed = op.DeviceBind("/dev/dri/renderD129"), op.RemountReadOnly("/dev")
    assert with_card.index(nodes) < with_card.index(closed)
