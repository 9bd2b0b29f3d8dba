"""Error codes of the family `node`."""

from __future__ import annotations

from gpugoblin.error_codes.spec import ErrorCode

__all__ = ["CODES"]

CODES: dict[str, ErrorCode] = {
    # Configuration and start.
    "state_dir_taken": ErrorCode(
        what="Another lab node is running on the state directory {path}.",
        next_step="Stop it first, or give this node a directory of its own.",
    ),
    "address_in_use": ErrorCode(
        what="The node cannot listen on {address}: {reason}.",
        next_step="Stop the other program, or choose another port or socket in the configuration.",
    ),
    "database_version": ErrorCode(
        what="The node's database has version {found}; this program needs version {wanted}.",
        next_step="Use the program that made the database, or start with a new state directory.",
    ),
    "database_older": ErrorCode(
        what="The node's database has version {found}; this program needs version {wanted}.",
        next_step="Stop the node, if one runs, and run `gpugoblin node upgrade`: it keeps a copy"
        " of the database as it is.",
    ),
    "database_newer": ErrorCode(
        what="The node's database has version {found}, from a newer program; this one knows"
        " version {wanted}. Nothing was changed.",
        next_step="Install the newer program again, or put back the copy of the database that the"
        " upgrade left beside it.",
    ),
    "upgrade_failed": ErrorCode(
        what="The database {path} could not be brought from version {found} to {wanted}: {reason}."
        " It is as it was.",
        next_step="Remove the cause (often a full disk), then run `gpugoblin node upgrade` again.",
    ),
    "database_missing": ErrorCode(
        what="The node's database {path} is missing or empty. What jobs left lies in {arrays} and"
        " beside it.",
        next_step="Is state_dir right, and its disk mounted? Restore a backup; to begin without"
        " what the database knew, move `arrays` and `blobs` away.",
    ),
    "database_damaged": ErrorCode(
        what="The node's database {path} cannot be used: {reason}.",
        next_step="Restore the state directory from a backup; nothing in it was changed.",
    ),
    "database_failed": ErrorCode(
        what="The node's database cannot be written: {reason}.",
        next_step="Make space on the state directory's disk; nothing that was answered is lost.",
    ),
    "database_locked": ErrorCode(
        what="Another program has held the node's database for more than {wait_s} s: {reason}.",
        next_step="End that program (a copy, a shell of SQLite); the node goes on by itself, and"
        " nothing that was answered is lost.",
    ),
    "state_dir_moved": ErrorCode(
        what="The node's state directory {path} is not where it was when the node was started.",
        next_step="Put it back, or correct state_dir in the configuration; then start the node. All"
        " that was verified is in the directory.",
    ),
    "state_dir_shared": ErrorCode(
        what="The state directory {path} is that of a coordinator.",
        next_step="Give the node a directory of its own, which the coordinator cannot read: it must"
        " not have research data within its reach.",
    ),
    "state_dir_empty": ErrorCode(
        what="The configuration names the lab {lab}, but there is no node.key in {path}.",
        next_step="Is the disk mounted, and state_dir right? Without its key the node is unknown to"
        " the coordinator: restore it from a backup, or clear `lab` and register again.",
    ),
    # Copies of a node.
    "backup_target_taken": ErrorCode(
        what="{path} cannot take a backup: {reason}.",
        next_step="Name a directory that does not exist yet, or an empty one.",
    ),
    "backup_target_full": ErrorCode(
        what="The backup needs {needed_bytes} bytes at {path}, where {free_bytes} are free.",
        next_step="Make space there or name another disk; the node was not disturbed, and nothing"
        " of the backup was kept.",
    ),
    "backup_failed": ErrorCode(
        what="The backup could not be written to {path}: {reason}.",
        next_step="Check the disk and the permissions there; nothing of the backup was kept.",
    ),
    "backup_busy": ErrorCode(
        what="Another backup of {path} is being made.",
        next_step="Wait until it has ended.",
    ),
    "backup_incomplete": ErrorCode(
        what="{path} is no complete backup of a lab node: {reason}.",
        next_step="Use another backup; a backup that was interrupted has no end in its list.",
    ),
    "backup_damaged": ErrorCode(
        what="The file {file} of the backup {path} is not what was backed up: {reason}.",
        next_step="Check the disk that holds the backup, or use another one; nothing was restored.",
    ),
    "restore_target_taken": ErrorCode(
        what="{path} is there already; a node is restored into an empty place only.",
        next_step="Name another place, or move away what is there.",
    ),
    # Requests.
    "not_authenticated": ErrorCode(
        what="The request carries no token that this lab node knows.",
        next_step="Ask the lab for a token made with `gpugoblin node user add`.",
    ),
    "token_revoked": ErrorCode(
        what="The token of {name} has been revoked. What it was sending has not been kept.",
        next_step="Ask the lab for a new one; your jobs are still there.",
    ),
    "token_expired": ErrorCode(
        what="The token {token!r} of {name} has expired. What it was sending has not been kept.",
        next_step="Ask the lab for a new one; your jobs are still there.",
    ),
    "user_revoked": ErrorCode(
        what="The lab has revoked {name}. What was being sent has not been kept.",
        next_step="Ask the lab for a token, or for the role back; your jobs are still there.",
    ),
    "not_the_owner": ErrorCode(
        what="The job {job} belongs to {owner}, who lets you see it only.",
        next_step="Ask {owner}, or an administrator of the lab.",
    ),
    "quota_disk": ErrorCode(
        what="{owner} would have {needed} on the lab node, promised results included; the quota is"
        " {limit}.",
        next_step="Delete jobs whose results you have fetched (`job.delete()`), or ask an"
        " administrator for `gpugoblin node quota set`.",
    ),
    "quota_tasks": ErrorCode(
        what="{owner} would have {needed} tasks that are not done; the quota is {limit}.",
        next_step="Wait for jobs of yours, cancel some, or ask an administrator for"
        " `gpugoblin node quota set`.",
    ),
    "quota_grid_hours": ErrorCode(
        what="{owner} has used {used} hours of volunteers this month (UTC); the quota is {limit}.",
        next_step="What volunteers have begun ends; the rest goes on next month, or when an"
        " administrator allows more (`gpugoblin node quota set --grid-hours`). Jobs on machines of"
        ' the lab (`executor="local"` or `"ray"`) cost none.',
    ),
    "validator_unknown": ErrorCode(
        what="The lab node knows no validator {key}.",
        next_step="Its administrator names it with `gpugoblin node validator add NAME --key KEY`.",
    ),
    "validator_caught": ErrorCode(
        what="The validator {name} accepted a result that the lab node found wrong, and is not"
        " asked any more.",
        next_step="Find out why (a damaged machine, another version of a library); then"
        " `gpugoblin node validator add` lets it judge again.",
    ),
    "validator_differs": ErrorCode(
        what="The validator has gpugoblin {found}; the lab node has {wanted}, or another catalog.",
        next_step="Install the node's version on the validator.",
    ),
    "validator_lost": ErrorCode(
        what="The validator {name} has not answered; the lab node judges itself.",
        next_step="Nothing is to be done; see whether the validator runs and reaches the node.",
    ),
    "node_away": ErrorCode(
        what="The lab node at {address} does not answer ({reason}).",
        next_step="Check the address and the certificate; the validator asks again by itself.",
    ),
    "parent_ended": ErrorCode(
        what="The parent {job} has failed or was cancelled, so its children are not begun.",
        next_step="Submit the parent again first, or submit this job without a parent.",
    ),
    "share_too_wide": ErrorCode(
        what="A job can be shared with {limit} users by name; these are {count}.",
        next_step="Share it with the whole lab: `job.share(lab=True)`.",
    ),
    "token_unknown": ErrorCode(
        what="{name} has no token {token!r} that works.",
        next_step="List them with `gpugoblin node user list`.",
    ),
    "not_permitted": ErrorCode(
        what="The token does not permit {scope!r}.",
        next_step="Ask the lab for a token with that scope.",
    ),
    "not_found": ErrorCode(
        what="The lab node has nothing at {path}.",
        next_step="Check that client and node are of versions that fit together.",
    ),
    "method_not_allowed": ErrorCode(
        what="{method} is not possible at {path}.",
        next_step="Check that client and node are of versions that fit together.",
    ),
    "body_too_large": ErrorCode(
        what="The request's body has {size} bytes; {limit} are accepted here.",
        next_step="Send less at a time.",
    ),
    "length_required": ErrorCode(
        what="The request does not say how long its body is.",
        next_step="Send a Content-Length header.",
    ),
    "parameter_invalid": ErrorCode(
        what="The parameter {name} = {value!r} is not valid: {reason}.",
        next_step="Correct the parameter.",
    ),
    "internal": ErrorCode(
        what="The lab node failed while it handled the request ({kind}).",
        next_step="The node's log says more; please report it.",
    ),
    "shutting_down": ErrorCode(
        what="The lab node is stopping.",
        next_step="Ask again when it has been started.",
    ),
    # Arrays and jobs.
    "unknown_array": ErrorCode(
        what="There is no array {array} of yours on this node.",
        next_step="Open or send the array again.",
    ),
    "result_collected": ErrorCode(
        what="The result {array} of the job {job} was kept as a cache, and is gone: nobody had read"
        " it for long, or its space was needed.",
        next_step="Submit the same computation again (it is computed again), or with"
        ' `retention="durable"` for a result that stays.',
    ),
    "array_incomplete": ErrorCode(
        what="The array {array} is not complete: it has {stored_bytes} of {expected_bytes} bytes.",
        next_step="Send the rest before you submit the job.",
    ),
    "array_mismatch": ErrorCode(
        what="Input {number} of the graph is {wanted}, but its array is {found}.",
        next_step="Give the graph an array of its own dtype and shape.",
    ),
    "array_differs": ErrorCode(
        what="The file {path} holds {found}, not the {wanted} that was announced.",
        next_step="Open the file again, or check that it is the one that was meant.",
    ),
    "inputs_mismatch": ErrorCode(
        what="The graph has {wanted} inputs and {outputs} outputs; the job names {found} arrays and"
        " {saves} places.",
        next_step="Name one array an input and one place an output.",
    ),
    "input_changed": ErrorCode(
        what="An input array has changed while the job was running (task {task}).",
        next_step="Leave input files alone until the job has ended, and submit it again.",
    ),
    "init_refused": ErrorCode(
        what="{path} cannot be written: {reason}.",
        next_step="Name places that you may write with `--config` and `--state-dir`, or run this "
        "as a user who may write there.",
    ),
    "file_not_local": ErrorCode(
        what="Only the node's own user may name files of its machine, over its Unix socket.",
        next_step="Send the array and fetch the result; or, if all who may open the socket may see "
        "and change what the node may, set `socket_files = true` in the node's configuration.",
    ),
    "output_path": ErrorCode(
        what="The output cannot be kept at {path!r}: {reason}.",
        next_step="Choose an absolute path in a directory that the node may write.",
    ),
    "unknown_job": ErrorCode(
        what="There is no job {job!r} of yours on this node.",
        next_step="List your jobs with `gg.jobs()` or `gpugoblin jobs`.",
    ),
    "job_not_kept": ErrorCode(
        what="Nothing is kept from which the job {job} could go on here.",
        next_step="Submit the same computation again from Python; `gpugoblin job {job}` says why "
        "it ended.",
    ),
    "job_name_taken": ErrorCode(
        what="The name {name!r} belongs to another computation of yours ({job}).",
        next_step="Choose another name, pass overwrite=True to replace that job, or delete it.",
    ),
    "training_not_finite": ErrorCode(
        what="At {turn} {step} (the first is 0), {what} is not finite; the weights before it are "
        "kept.",
        next_step="Look for NaN in the data and for a rate that is too large; run.load_into(model) "
        "gives the last good weights, and resume= goes on from them.",
    ),
    "training_does_not_fit": ErrorCode(
        what="A task of this training needs {needed}; the {executor} executor's engines offer "
        "{available} ({largest} in one tensor), and stages do not help: {reason}",
        next_step="Choose a smaller micro_batch, make its largest layer smaller, or lend engines "
        "with more memory.",
    ),
    "version_gone": ErrorCode(
        what="The weights after {version} steps are not kept here (kept: {known}).",
        next_step="Ask for the newest ones, or train with checkpoint_every=.",
    ),
    "not_a_training": ErrorCode(
        what="The job {job!r} is no training.",
        next_step="Find it with gg.jobs(), and read its results with job.array.",
    ),
    "job_not_done": ErrorCode(
        what="The job {job} is {state}; this needs a finished one.",
        next_step="Wait until it is done.",
    ),
    "region_not_verified": ErrorCode(
        what="Not every part of the region {start} to {stop} is verified yet.",
        next_step="Read it again later, or wait for the job.",
    ),
    "result_damaged": ErrorCode(
        what="In the region {start} to {stop} of {path} is not what was verified any more: the lab"
        " node's disk damaged it. {tasks} tasks are computed again.",
        next_step="Wait for the job, then read again; `gpugoblin node fsck` looks at everything.",
    ),
    "region_invalid": ErrorCode(
        what="The region {start} to {stop} does not lie in an array of shape {shape}.",
        next_step="Correct the region.",
    ),
    "output_too_large": ErrorCode(
        what="The output has {nbytes} bytes; at most {limit} are sent as one container.",
        next_step="Read it by regions, or have it saved to a file.",
    ),
    "class_not_for_graph": ErrorCode(
        what="The numeric class `exact` does not have the operator {operator} on floats.",
        next_step="Use the class float32, or write the computation without it.",
    ),
    "audited_not_offered": ErrorCode(
        what="The assurance `audited` is not offered by this version of the lab node.",
        next_step="Use the assurance `full`.",
    ),
    "link_not_offered": ErrorCode(
        what="The least link of {wanted} bytes a second is not offered by this version of the lab "
        "node: it leases to devices whatever their links.",
        next_step="Leave link= out of gg.where(...).",
    ),
    "executor_unavailable": ErrorCode(
        what="The executor {executor!r} cannot take the job: {reason}.",
        next_step="Choose another executor, or change the lab node's configuration.",
    ),
    "not_confirmed": ErrorCode(
        what="This lab has not confirmed that its jobs may leave it: volunteers see the numbers"
        " that they compute with (without names, not encrypted).",
        next_step="Set confirmed_no_confidential_data = true in the node's configuration, if no"
        " confidential, personal or medical data will be sent.",
    ),
    "slower_than_alone": ErrorCode(
        what="On the grid the job would take about {grid}; this node alone needs about {alone}.",
        next_step="Run it with executor='local', or force it with force=True.",
    ),
    "job_too_large": ErrorCode(
        what="A task of this job needs {needed} of memory, more than the {available} of the"
        " executor {executor!r}.",
        next_step="Give the engine more memory in the configuration, or cut the job smaller.",
    ),
    "result_gone": ErrorCode(
        what="The unfinished result {path} is not there any more.",
        next_step="If its disk is not mounted, mount it, and retry the job, which goes on. Else"
        " submit it again: it starts anew.",
    ),
    "results_do_not_fit": ErrorCode(
        what="The results need {needed} on the disk of {path}, where {free} are free.",
        next_step="Make space, or have the results saved on another disk.",
    ),
    # Devices.
    "grant_missing": ErrorCode(
        what="The request carries no grant of the coordinator.",
        next_step="Ask the coordinator for a grant first.",
    ),
    "grant_revoked": ErrorCode(
        what="The grant {grant} has been revoked.",
        next_step="Contact the coordinator.",
    ),
    "no_volunteers": ErrorCode(
        what="This lab node does not take volunteers: no coordinator has given it a key yet.",
        next_step="Come back later; the node learns the key when it reaches its coordinator.",
    ),
    "unknown_lease": ErrorCode(
        what="The lease {lease} is not one of this device's, or its result is not awaited.",
        next_step="Ask for a new lease.",
    ),
    "blob_not_leased": ErrorCode(
        what="The blob is not an input of the lease that the ticket names.",
        next_step="Read only what the lease names.",
    ),
    # The coordinator.
    "coordinator_away": ErrorCode(
        what="The coordinator at {address} does not answer: {reason}.",
        next_step="Nothing is needed: local jobs and running grants go on, receipts are kept.",
    ),
    "coordinator_key_differs": ErrorCode(
        what="The coordinator shows the key {found}..., but {pinned}... is in the configuration.",
        next_step="Ask the coordinator's operator; correct coordinator_key if the key was changed.",
    ),
    # The lab's Ray cluster.
    "ray_missing": ErrorCode(
        what="The configuration names a Ray cluster, but Ray is not installed here: {reason}.",
        next_step="Install it with `pip install 'gpugoblin[ray]'`. Other executors go on.",
    ),
    "ray_unreachable": ErrorCode(
        what="The Ray cluster at {address} cannot be used: {reason}.",
        next_step="Start Ray on its head and on this machine again (`ray start`); the node tries by"
        " itself. Other executors go on, and nothing that was verified is lost.",
    ),
    "ray_no_worker": ErrorCode(
        what="The Ray cluster at {address} has no machine that this node may use.",
        next_step="Start Ray on one (`ray start --address=...`); ray_threads and ray_resource in"
        " the configuration say which machines are used.",
    ),
    "ray_worker_failed": ErrorCode(
        what="No worker could be started on the Ray machine {machine}: {reason}.",
        next_step="Install gpugoblin with the extra `node` in the environment that Ray runs in"
        " there; the node tries again.",
    ),
    "ray_worker_differs": ErrorCode(
        what="The Ray machine {host} has gpugoblin {found} or another catalog, this node {wanted}.",
        next_step="Install the same version on both.",
    ),
    "ray_worker_lost": ErrorCode(
        what="A machine of the Ray cluster is gone: {reason}.",
        next_step="Nothing is needed: its tasks are computed elsewhere.",
    ),
    "ray_item_refused": ErrorCode(
        what="A machine of the Ray cluster cannot do the item {work}: not all of it is in blobs.",
        next_step="Report this; the task is computed elsewhere.",
    ),
    "register_no_port": ErrorCode(
        what="The node has no HTTPS port, so no contributor could reach it.",
        next_step="Set listen_port (8441 is usual) and listen_host (0.0.0.0) in the configuration.",
    ),
    "registered_otherwise": ErrorCode(
        what="The coordinator has another {what} of this lab: {there}, not {here}.",
        next_step="Ask the coordinator's operator to register this one; the configuration was left"
        " as it is.",
    ),
    # Users.
    "user_exists": ErrorCode(
        what="The user {name!r} has a token {token!r} already.",
        next_step="Revoke it first, or give the new one a name of its own with --token.",
    ),
    "user_unknown": ErrorCode(
        what="There is no user {name!r}.",
        next_step="List the users with `gpugoblin node user list`.",
    ),
}
