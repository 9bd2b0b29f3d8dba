"""Attacks that aim at files, devices and paths. Nothing of the host is changed if one gets through:
writes aim at the test's own bait, or ask for what changes nothing."""

from __future__ import annotations

import ctypes
import os

from .calls import NULL, call, try_call, try_open
from .table import Bait, Outcome, attack, opened, read, refused

AT_FDCWD = -100
WRITE_NEW = os.O_WRONLY | os.O_CREAT
HIDDEN = ("ENOENT", "EACCES")


@attack("mounts", *HIDDEN, control=True)
def read_bait_by_path(bait: Bait) -> Outcome:
    return try_open(bait["file"])


@attack("mounts", *HIDDEN, control=True)
def read_passwd(bait: Bait) -> Outcome:
    return try_open("/etc/passwd")


@attack("mounts", *HIDDEN)
def read_shadow(bait: Bait) -> Outcome:
    return try_open("/etc/shadow")


@attack("mounts", *HIDDEN)
def read_a_home(bait: Bait) -> Outcome:
    return try_open("/root/.bashrc")


@attack("mounts", *HIDDEN, control=True)
def read_machine_id(bait: Bait) -> Outcome:
    return try_open("/proc/sys/kernel/random/boot_id")


@attack("mounts", *HIDDEN)
def read_hardware_serial(bait: Bait) -> Outcome:
    return try_open("/sys/class/dmi/id/product_uuid")


@attack("mounts", *HIDDEN)
def read_network_address(bait: Bait) -> Outcome:
    return try_open("/sys/class/net/eth0/address")


@attack("mounts", *HIDDEN)
def read_kernel_log(bait: Bait) -> Outcome:
    return try_open("/dev/kmsg")


@attack("landlock", "EACCES", control=True)
def read_kernel_command_line(bait: Bait) -> Outcome:
    return try_open("/proc/cmdline")


@attack("landlock", "EACCES", control=True)
def read_kernel_version(bait: Bait) -> Outcome:
    return try_open("/proc/version")


@attack("landlock", "EACCES")
def read_environment_of_process_1(bait: Bait) -> Outcome:
    return try_open("/proc/1/environ")


@attack("landlock", "EACCES")
def read_memory_of_process_1(bait: Bait) -> Outcome:
    return try_open("/proc/1/mem")


@attack("landlock", "EACCES")
def read_bait_through_root_of_process_1(bait: Bait) -> Outcome:
    return try_open("/proc/1/root" + bait["file"])


@attack("landlock", "EACCES")
def list_descriptors_of_process_1(bait: Bait) -> Outcome:
    return try_open("/proc/1/fd", os.O_RDONLY | os.O_DIRECTORY)


@attack("stage two", "EPERM", control=True)
def list_a_directory(bait: Bait) -> Outcome:
    descriptor = os.open(bait["runtime"], os.O_RDONLY | os.O_DIRECTORY)
    try:
        return try_call("getdents64", descriptor, ctypes.create_string_buffer(4096), 4096)
    finally:
        os.close(descriptor)


@attack("stage two", "EPERM", control=True)
def read_a_link(bait: Bait) -> Outcome:
    return try_call("readlink", b"/proc/self/exe", ctypes.create_string_buffer(256), 256)


@attack("stage two", "EPERM", control=True)
def change_directory(bait: Bait) -> Outcome:
    return try_call("chdir", b"/")


@attack("stage two", "EPERM", control=True)
def size_of_a_file_system(bait: Bait) -> Outcome:
    return try_call("statfs", b"/", ctypes.create_string_buffer(256))


def _writes(name: str, path: str, flags: int = os.O_WRONLY, control: bool = False) -> None:
    def run(bait: Bait) -> Outcome:
        return try_open(path.format(**bait), flags)

    run.__name__ = name
    attack("stage two", "EPERM", control=control)(run)


_writes("write_bait_by_path", "{own_file}", os.O_WRONLY, control=True)
_writes("write_at_the_root", "/gg-attack", WRITE_NEW)
_writes("write_into_usr", "/usr/gg-attack", WRITE_NEW)
_writes("write_into_etc", "/etc/gg-attack", WRITE_NEW)
_writes("write_into_the_runtime", "{runtime}/app/gg-attack.py", WRITE_NEW)
_writes("overwrite_the_engine", "{runtime}/app/app/engine/child.py")
_writes("write_into_sys", "/sys/devices/system/cpu/cpu1/online")
_writes("write_into_dev", "/dev/gg-attack", WRITE_NEW)
_writes("write_into_tmp", "/tmp/gg-attack", WRITE_NEW)
_writes("write_into_shared_memory", "{shm_file}", WRITE_NEW, control=True)
_writes("write_unnamed_file", "/tmp", os.O_WRONLY | os.O_TMPFILE)
_writes("write_hostname", "/proc/sys/kernel/hostname")
_writes("write_core_pattern", "/proc/sys/kernel/core_pattern")
_writes("write_drop_caches", "/proc/sys/vm/drop_caches")
_writes("write_sysrq", "/proc/sysrq-trigger")
_writes("write_uid_map", "/proc/self/uid_map")
_writes("write_time_offsets", "/proc/self/timens_offsets")
_writes("write_oom_score", "/proc/self/oom_score_adj", control=True)
_writes("write_own_memory", "/proc/self/mem", control=True)
_writes("write_own_limits_file", "/proc/self/coredump_filter", control=True)
_writes("append_to_bait", "{own_file}", os.O_RDONLY | os.O_APPEND, control=True)
_writes("truncate_bait_on_opening", "{own_file}", os.O_RDONLY | os.O_TRUNC, control=True)


def _device(name: str, path: str, *answers: str) -> None:
    def run(bait: Bait) -> Outcome:
        return try_open(path)

    run.__name__ = name
    attack("mounts", *(answers or HIDDEN))(run)


_device("open_kvm", "/dev/kvm")
_device("open_fuse", "/dev/fuse")
_device("open_loop_device", "/dev/loop0")
_device("open_loop_control", "/dev/loop-control")
_device("open_the_disk", "/dev/vda")
_device("open_userfaultfd_node", "/dev/userfaultfd")
_device("open_terminal_multiplexer", "/dev/ptmx")
_device("open_terminal", "/dev/tty")
_device("open_physical_memory", "/dev/mem")
_device("open_a_graphics_card", "/dev/dri/card0")
_device("open_nvidia_control", "/dev/nvidiactl")
_device("open_input_events", "/dev/input/event0")
_device("open_random_with_entropy_ioctl", "/dev/random")


def _path_call(name: str, call_name: str, *arguments: object, control: bool = False) -> None:
    def run(bait: Bait) -> Outcome:
        given = [
            value.format(**bait).encode() + b"\0" if isinstance(value, str) else value
            for value in arguments
        ]
        return try_call(call_name, *given)

    run.__name__ = name
    attack("stage two", "EPERM", control=control)(run)


_path_call("make_block_device", "mknod", "/tmp/gg-disk", 0o060600, 0xFE00)
_path_call("make_character_device", "mknod", "/tmp/gg-mem", 0o020600, 0x101)
_path_call("make_pipe_with_a_name", "mknodat", AT_FDCWD, "{own}/fifo", 0o010600, 0, control=True)
_path_call("make_directory", "mkdir", "{own}/directory", 0o700, control=True)
_path_call("make_directory_at", "mkdirat", AT_FDCWD, "{own}/directory2", 0o700, control=True)
_path_call("make_file_the_old_way", "creat", "{own}/created", 0o600, control=True)
_path_call("remove_file", "unlink", "{own}/doomed", control=True)
_path_call("remove_directory", "rmdir", "{own}/doomed_directory", control=True)
_path_call("rename_file", "rename", "{own}/renamed", "{own}/renamed2", control=True)
_path_call("link_planted_for_the_parent", "symlink", "/etc/shadow", "{own}/s", control=True)
_path_call("link_planted_at", "symlinkat", "/etc/shadow", AT_FDCWD, "{own}/s2", control=True)
_path_call("second_name_for_a_file", "link", "{own_file}", "{own}/second", control=True)
_path_call("second_name_at", "linkat", -100, "{own_file}", -100, "{own}/second2", 0, control=True)
_path_call("change_mode", "chmod", "{own_file}", 0o600, control=True)
_path_call("change_owner", "chown", "{own_file}", -1, -1, control=True)
_path_call("truncate_file", "truncate", "{own_file}", 0, control=True)
_path_call("change_times", "utimensat", AT_FDCWD, "{own_file}", NULL, 0, control=True)
_path_call("set_attribute", "setxattr", "{own_file}", "user.gg", "x", 1, 0)
_path_call("watch_files", "inotify_init1", 0, control=True)
_path_call("hidden_memory_file", "memfd_secret", 0)
_path_call("lock_a_file", "flock", 2, 2)


@attack("stage two", "EPERM", control=True)
def open_by_the_new_call(bait: Bait) -> Outcome:
    how = (ctypes.c_uint64 * 3)(os.O_RDONLY, 0, 0)
    return try_call("openat2", AT_FDCWD, b"/dev/null\0", how, 24)


@attack("stage two", "EPERM", control=True)
def disk_bomb(bait: Bait) -> Outcome:
    return try_open(f"{bait['own']}/bomb", WRITE_NEW)


@attack("stage two", "EPERM", control=True)
def inode_bomb(bait: Bait) -> Outcome:
    for number in range(100):
        result, error = call("mkdir", f"{bait['own']}/inode{number}".encode(), 0o700)
        if result < 0:
            return refused(error)
    return opened()


@attack("-", expected="read")
def own_environment(bait: Bait) -> Outcome:
    with open("/proc/self/environ", encoding="ascii") as file:
        names = [pair.partition("=")[0] for pair in file.read().split("\0") if pair]
    return read(" ".join(sorted(names)))


@attack("-", expected="read")
def mount_table(bait: Bait) -> Outcome:
    with open("/proc/self/mountinfo", encoding="ascii") as file:
        return read(" ".join(line.split()[4] for line in file))
