"""Error codes of the family `sandbox`: one for every way in which the walls cannot be had."""

from __future__ import annotations

from gpugoblin.error_codes.spec import ErrorCode

__all__ = ["CODES"]

CODES: dict[str, ErrorCode] = {
    "sandbox_machine_unsupported": ErrorCode(
        what="The sandbox needs Linux on x86-64; this machine is {system} on {machine}.",
        next_step="Lend a card from a Linux machine; your own local jobs run here without walls.",
    ),
    "bwrap_missing": ErrorCode(
        what="The program bubblewrap is missing: {path} does not exist.",
        next_step="Install it: sudo apt install bubblewrap",
    ),
    "prlimit_missing": ErrorCode(
        what="The program prlimit is missing: {path} does not exist.",
        next_step="Install it: sudo apt install util-linux",
    ),
    "bwrap_too_old": ErrorCode(
        what="{path} is version {found}; the sandbox needs {needed} or newer.",
        next_step="Upgrade it: sudo apt install bubblewrap (Debian 12, Ubuntu 24.04 or newer)",
    ),
    "bwrap_setuid": ErrorCode(
        what="{path} is installed setuid, and then it cannot forbid further namespaces.",
        next_step="Take the bit away: sudo chmod u-s {path}",
    ),
    "bwrap_untrusted": ErrorCode(
        what="{path} belongs to uid {owner}, mode {mode}: not only root can change it.",
        next_step="Reinstall it: sudo apt install --reinstall bubblewrap",
    ),
    "namespaces_denied_by_apparmor": ErrorCode(
        what="AppArmor keeps {path} from making namespaces ({said}).",
        next_step=(
            "Install gpugoblin's package, which brings a profile for its own bubblewrap. Where it"
            " is installed: sudo apparmor_parser -r /etc/apparmor.d/gpugoblin-bwrap"
        ),
    ),
    "namespaces_forbidden": ErrorCode(
        what="This system forbids user namespaces ({said}).",
        next_step=(
            "Run gpugoblin as a system service with its own user, or ask the administrator to"
            " raise user.max_user_namespaces (Debian: kernel.unprivileged_userns_clone=1)"
        ),
    ),
    "namespaces_nested_too_deep": ErrorCode(
        what="This program runs inside a sandbox that allows no further one ({said}).",
        next_step="Start gpugoblin outside of that sandbox (Flatpak, Snap, another bubblewrap).",
    ),
    "proc_masked": ErrorCode(
        what="The container around this program hides parts of /proc ({said}).",
        next_step=(
            "Start the container with --security-opt systempaths=unconfined, or gpugoblin outside"
        ),
    ),
    "overflowuid_unreadable": ErrorCode(
        what="/proc/sys/kernel/overflowuid cannot be read ({said}).",
        next_step="Remove ProcSubset=pid and ProtectProc= from the systemd unit of gpugoblin.",
    ),
    "seccomp_missing": ErrorCode(
        what="The running kernel has no seccomp filters ({said}).",
        next_step="Boot a kernel built with CONFIG_SECCOMP_FILTER=y (every distribution's is).",
    ),
    "landlock_missing": ErrorCode(
        what="The running kernel has no Landlock, or it is not among its active LSMs.",
        next_step="Boot with the kernel parameter lsm=landlock,... (Linux 5.13 or newer).",
    ),
    "landlock_partial": ErrorCode(
        what="Landlock here is ABI {abi}; it cannot close {missing}.",
        next_step="The other walls close that too; Linux 6.12 or newer adds this one.",
    ),
    "landlock_too_old": ErrorCode(
        what="Landlock here is ABI {abi}; the level {level} needs {needed}.",
        next_step="Use the full level (it needs bubblewrap), or Linux 6.7 or newer.",
    ),
    "runtime_unreadable": ErrorCode(
        what="The engine's user (uid {uid}) cannot read its runtime {path}: {blocked} is closed.",
        next_step="Open the way for reading: sudo chmod o+x {blocked}",
    ),
    "runtime_package_missing": ErrorCode(
        what="The package {package}, which every engine needs, is not installed.",
        next_step="Install it where gpugoblin runs: pip install {package}",
    ),
    "runtime_unwritable": ErrorCode(
        what="The engine's runtime cannot be written to {path}: {reason}.",
        next_step="Free 200 MiB there, or choose another state directory.",
    ),
    "drop_impossible": ErrorCode(
        what="The program runs as root and cannot become the engine's user: {reason}.",
        next_step="Start it as an ordinary user, or give it CAP_SETUID and CAP_SETGID.",
    ),
    "engine_unconfined": ErrorCode(
        what="The walls around the engine are not what they must be: {mismatch}.",
        next_step="The engine was ended; report this with the output of gpugoblin agent doctor.",
    ),
    "self_test_failed": ErrorCode(
        what="Inside the walls the engine could still {action} ({outcome}).",
        next_step="Nothing was lent; report this with the output of gpugoblin agent doctor.",
    ),
    "walls_incomplete": ErrorCode(
        what="The engine could not build its inner walls: {reason}.",
        next_step="Run gpugoblin agent doctor, which names the layer that this machine lacks.",
    ),
    "sandbox_start_failed": ErrorCode(
        what="The sandbox ended before the engine started (status {status}): {said}.",
        next_step="Run gpugoblin agent doctor; if it finds nothing, report this line.",
    ),
    "sandbox_start_slow": ErrorCode(
        what="The sandbox did not start the engine within {limit_s:.1f} s.",
        next_step="Try again when the machine is less busy.",
    ),
    "process_unprobed": ErrorCode(
        what="The engine (process {pid}) has ended, so its walls cannot be examined.",
        next_step="Look at its last words: {stderr}",
    ),
}
