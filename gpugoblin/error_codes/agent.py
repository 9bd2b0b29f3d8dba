"""Error codes of the family `agent`."""

from __future__ import annotations

from gpugoblin.error_codes.spec import ErrorCode

__all__ = ["CODES"]

_LOOK_AT_LAB = "Nothing to do here: the lease went back; if it goes on, leave the lab and tell it."

CODES: dict[str, ErrorCode] = {
    "machine_unsound": ErrorCode(
        what="The agent found its own state unsound: {problem}.",
        next_step="Report this with the output of `gpugoblin agent doctor`; lending has stopped.",
    ),
    # settings and state
    "setting_fixed": ErrorCode(
        what="The setting {name} cannot be changed while the agent runs.",
        next_step="Change it in the configuration file and start the agent again.",
    ),
    "group_unknown": ErrorCode(
        what="This system has no group {name}, which `control_group` names.",
        next_step="Make it (groupadd), or leave `control_group` out.",
    ),
    "change_malformed": ErrorCode(
        what="{text!r} is no change of a setting.",
        next_step="Write NAME=VALUE, as `gpugoblin settings profile=nights`.",
    ),
    "settings_changed_meanwhile": ErrorCode(
        what="The settings are at revision {revision}, not {asked}: somebody changed them.",
        next_step="Read them again and repeat the change.",
    ),
    "state_unsafe": ErrorCode(
        what="The directory {path} cannot hold the agent's state: {reason}.",
        next_step="Repair that, or name another `state_directory` in the configuration.",
    ),
    "state_damaged": ErrorCode(
        what="The file {path} is not what the agent wrote: {reason}.",
        next_step="Move it away and start again; leases in it end by themselves at the lab.",
    ),
    "state_unwritable": ErrorCode(
        what="The file {path} cannot be written: {reason}.",
        next_step="Free disk space there, or repair its permissions.",
    ),
    "agent_running": ErrorCode(
        what="An agent (process {pid}) already uses {path}.",
        next_step="Use that one (`gpugoblin agent status`), or end it first.",
    ),
    "card_taken": ErrorCode(
        what="The card {card} is already lent by {holder}.",
        next_step="End the other agent, or set `processor.share = true` in both to lend twice.",
    ),
    "recording_unwritable": ErrorCode(
        what="The recording {path} cannot be written: {reason}.",
        next_step="Name a file that is not there yet, in a directory with room.",
    ),
    "power_limit_held": ErrorCode(
        what="Another agent (process {pid}) holds the card's power limit.",
        next_step="Nothing to do: it is tried again every minute.",
    ),
    "power_limit_forbidden": ErrorCode(
        what="Only root may set a card's power limit, and note in {path} what it was.",
        next_step="Run the agent as a service of the system; else the card computes half of the"
        " time while it draws more.",
    ),
    # enrolment
    "coordinator_missing": ErrorCode(
        what="No coordinator is named.",
        next_step="Name one: in the window (page Account and machines), by `gpugoblin settings"
        " coordinator.address=https://...`, or in the settings file.",
    ),
    "coordinator_kept": ErrorCode(
        what="This device is enrolled at {address} and stays there while the agent runs.",
        next_step="To move it, end the agent, delete enrolment.json in its state directory, and"
        " start it again.",
    ),
    "not_enrolled": ErrorCode(
        what="The coordinator at {address} does not know this device yet.",
        next_step="Run `gpugoblin agent enrol --config FILE` and approve the code.",
    ),
    "enrolment_denied": ErrorCode(
        what="The enrolment of this device was denied.",
        next_step="Compare the fingerprint with whoever approves, then enroll again.",
    ),
    "enrolment_expired": ErrorCode(
        what="The code {user_code} was not approved in time.",
        next_step="Run `gpugoblin agent enrol` again for a new code.",
    ),
    "enrolment_fingerprint": ErrorCode(
        what="The coordinator shows the fingerprint {theirs}, which is not this device's.",
        next_step="Do not approve anything: check the coordinator's address and certificate.",
    ),
    "signin_not_now": ErrorCode(
        what="Nobody can sign in here now: no code of the coordinator waits to be approved.",
        next_step="Wait until the coordinator answers, then ask for a letter again.",
    ),
    "signin_mailbox_malformed": ErrorCode(
        what="That is not a mail address.",
        next_step="Write it as name@example.org.",
    ),
    "login_code_malformed": ErrorCode(
        what="The code of the letter has {digits} digits.",
        next_step="Type all of them; spaces between them do not matter.",
    ),
    "trial_busy": ErrorCode(
        what="Another card is being measured, or this one begins to lend.",
        next_step="Ask again in some seconds.",
    ),
    "trial_forbidden": ErrorCode(
        what="Card {card} is not measured now, {why}.",
        next_step="Ask again when that has passed.",
    ),
    # links
    "address_refused": ErrorCode(
        what="The address {address} cannot be used: {reason}.",
        next_step="Use https://host:port; plain http only on this machine itself.",
    ),
    "peer_away": ErrorCode(
        what="The {peer} at {address} cannot be reached: {reason}.",
        next_step="The agent tries again by itself; check the network if it stays so.",
    ),
    "proxy_refused": ErrorCode(
        what="The proxy {proxy} does not let this program through to the {peer} at {address}: "
        "{reason}.",
        next_step="Give it a name and a password (https_proxy=http://name:password@host:port) in "
        "the agent's environment, or name the host in no_proxy if it can be reached without.",
    ),
    "peer_silent": ErrorCode(
        what="The {peer} at {address} has not answered {request} within {timeout_s} s.",
        next_step="The agent tries again by itself; check the network if it stays so.",
    ),
    "peer_untrusted": ErrorCode(
        what="The {peer} at {address} does not show the certificate that it should: {reason}.",
        next_step="Do not go on: compare the fingerprint with its operator. Nothing was sent.",
    ),
    "peer_unexpected": ErrorCode(
        what="The {peer} at {address} answered {request} with something else: {reason}.",
        next_step="The agent tries again; if it stays so, tell the operator of the {peer}.",
    ),
    "peer_refused": ErrorCode(
        what="The {peer} refused {request}: {said} [{refusal}]",
        next_step="{advice}",
    ),
    # grants, leases, blobs
    "grant_unusable": ErrorCode(
        what="The coordinator sent a grant that is of no use here: {reason}.",
        next_step="The agent does not use it; tell the coordinator's operator if it goes on.",
    ),
    "grant_closed": ErrorCode(
        what="The grant {grant} is over; its key and its blobs are gone.",
        next_step="Nothing to do: the next contact brings a new grant.",
    ),
    "lease_unusable": ErrorCode(
        what="The lab sent a lease that makes no sense: {reason}.",
        next_step=_LOOK_AT_LAB,
    ),
    "blob_is_false": ErrorCode(
        what="The lab sent bytes for blob {blob} that do not match its name (chunk {chunk}).",
        next_step=_LOOK_AT_LAB,
    ),
    "blob_unknown": ErrorCode(
        what="The blob {blob} is not whole in the cache.",
        next_step="Nothing to do: it is fetched again.",
    ),
    "cache_full": ErrorCode(
        what="A blob of {needed_bytes} bytes does not fit into the cache of {limit_bytes} bytes.",
        next_step="Raise `cache.limit_bytes` to be given larger tasks.",
    ),
    "cache_failed": ErrorCode(
        what="The cache file {path} cannot be written: {reason}.",
        next_step="Free disk space there, or repair its permissions.",
    ),
    "cache_damaged": ErrorCode(
        what="The cached blob {blob} was changed on disk; it was thrown away.",
        next_step="Check the disk if this happens again; the blob is fetched again.",
    ),
    "disk_floor": ErrorCode(
        what="The disk of {path} has {free_bytes} bytes free; {least_free_bytes} always stay free.",
        next_step="Free disk space, or lower `cache.least_free_bytes`.",
    ),
    "upload_unfinished": ErrorCode(
        what="The lab still misses output {slots} of lease {lease} after it was sent.",
        next_step=_LOOK_AT_LAB,
    ),
    # control
    "control_away": ErrorCode(
        what="No agent listens at {path}.",
        next_step="Start one: gpugoblin agent run --config FILE.",
    ),
    "control_silent": ErrorCode(
        what="The agent at {path} does not answer.",
        next_step="It hangs or is very busy. If that lasts, end it and start it again.",
    ),
    "control_refused": ErrorCode(
        what="The agent at {path} belongs to another user.",
        next_step="Ask as that user, or as root.",
    ),
    "recording_malformed": ErrorCode(
        what="The recording {path} is broken at line {line}: {reason}.",
        next_step="Record it again with this version.",
    ),
    "control_readonly": ErrorCode(
        what="You may look at this agent, and not tell it what to do.",
        next_step="Ask as a member of its group (`control_group` in its settings), or as root.",
    ),
    "control_malformed": ErrorCode(
        what="A control message does not match its declaration: {reason}.",
        next_step="Use a program of the same version as the agent.",
    ),
    "control_version": ErrorCode(
        what="The agent speaks control version {theirs}; this program speaks {ours}.",
        next_step="Use a program of the same version as the agent.",
    ),
    "control_busy": ErrorCode(
        what="The control socket {path} is in use by a living agent.",
        next_step="Use that one (`gpugoblin agent status`), or end it first.",
    ),
    "duration_malformed": ErrorCode(
        what="{text!r} is not a length of time.",
        next_step="Write a number and s, m, h or d, for example 30m or 2h.",
    ),
    "card_unknown": ErrorCode(
        what="This agent has no card {card}; it has {known}.",
        next_step="See `gpugoblin agent status` for the cards.",
    ),
    "display_missing": ErrorCode(
        what="There is no screen to show a window on.",
        next_step="Start it in a desktop session; on a server use `gpugoblin agent run`.",
    ),
    "window_missing": ErrorCode(
        what="The window cannot be shown: {reason}.",
        next_step="Install it with `pip install 'gpugoblin[app,desktop]'` and the libraries of the"
        " desktop (on Debian: libegl1 libxkbcommon0 libxcb-cursor0).",
    ),
    "update_trust_damaged": ErrorCode(
        what="What the update check trusts, in {path}, is damaged: {reason}.",
        next_step="Install gpugoblin's package again.",
    ),
    "update_away": ErrorCode(
        what="{address} did not say whether there is a newer version: {reason}.",
        next_step="It is asked again tomorrow; nothing else depends on it.",
    ),
    "update_stale": ErrorCode(
        what="What {address} says of newer versions has expired: {reason}.",
        next_step=(
            "Look for a newer version by hand: whoever is between you and that server may be"
            " holding news back, or this machine's clock is wrong."
        ),
    ),
    "update_refused": ErrorCode(
        what="What {address} says of newer versions is not to be trusted: {reason}.",
        next_step="Nothing was taken from it. Look for a newer version by hand, and report this.",
    ),
}
