"""From the message of a training to a running job: checked, planned, admitted, begun.

Owns: everything that is particular to trainings before they start. Must not: change a running job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from gpugoblin.blobs.files import io_errors, require_space
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import NodeError, PlanError
from gpugoblin.graph.dtypes import in_class, needs_of
from gpugoblin.graph.exact import not_exact
from gpugoblin.graph.serialize import encode, graph_hash
from gpugoblin.hashing import JOB, digest
from gpugoblin.ids import fresh_id
from gpugoblin.plan.rounds import RoundsPlan
from gpugoblin.plan.spec import Limits
from gpugoblin.units import format_bytes
from gpugoblin.wire.messages.job import JobInfo, JobSubmit, OutputSave
from gpugoblin.wire.messages.training import TrainingSubmit
from server_stub.node import choosing, estimate, resuming, submission
from server_stub.node.executors.base import Fleet
from server_stub.node.node import Node
from server_stub.node.planning import operators_of, total_bytes_moved, write_limits
from server_stub.node.state import arrays, jobs, retention
from server_stub.node.state.arrays import ArrayRow, NewArray
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Tx
from server_stub.node.training import building, rows
from server_stub.node.training.building import ArraySpecs

__all__ = ["choose", "submit"]

_WHY_EXACT = (
    "several steps in one task are verified by equal bits, as honest results of other cards drift "
    "apart from step to step; numeric_class='exact' is wanted"
)


@dataclass(frozen=True, slots=True)
class _Named:
    """The arrays of a training, by what they are. `carried` lacks a state that is to be zeros."""

    carried: tuple[ArrayRow, ...]
    numbers: tuple[ArrayRow, ...]
    data: tuple[ArrayRow, ...]
    fixed: tuple[ArrayRow, ...]
    evaluated: tuple[ArrayRow, ...]
    keys: tuple[ArrayRow, ...]

    def all(self) -> tuple[ArrayRow, ...]:
        return (
            *self.carried, *self.numbers, *self.data, *self.fixed, *self.evaluated, *self.keys
        )  # fmt: skip

    def specs(self) -> ArraySpecs:
        def pairs(given: Sequence[ArrayRow]) -> tuple[tuple[str, tuple[int, ...]], ...]:
            return tuple((row.dtype, row.shape) for row in given)

        return ArraySpecs(pairs(self.data), pairs(self.fixed), pairs(self.evaluated))


async def submit(node: Node, owner: str, message: TrainingSubmit) -> JobInfo:
    """Starts a training, attaches to one, or (dry run) only says how it would go.

    Raises:
        GraphError, PlanError, NodeError, StoreError: what is wrong with it, by code.
    """
    if message.assurance != "full":
        raise NodeError("audited_not_offered")
    choosing.require_offered(message.constraints)
    named = await node.store.read(lambda tx: _arrays(tx, owner, message))
    await asyncio.gather(*(submission.describe_again(node, row) for row in named.all()))
    graph = building.graph_of(message.graph, message.numeric_class)
    needs = needs_of(graph).mask()
    asked = in_class(needs, message.numeric_class)
    executor, fleet = await choose(node, message.executor, asked, owner)
    limits = Limits(fleet.memory_bytes, fleet.threads, min(fleet.slot_bytes, fleet.memory_bytes))
    plan, specs = await asyncio.to_thread(_plan, message, named.specs(), limits, executor)
    _require_class(message, plan)
    local = await node.local.capabilities()
    summary = plan.summary()
    write = await asyncio.to_thread(node.disk.bytes_per_s, summary.bytes_out)
    moved = await asyncio.to_thread(total_bytes_moved, plan)
    found = estimate.times(
        summary, moved, executor, local, fleet, node.settings.grid_startup_s, write
    )
    held = limits.memory_bytes if executor == "local" else 2 * summary.memory_bound_bytes
    reply = estimate.as_reply(summary, found, executor, held)
    content = _content(message, named)
    if message.dry_run:
        return submission.planned(node, owner, message.name, graph, content, reply)
    attached = await node.store.read(
        lambda tx: submission.same_job(tx, owner, message.name, content)
    )
    if attached is not None:
        return await node.store.read(lambda tx: jobs.info(tx, attached, attached=True))
    saves = tuple(OutputSave() for _ in plan.outputs)
    # The weights of two rounds, and of every version that is kept.
    kept = 3 + (message.steps // message.keep_every if message.keep_every else 0)
    held_bytes = kept * sum(spec.nbytes for spec in plan.carried)
    like = JobSubmit(
        b"", (), saves, message.name, executor=message.executor, constraints=message.constraints,
        priority=message.priority,
    )  # fmt: skip
    resumed = await resuming.take_up(node, owner, like, content)
    if resumed is not None:
        return resumed
    new = jobs.NewJob(
        owner=owner, name=message.name, graph=encode(graph), graph_hash=str(graph_hash(graph)),
        operators=operators_of(graph), dtypes=needs, content=content, inputs=(), outputs=(),
        numeric_class=message.numeric_class, assurance=message.assurance, executor=executor,
        constraints=message.constraints, priority=message.priority, block_axis=None,
        limits=write_limits(limits), speculative=0, plan=reply,
    )  # fmt: skip
    program = msgspec.json.encode(message)
    known = msgspec.json.encode(specs).decode()

    def also(step: Step, job: str) -> None:
        row = rows.TrainingRow(
            job, program, known, 0, 0, "", message.first_step, message.keep_every, _geometry(plan)
        )
        rows.add(step, row)

    async with submission.admitted(node, owner, message.name, saves, plan, held_bytes) as claim:
        new = replace(new, inputs=await _inputs(node, owner, plan, named))
        return await submission.begin(node, new, saves, plan, claim, also)


def _arrays(tx: Tx, owner: str, message: TrainingSubmit) -> _Named:
    def load(names: Sequence[str]) -> tuple[ArrayRow, ...]:
        found = tuple(arrays.of_owner(tx, owner, name) for name in names)
        for row in found:
            retention.require_kept(row)
            if not row.complete:
                raise NodeError(
                    "array_incomplete", array=row.id, stored_bytes=row.stored_bytes,
                    expected_bytes=row.nbytes,
                )  # fmt: skip
        return found

    flat = (message.parameters, message.buffers, message.counts)
    wanted = message.evaluation
    return _Named(
        carried=load([name for name in flat if name is not None] + list(message.state)),
        numbers=load([message.steps_array, message.keys]),
        data=load(message.data),
        fixed=load(message.fixed),
        evaluated=load(wanted.data if wanted else ()),
        keys=load([wanted.keys] if wanted and wanted.keys else []),
    )


def _require_class(message: TrainingSubmit, plan: RoundsPlan) -> None:
    if message.numeric_class != "exact":
        return
    for graph in plan.graphs():
        culprit = not_exact(graph)
        if culprit is not None:
            raise NodeError("class_not_for_graph", operator=culprit)


async def choose(node: Node, wanted: str, needs: int, owner: str) -> tuple[str, Fleet]:
    """Where it runs: on the grid where that is wished or devices are known, else on the lab's own
    machines."""
    grid = await node.grid.capabilities(needs)
    if wanted == "grid":
        choosing.require_confirmed(node)
        await choosing.require_hours(node, owner)
    if wanted == "grid" or (
        wanted == "auto"
        and choosing.may_leave(node)
        and await choosing.has_hours(node, owner)
        and (grid.engines or not node.settings.local_engine)
    ):
        return "grid", grid
    if wanted == "ray" or (
        wanted == "auto" and not node.settings.local_engine and node.ray is not None
    ):
        choosing.require_ray(node)
        return "ray", await choosing.fleet_of(node, "ray", needs)
    choosing.require_local(node)
    return "local", await node.local.capabilities()


def _plan(
    message: TrainingSubmit, specs: ArraySpecs, limits: Limits, executor: str
) -> tuple[RoundsPlan, ArraySpecs]:
    """The plan whose micro-batches are tasks, or, where no engine holds them, one in stages."""
    if message.local is not None and message.numeric_class != "exact":
        raise PlanError("training_malformed", reason=_WHY_EXACT)
    whole = building.whole_plan(message, specs)
    if not _misfit(whole, limits):
        return whole, specs
    if message.local is not None:
        reason = "Local-step rounds need a model that an engine holds; fewer local steps need less."
        raise _too_large(_misfit(whole, limits), limits, executor, reason)
    cut = msgspec.structs.replace(specs, stages_within=limits)
    try:
        plan = building.staged(message, cut, limits)
    except PlanError as error:
        raise _too_large(_misfit(whole, limits), limits, executor, str(error)) from error
    needed = _misfit(plan, limits)
    if needed:
        reason = "Its stages fit, but not the step of its largest tensor."
        raise _too_large(needed, limits, executor, reason)
    return plan, cut


def _misfit(plan: RoundsPlan, limits: Limits) -> int:
    """Bytes of the largest task where one does not fit, else 0."""
    largest = max(
        spec.nbytes for graph in plan.graphs() for spec in (*graph.inputs, *graph.output_specs())
    )
    needed = plan.summary().memory_bound_bytes
    fits = needed <= limits.memory_bytes and largest <= limits.slot_bytes
    return 0 if fits else max(needed, largest)


def _too_large(needed: int, limits: Limits, executor: str, reason: str) -> NodeError:
    return NodeError(
        "training_does_not_fit", needed=format_bytes(needed), executor=executor, reason=reason,
        available=format_bytes(limits.memory_bytes), largest=format_bytes(limits.slot_bytes),
    )  # fmt: skip


def _geometry(plan: RoundsPlan) -> rows.Geometry:
    held = plan.evaluation
    every, extra = (held.every, len(held.items)) if held else (0, 0)
    return rows.Geometry(
        plan.lead, plan.round_tasks, every, extra, plan.steps, len(plan.carried)
    )  # fmt: skip


def _content(message: TrainingSubmit, named: _Named) -> str:
    """The name of the computation: everything that the result follows from."""
    bare = msgspec.structs.replace(
        message, name=None, executor="auto", priority=0, dry_run=False, keep_every=0,
        local=message.local and msgspec.structs.replace(message.local, chosen=None),
    )  # fmt: skip
    program = msgspec.to_builtins(bare)
    for field in ("parameters", "buffers", "counts", "state", "steps_array", "keys", "data",
                  "fixed"):  # fmt: skip
        program.pop(field)
    if bare.evaluation is not None:
        program["evaluation"].pop("data")
        program["evaluation"].pop("keys")
    parts = [msgspec.json.encode(program), *(row.fingerprint.encode() for row in named.all())]
    framed = [part for item in parts for part in (len(item).to_bytes(8, "little"), item)]
    return digest(JOB, framed)


async def _inputs(node: Node, owner: str, plan: RoundsPlan, named: _Named) -> list[str]:
    """The job's input arrays in the plan's order, each as the plan wants it."""
    carried = list(named.carried)
    for spec in plan.flat[len(carried) :]:
        carried.append(await _zeros(node, owner, spec))
    found = [
        *carried, *named.numbers, *named.data, *named.fixed, *named.evaluated, *named.keys
    ]  # fmt: skip
    if len(found) != len(plan.inputs):
        raise NodeError(
            "inputs_mismatch", wanted=len(plan.inputs), outputs=len(plan.outputs),
            found=len(found), saves=len(plan.outputs),
        )  # fmt: skip
    for number, (row, spec) in enumerate(zip(found, plan.inputs, strict=True)):
        if (row.dtype, row.shape) != (spec.dtype, spec.shape):
            raise NodeError(
                "array_mismatch", number=number, wanted=spec,
                found=f"{row.dtype}[{', '.join(map(str, row.shape))}]",
            )  # fmt: skip
    return [row.id for row in found]


async def _zeros(node: Node, owner: str, spec: TensorSpec) -> ArrayRow:
    """An array of zeros: a file without blocks, shared by all trainings of this owner."""
    array = fresh_id("array")
    path = node.settings.arrays_root / f"{array}.raw"
    print_ = digest(JOB, [b"zeros", str(spec).encode()])
    new = NewArray(
        id=array, owner=owner, source="upload", kind="raw", path=str(path), member="",
        offset_bytes=0, dtype=spec.dtype, shape=spec.shape, fingerprint=print_,
        stored_bytes=spec.nbytes, complete=True, ours=True, final_path=str(path),
    )  # fmt: skip

    def make() -> None:
        require_space(node.settings.arrays_root, 0, node.settings.reserve_bytes)
        with io_errors(path):
            path.touch(0o600)
            with path.open("r+b") as file:
                file.truncate(spec.nbytes)

    await asyncio.to_thread(make)
    row = await node.handle(lambda step: arrays.add_input(step, new))
    if row.id != array:
        await asyncio.to_thread(path.unlink, True)
    return row
