"""The attacks as a page: what was tried, which wall answers, and how.

Owns: the lines of the study from which the walls were planned, each with the attacks that are its
own here, and the page that `scripts/gen_docs.py` writes. Must not: run an attack.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from tests.attacks.inside import every
from tests.attacks.inside.table import ROWS, Row

__all__ = ["DOORS", "STUDIED", "page"]

DOORS: Final[dict[str, dict[str, str]]] = {
    "software": {
        "data_made_code": (
            "makes machine code of kernels: it is written first, closed for writing, then run; "
            "memory that is both, or code out of a file, stays refused"
        ),
    },
    "drm": {},
    "nvidia": {
        "command_to_a_device": "commands of its driver on any descriptor; its nodes alone answer",
        "reopen_the_inputs_for_writing": (
            "opens its nodes anew for each mapping; a second opening of the inputs cannot be "
            "written to, which their seal refuses"
        ),
    },
}
"""What opens behind the walls of a card's engine, by the policy of its driver, and why."""

STUDIED: Final[dict[str, str]] = {
    "TCP to the host and outside, UDP, IPv6": (
        "tcp_to_host_loopback tcp_to_the_outside udp_socket tcp_over_ipv6"
    ),
    "sockets of Unix by path and by name, D-Bus, X11": (
        "unix_socket_by_path unix_socket_abstract system_bus x11_by_path x11_abstract"
    ),
    "netlink's routes and device events": "netlink_route netlink_uevents",
    "a socket to the hypervisor": "vsock",
    "raw packets, the kernel's cryptography, Bluetooth": (
        "packet_socket kernel_crypto_socket bluetooth_socket"
    ),
    "reading accounts, homes, serial numbers, the kernel's log": (
        "read_passwd read_shadow read_a_home read_hardware_serial read_machine_id read_kernel_log"
    ),
    "the environment of process 1": "read_environment_of_process_1 own_environment",
    "memory, root and descriptors of process 1": (
        "read_memory_of_process_1 read_bait_through_root_of_process_1 list_descriptors_of_process_1"
    ),
    "writing to system directories and settings of the kernel": (
        "write_into_usr write_at_the_root write_into_the_runtime overwrite_the_engine"
        " write_into_etc write_into_sys write_hostname"
    ),
    "writing below /dev": "write_into_dev",
    "system requests, core dumps, maps of users, caches, time": (
        "write_sysrq write_core_pattern write_uid_map write_drop_caches write_time_offsets"
    ),
    "who is killed first when memory is short": "write_oom_score",
    "tracing process 1, reading its memory": (
        "ptrace_ask_to_be_traced ptrace_process_1 process_vm_readv process_vm_writev"
    ),
    "killing a process of the host, killing all": "signal_to_bait signal_to_all",
    "signals to threads and to process 1": "signal_to_process_1 signal_to_thread_of_bait",
    "forks": "fork fork_by_the_library fork_by_clone fork_that_shares_memory vfork",
    "ever more threads": "thread_bomb thread_bomb_of_full_stacks",
    "running a program in place and out of memory": "run_a_program run_a_program_by_descriptor",
    "ever more private memory": "private_memory_bomb memory_bomb_by_permission heap_bomb",
    "ever more shared memory": "shared_memory_bomb memory_file",
    "a tebibyte at once, a file of 8 GiB in memory": "a_tebibyte_at_once memory_file_of_8_gib",
    "ever more on disk": "disk_bomb write_into_tmp write_into_shared_memory",
    "ever more files": "inode_bomb",
    "mounts old and new": (
        "mount umount2 fsopen fsconfig fsmount fspick open_tree move_mount mount_setattr pivot_root"
    ),
    "another root, other namespaces": (
        "chroot setns unshare_user unshare_network unshare_mounts unshare_nothing"
    ),
    "a child in a user namespace of its own": (
        "clone_into_a_user_namespace clone_by_the_new_call clone_by_the_new_call_into_namespaces"
    ),
    "becoming root, giving up groups, programs with a setuid bit": (
        "become_root become_root_three_ways become_root_group give_up_groups run_a_setuid_program"
    ),
    "keys of the host": "keyctl add_key request_key",
    "programs in the kernel, its counters": "bpf perf_event_open",
    "faults handled by a program, rings of calls": (
        "userfaultfd io_uring_setup io_uring_enter io_uring_register"
    ),
    "the gate of 32 bits": "call_by_the_32_bit_gate",
    "the table of x32": "call_of_the_x32_table",
    "another personality, descriptor tables, moved pages": (
        "personality modify_ldt move_pages migrate_pages"
    ),
    "typing into a terminal": "type_into_the_terminal paste_into_the_console",
    "devices: virtual machines, file systems, disks, page faults": (
        "open_kvm open_fuse open_loop_device open_loop_control open_the_disk open_userfaultfd_node"
    ),
    "a new terminal": "open_terminal_multiplexer open_terminal",
    "making devices": "make_block_device make_character_device",
    "files by handle, quotas, watching all files, the log": (
        "name_to_handle_at open_by_handle_at quotactl quotactl_fd fanotify_init fanotify_mark"
        " syslog"
    ),
    "another kernel, modules, restart, swap, another name": (
        "kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff"
        " sethostname setdomainname"
    ),
    "real-time priority, a higher one, higher limits": (
        "real_time_scheduling higher_priority raise_a_limit change_a_limit_the_new_way"
    ),
    "handles of other processes": "handle_of_bait pidfd_getfd signal_by_handle",
    "a looser filter on top": "looser_filter_then_socket",
    "old shared memory, watches, hidden memory, the newer way to open": (
        "old_shared_memory watch_files hidden_memory_file open_by_the_new_call"
    ),
    "a link planted for the parent": "link_planted_for_the_parent link_planted_at",
    "listening below /tmp": "listen_on_a_unix_socket",
    "memory that is writable and executable": (
        "writable_code data_made_code data_made_code_with_a_key"
    ),
    "counters of the loopback, the mount table, the dumpable flag": (
        "counters_of_the_loopback mount_table own_dumpable_flag"
    ),
    "the channel: descriptors, floods, messages that are too large": (
        "hundred_descriptors credentials_of_somebody message_of_a_mebibyte flood_of_messages"
    ),
    "the arenas: shrinking, growing, sealing, writing to inputs": (
        "shrink_the_output_arena grow_the_output_arena write_the_inputs"
        " map_the_inputs_for_writing reopen_the_inputs_for_writing"
        " seal_the_outputs_against_the_parent"
    ),
}
"""Each line of the study of 131 attempts, and the attacks of its kind by name."""

_WORDS: Final = {
    "refused": "refused",
    "killed": "the engine dies of SIGSYS",
    "bounded": "stopped at its limit",
    "read": "harmless: it is read",
}
_UNITS: Final = {"memory": "MiB", "processes": "threads", "channel": "messages"}


def page() -> str:
    """docs/reference/attacks.md."""
    every.load()
    kinds = Counter(row.expected for row in ROWS.values())
    studied = {name for names in STUDIED.values() for name in names.split()}
    dying = sorted(row.name for row in ROWS.values() if row.expected == "killed")
    text = (
        "# Attacks on the sandbox\n\n"
        f"{len(ROWS)} attempts to get out of the sandbox, each a real one, made by a program in "
        "the engine's place\nbehind the same walls: "
        f"{kinds['refused']} are refused, {kinds['bounded']} are stopped at a limit, "
        f"{kinds['killed']} end the engine by a signal,\nand {kinds['read']} read something "
        "harmless of the engine's own. None gets out. `tests/attacks` tries them on every\n"
        "commit and takes only the very answer that is written here; those with `yes` in the last "
        "column are also\ntried where no wall stands, and succeed there, which proves that they "
        "are attacks.\n\n"
        "The wall is the one that answers first. `seccomp`: the first filter; `stage two`: the "
        "second one, which stands\nwhile tasks are computed; `mounts`, `namespaces`, `landlock`, "
        "`limits` and the `seals` of shared memory.\nOther walls stand behind it.\n\n"
        "The engine of a graphics card is given what its driver needs, and is attacked the same "
        "way; where NVIDIA's filter\nlets a file be opened for writing, Landlock or the mounts "
        "refuse it. What opens there and nowhere else:\n\n"
    )
    text += _table(("driver", "attack", "what it is"), _doors())
    text += "\n## The study from which the walls were planned\n\nIt made 131 attempts of these "
    text += f"kinds. The {len(ROWS) - len(studied)} attacks that are in no line are of our own.\n\n"
    text += _table(("kind", "attacks"), [(kind, _code(names.split())) for kind, names in
                                         STUDIED.items()])  # fmt: skip
    text += "\n## Those that end the engine by a signal\n\n" + _code(dying) + "\n"
    by_file: dict[str, list[Row]] = {}
    for row in ROWS.values():
        by_file.setdefault(_file(row), []).append(row)
    for name in every.FILES:
        text += f"\n## {name.capitalize()}\n\n"
        text += _table(
            ("attack", "wall", "what becomes of it", "works without walls"),
            [
                (f"`{row.name}`", row.layer, _end(row), "yes" if row.control else "not tried")
                for row in by_file[name]
            ],
        )
    return text


def _doors() -> list[tuple[str, ...]]:
    return [
        (policy, _code([name]), why)
        for policy, doors in DOORS.items()
        for name, why in (doors.items() if doors else [("", "nothing")])
    ]


def _end(row: Row) -> str:
    answers = f" ({', '.join(row.answers)})" if row.answers else ""
    limit = f" of {row.limit} {_UNITS[_file(row)]}" if row.expected == "bounded" else ""
    return f"{_WORDS[row.expected]}{limit}{answers}"


def _file(row: Row) -> str:
    return row.run.__module__.rpartition(".")[2]


def _code(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names if name)


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"
