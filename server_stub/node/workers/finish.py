"""The last stage of a computed item: copy, hash, check, write, answer.

Owns: what becomes of an engine's outputs. Must not: judge bytes that the engine can still change,
or answer before what it says is on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from app.host.arena import Slot
from gpugoblin.blobs.chunk import BlobHasher, blob_hash
from gpugoblin.blobs.store import BlobStore
from gpugoblin.catalog.spec import Array
from gpugoblin.errors import EngineError
from gpugoblin.graph.ir import Graph
from gpugoblin.units import MIB
from gpugoblin.verify.compare import judge_recomputed, signed_error, unless_biased
from gpugoblin.verify.forms import FactorForm, ProductForm, factor_form
from gpugoblin.verify.product import ProductCheck, project_right
from gpugoblin.verify.residual import check_factors
from server_stub.node.work import (
    BlobInput,
    BlobOutput,
    Checked,
    Compute,
    Computed,
    Output,
    Recompute,
    Reply,
)
from server_stub.node.workers.engine_room import Outcome
from server_stub.node.workers.products import Hands, band_rows, load_array
from server_stub.node.workers.residents import Resident, Residents
from server_stub.node.workers.streams import Sinks, open_input

__all__ = ["Finisher", "Job"]

_PIECE_BYTES: Final = MIB


@dataclass(frozen=True, slots=True)
class Job:
    """An item on its way, with the slots that it holds."""

    item: Compute | Recompute
    graph: Graph
    form: ProductForm | None
    inputs: tuple[Resident, ...]
    slots: tuple[Slot, ...]


class Finisher:
    """Finishes items, one at a time."""

    def __init__(self, residents: Residents, store: BlobStore) -> None:
        self._residents = residents
        self._store = store
        self._hands = Hands()

    def finish(self, job: Job, outcome: Outcome) -> Reply:
        """The answer to an item that the engine has computed.

        Raises:
            GoblinError: the item failed.
        """
        if isinstance(job.item, Recompute):
            return self._recomputed(job, job.item, outcome)
        if job.item.verify == "product" and job.form is not None:
            return self._product(job, job.item, job.form, outcome)
        factors = factor_form(job.graph) if job.item.verify == "product" else None
        if factors is not None:
            return self._factors(job, job.item, factors, outcome)
        blobs = [self._keep(job, number) for number in range(len(job.slots))]
        return _computed(job, job.item, outcome, blobs, verified=False, code="")

    def _array(self, job: Job, number: int) -> Array:
        """Input `number`, in place: the engine can only read it."""
        spec = job.graph.inputs[number]
        with self._residents.lock:
            return self._residents.inputs.array(job.inputs[number].slot, spec.dtype, spec.shape)

    def _output(self, job: Job, number: int) -> Array:
        spec = job.graph.output_specs()[number]
        with self._residents.lock:
            return self._residents.outputs.array(job.slots[number], spec.dtype, spec.shape)

    def _keep(self, job: Job, number: int) -> str:
        """Stores an output as a blob."""
        with self._residents.lock:
            pieces = self._residents.outputs.chunks(job.slots[number], _PIECE_BYTES)
        return self._store.put_stream(pieces, job.slots[number].nbytes).blob

    # -- products ---------------------------------------------------------------------------

    def _product(self, job: Job, item: Compute, form: ProductForm, outcome: Outcome) -> Computed:
        right = job.inputs[form.right]
        hands = self._hands.get(
            right.key, form, lambda: project_right(form, self._array(job, form.right))
        )
        carry = None if form.carry is None else self._array(job, form.carry)
        left = job.inputs[form.left]
        check = ProductCheck(form, self._array(job, form.left), hands, carry, left.energy)
        blob, good = self._copy_checked(job, item.outputs[0], form, check)
        verdict = check.verdict()
        if good and verdict.accepted:
            return _computed(job, item, outcome, [blob], verified=True, code="")
        if verdict.code == "product_mismatch":
            self._hands.redraw(right.key, form)
        kept = self._keep(job, 0)
        return _computed(job, item, outcome, [kept], verified=False, code=verdict.code)

    def _copy_checked(
        self, job: Job, place: Output, form: ProductForm, check: ProductCheck
    ) -> tuple[str, bool]:
        """Copies the result row by row, and writes each copy that passes, up to the first that
        does not. Returns the hash of the copies and whether all of them are on disk."""
        source = self._output(job, 0).reshape(form.batch_count * form.rows, form.columns)
        row_bytes = form.columns * source.itemsize
        rows = band_rows(row_bytes, _PIECE_BYTES)
        copy = np.empty((min(rows, max(1, source.shape[0])), form.columns), source.dtype)
        hasher = BlobHasher()
        with Sinks((place,), self._store) as sinks:
            sink = sinks.sinks[0]
            for first in range(0, source.shape[0], rows):
                part = copy[: min(rows, source.shape[0] - first)]
                np.copyto(part, source[first : first + part.shape[0]])
                data = memoryview(part.reshape(-1).view(np.uint8).data)
                hasher.update(data)
                if not check.take(first, part):
                    return "", False
                if data.nbytes:
                    sink.write(first * row_bytes, data)
            if not check.verdict().accepted:
                return "", False
            sink.finish()
        return hasher.manifest().blob, True

    # -- factorizations ---------------------------------------------------------------------

    def _factors(self, job: Job, item: Compute, form: FactorForm, outcome: Outcome) -> Computed:
        own = [np.array(self._output(job, number)) for number in range(len(job.slots))]
        inputs = [self._array(job, number) for number in range(len(job.inputs))]
        verdict = check_factors(form, inputs, own)
        good = verdict.accepted
        blobs = self._write_own(item.outputs, own) if good else self._store_own(own)
        return _computed(job, item, outcome, blobs, verified=good, code=verdict.code)

    # -- the validator ----------------------------------------------------------------------

    def _recomputed(self, job: Job, item: Recompute, outcome: Outcome) -> Checked:
        build = outcome.ready.build if outcome.ready is not None else ""
        own = [np.array(self._output(job, number)) for number in range(len(job.slots))]
        if not item.committed:
            blobs = self._write_own(item.outputs, own) if item.fold else self._store_own(own)
            return Checked(item.work, True, "", 0.0, 0.0, tuple(blobs), build)
        committed = [self._committed(blob) for blob in item.committed]
        inputs = [self._array(job, number) for number in range(len(job.inputs))]
        kind: Literal["exact", "float32"] = "exact" if item.numeric_class == "exact" else "float32"
        verdict = judge_recomputed(job.graph, inputs, own, committed, kind, item.tolerance)
        signed = signed_error(
            job.graph, own, committed, kind, verdict, item.secret, item.tolerance
        )  # fmt: skip
        verdict = unless_biased(verdict, item.bias, signed)
        blobs = []
        if verdict.accepted and item.fold:
            self._write(item.outputs, committed)
        elif not verdict.accepted and item.repair:
            blobs = self._write_own(item.outputs, own) if item.fold else self._store_own(own)
        return Checked(
            item.work,
            verdict.accepted,
            verdict.code,
            verdict.error,
            verdict.threshold,
            tuple(blobs),
            build,
            verdict.tolerance,
            signed,
        )

    def _committed(self, blob: BlobInput) -> Array:
        stream = open_input(blob, self._store)
        try:
            return load_array(stream)
        finally:
            stream.close()

    def _store_own(self, own: Sequence[Array]) -> list[str]:
        return [self._store.put(_bytes(array)) for array in own]

    def _write_own(self, places: tuple[Output, ...], own: Sequence[Array]) -> list[str]:
        """Writes outputs where they belong; their names in any case."""
        self._write(places, own)
        return [
            self._store.put(_bytes(array))
            if isinstance(place, BlobOutput)
            else blob_hash(_bytes(array))
            for place, array in zip(places, own, strict=True)
        ]

    def _write(self, places: tuple[Output, ...], arrays: Sequence[Array]) -> None:
        """Into regions of results; outputs that are blobs are in the store already."""
        for place, array in zip(places, arrays, strict=True):
            if isinstance(place, BlobOutput):
                continue
            with Sinks((place,), self._store) as sinks:
                data = _bytes(array)
                if data.nbytes:
                    sinks.sinks[0].write(0, data)
                sinks.sinks[0].finish()


def _bytes(array: Array) -> memoryview:
    return memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _computed(
    job: Job, item: Compute, outcome: Outcome, blobs: list[str], *, verified: bool, code: str
) -> Computed:
    if outcome.done is None or outcome.ready is None:
        raise EngineError("engine_closed", request="result")
    specs = job.graph.output_specs()
    return Computed(
        work=item.work,
        input_blobs=tuple(resident.blob for resident in job.inputs),
        output_blobs=tuple(blobs),
        output_nbytes=tuple(spec.nbytes for spec in specs),
        verified=verified,
        code=code,
        engine_build=outcome.ready.build,
        driver=outcome.ready.driver,
        kernel_set=outcome.ready.kernel_set,
        sandbox_level=outcome.ready.level,
        compute_s=outcome.done.compute_s,
        peak_memory_bytes=outcome.done.peak_memory_bytes,
    )
