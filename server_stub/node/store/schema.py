"""The tables of a lab node, with their version.

Owns: the data definition. A table's columns are read and written by the module named in its
comment and by no other. A change gets a number and a step in `migrations`; new columns stand last,
as `alter table` puts them. Must not: run anything.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SCHEMA_VERSION", "STATEMENTS"]

SCHEMA_VERSION: Final = 7

STATEMENTS: Final[tuple[str, ...]] = (
    "create table meta(key text primary key, value text not null) without rowid",
    # users.py
    "create table users(id text primary key, name text not null unique, created_s real not null,"
    " revoked_s real, role text not null default 'researcher')",
    "create table token(hash text primary key, user_id text not null, scopes text not null,"
    " created_s real not null, revoked_s real, name text not null default 'default',"
    " expires_s real)",
    # state/arrays.py
    "create table array(id text primary key, owner text not null, source text not null,"
    " kind text not null, path text not null, member text not null, offset_bytes integer not null,"
    " dtype text not null, shape text not null, fingerprint text not null,"
    " stored_bytes integer not null, complete integer not null, ours integer not null,"
    " final_path text not null, overwrite integer not null, job text, number integer,"
    " created_s real not null, retention text not null default 'durable',"
    " read_s real not null default 0)",
    # state/retention.py: what a cache may let go of
    "create index array_cache on array(read_s) where retention = 'cache'",
    "create index array_shared on array(owner, fingerprint)",
    "create index array_of_job on array(job, number) where job is not null",
    # state/jobs.py
    "create table graph(hash text primary key, data blob not null, operators text not null,"
    " dtypes integer not null)",
    "create table job(id text primary key, owner text not null, name text, state text not null,"
    " graph text not null, content text not null, inputs text not null, numeric_class text not"
    " null, assurance text not null, executor text not null, constraints text not null,"
    " priority integer not null, block_axis integer, limits text not null,"
    " speculative integer not null, plan text not null, tasks integer not null,"
    " cursor integer not null default 0, verified integer not null default 0,"
    " used integer not null default 0, by_product integer not null default 0,"
    " by_recompute integer not null default 0, by_equality integer not null default 0,"
    " by_agreement integer not null default 0, lost_expired integer not null default 0,"
    " lost_abandoned integer not null default 0, lost_rejected integer not null default 0,"
    " lost_late integer not null default 0, credits real not null default 0,"
    " bytes_sent integer not null default 0, bytes_received integer not null default 0,"
    " events integer not null default 0, created_s real not null, started_s real,"
    " finished_s real, error_code text not null default '', error_text text not null default '',"
    " lane integer not null default 0, sequence integer not null default 0,"
    " shared text not null default '', parent text)",
    "create index job_parent on job(parent) where parent is not null",
    "create index job_sequence on job(sequence)",
    "create unique index job_name on job(owner, name) where name is not null",
    "create index job_running on job(priority, created_s) where state = 'running'",
    "create table event(job text not null, number integer not null, at_s real not null,"
    " kind text not null, task_index integer, detail text not null, primary key(job, number))"
    " without rowid",
    # state/tasks.py
    "create table task(id integer primary key, public text not null, job text not null,"
    " number integer not null, state text not null, executor text not null,"
    " prio integer not null, affinity integer not null, attempt integer not null default 0,"
    " graph text not null, verify text not null, verify_flops integer not null,"
    " flops integer not null, bytes_moved integer not null, memory_bound_bytes integer not null,"
    " min_memory_bytes integer not null, min_sandbox integer not null, slot_bytes integer not null,"
    " dtypes integer not null default 0, waits integer not null, depth integer not null default 0,"
    " consumers_left integer not null, winner text, verified_by text, since_s real not null,"
    " weight_version integer not null default 0, lane integer not null default 0,"
    " turn integer not null default 0)",
    "create unique index task_number on task(job, number)",
    "create index task_ready on task(executor, lane, turn, id) where state = 'ready'",
    "create index task_ready_near on task(job, affinity, id) where state = 'ready'",
    "create index task_open on task(job, state) where state not in ('used', 'cancelled', 'failed')",
    "create table task_input(task integer not null, slot integer not null, region integer,"
    " producer integer, producer_slot integer, blob text, nbytes integer not null,"
    " primary key(task, slot)) without rowid",
    "create index task_input_region on task_input(region) where region is not null",
    "create index task_input_producer on task_input(producer) where producer is not null",
    "create table task_output(task integer not null, slot integer not null, array integer,"
    " box text not null, dtype text not null, shape text not null, nbytes integer not null,"
    " blob text, primary key(task, slot)) without rowid",
    "create table region(id integer primary key, job text not null, array integer not null,"
    " box text not null, blob text, nbytes integer not null default 0,"
    " stored integer not null default 0, unique(job, array, box))",
    # The record that a result is in its place: one row for each output, written with `used`.
    "create table fold(task integer not null, slot integer not null, job text not null,"
    " array integer, start0 integer not null, stop0 integer not null, box text not null,"
    " blob text not null, at_s real not null, primary key(task, slot)) without rowid",
    "create index fold_place on fold(job, array, start0)",
    # training/rows.py: a job that trains, and the weights that it keeps.
    "create table training(job text primary key, program blob not null, arrays text not null,"
    " done integer not null default 0, seen integer not null default 0,"
    " ended_early text not null default '', first_step integer not null default 0,"
    " keep_every integer not null default 0, geometry text not null) without rowid",
    "create table checkpoint(job text not null, version integer not null, slot integer not null,"
    " blob text not null, primary key(job, version, slot)) without rowid",
    # training/rows.py: which shards of a round were in time, where rounds may end without some
    "create table arrival(job text not null, round integer not null, in_time text not null,"
    " closed_s real not null, primary key(job, round)) without rowid",
    # state/sharing.py
    "create table share(job text not null, name text not null, primary key(job, name))"
    " without rowid",
    # state/quotas.py: what a user may take; the row of the empty name is for everybody else
    "create table quota(owner text primary key, disk_bytes integer, tasks integer,"
    " grid_hours real) without rowid",
    # state/grid_hours.py: what volunteers computed for a user, by month
    "create table grid_use(owner text not null, month text not null, seconds real not null,"
    " primary key(owner, month)) without rowid",
    # state/lanes.py: whose turn it is
    "create table lane(number integer primary key, owner text not null unique,"
    " weight integer not null default 1)",
    "create table fair(executor text not null, lane integer not null, tag integer not null,"
    " stamp integer not null, primary key(executor, lane)) without rowid",
    # state/leases.py
    "create table lease(id text not null unique, task integer not null, job text not null,"
    " role text not null, device text not null, owner text not null, bucket text not null,"
    " grant_id text not null, state text not null, cause text not null default '',"
    " issued_s real not null, until_s real not null, committed_s real, uploaded_s real,"
    " claim blob, engine_build text not null default '', driver text not null default '',"
    " kernel_set text not null default '', sandbox_level text not null default '',"
    " compute_s real not null default 0)",
    "create index lease_task on lease(task)",
    "create index lease_live on lease(until_s) where state in ('issued', 'committed')",
    "create index lease_of_grant on lease(grant_id) where state in ('issued', 'committed')",
    "create table vote(lease text not null, slot integer not null, blob text not null,"
    " nbytes integer not null, held integer not null, primary key(lease, slot)) without rowid",
    "create table vote_call(task integer primary key, device text not null, after_s real not null,"
    " until_s real not null, give_up_s real not null)",
    "create index vote_call_device on vote_call(device)",
    "create table builds(job text not null, build text not null, primary key(job, build))"
    " without rowid",
    # state/tolerances.py
    "create table tolerance(job text not null, graph text not null, measured text not null,"
    " primary key(job, graph)) without rowid",
    # state/biases.py: of each device the signed errors, and the job's secret (of no device)
    "create table bias(job text not null, graph text not null, device text not null,"
    " known text not null, primary key(job, graph, device)) without rowid",
    # state/blobs.py
    "create table blob(hash text primary key, nbytes integer not null, refs integer not null)"
    " without rowid",
    # downloads.py: blobs that are being sent to a client
    "create table lent(id text primary key, blob text not null) without rowid",
    # state/trust.py
    "create table device(key text primary key, owner text not null, bucket text not null,"
    " owner_age_days integer not null, passed integer not null default 0,"
    " proven integer not null default 0, measured_flops_per_s real not null default 0,"
    " rejected integer not null default 0, quarantined_until_s real not null default 0,"
    " seen_s real not null, grant_exp_s real not null, last_job text not null default '',"
    " last_affinity integer not null default 0, memory_bytes integer not null default 0,"
    " max_slot_bytes integer not null default 0, sandbox integer not null default 0,"
    " flops_per_s real not null default 0, bytes_per_s real not null default 0,"
    " catalog_hash text not null default '', dtypes integer not null default 0) without rowid",
    "create table known_grant(id text primary key, device text not null, card integer not null,"
    " owner text not null, bucket text not null, owner_age_days integer not null,"
    " exp_s real not null, max_leases integer not null, first_seen_s real not null)"
    " without rowid",
    "create table revoked(grant_id text primary key) without rowid",
    # By time first: new rows stand together on a few pages, and so do those that are forgotten.
    "create table nonce(until_s real not null, key blob not null, nonce blob not null,"
    " primary key(until_s, key, nonce)) without rowid",
    # state/receipts.py
    "create table outbox(receipt text primary key, grant_id text not null, lease text not null"
    " unique, signature blob not null, units real not null, verified_s real not null,"
    " sent_s real, refused text not null default '') without rowid",
    "create index outbox_open on outbox(verified_s) where sent_s is null",
)
