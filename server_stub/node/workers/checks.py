"""Items that need no engine: describe, prepare, check, compare, fold.

Owns: these five, one at a time. Must not: hold a panel in memory (products are checked as streams),
or answer before what it says is on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from gpugoblin.blobs.chunk import BlobHasher
from gpugoblin.blobs.store import BlobStore
from gpugoblin.catalog.spec import DTYPES, Array, TensorSpec
from gpugoblin.errors import VerifyError
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.serialize import decode
from gpugoblin.units import MIB
from gpugoblin.verify.compare import compare
from gpugoblin.verify.forms import FactorForm, factor_form, product_form
from gpugoblin.verify.residual import check_factors
from server_stub.node.arrays import describe
from server_stub.node.work import (
    BlobInput,
    BlobOutput,
    Check,
    Checked,
    Compare,
    Describe,
    Described,
    Fold,
    Folded,
    Input,
    Output,
    Prepare,
    Prepared,
    Reply,
    Work,
)
from server_stub.node.workers.products import Hands, check_streams, load_array, project_stream
from server_stub.node.workers.streams import InputStream, Sinks, key_of, open_input

__all__ = ["CheckDesk"]

_PIECE_BYTES: Final = 4 * MIB
_AHEAD_BYTES: Final = 32 * MIB


class CheckDesk:
    """Does the items of a check worker."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store
        self._hands = Hands()

    def do(self, work: Work) -> Reply:
        """The answer to an item.

        Raises:
            GoblinError: the item failed.
        """
        if isinstance(work, Describe):
            return Described(work.work, describe(work.kind, work.path, work.member))
        if isinstance(work, Prepare):
            return self._prepare(work)
        if isinstance(work, Check):
            return self._check(work)
        if isinstance(work, Compare):
            return self._compare(work)
        if isinstance(work, Fold):
            self._fold(work.committed, work.outputs)
            return Folded(work.work)
        raise VerifyError("worker_protocol", reason=f"a check worker got a {type(work).__name__}")

    @contextmanager
    def _open(self, source: Input) -> Iterator[InputStream]:
        stream = open_input(source, self._store)
        try:
            yield stream
        finally:
            stream.close()

    def _prepare(self, work: Prepare) -> Prepared:
        with self._open(work.source) as stream, ExitStack() as stack:
            writer = stack.enter_context(self._store.writer(stream.nbytes)) if work.store else None
            hasher = BlobHasher()
            if stream.nbytes >= _AHEAD_BYTES:
                stream.advise()
            buffer = memoryview(bytearray(min(_PIECE_BYTES, max(1, stream.nbytes))))
            for start in range(0, stream.nbytes, _PIECE_BYTES):
                part = buffer[: min(_PIECE_BYTES, stream.nbytes - start)]
                stream.read(start, start + part.nbytes, part)
                if writer is not None:
                    writer.write(part)
                else:
                    hasher.update(part)
            manifest = hasher.manifest() if writer is None else writer.finish()
            return Prepared(work.work, manifest.blob, manifest.nbytes)

    def _check(self, work: Check) -> Checked:
        graph = decode(work.graph)
        _require(work.committed, graph.output_specs())
        factors = factor_form(graph)
        if factors is not None:
            return self._check_factors(work, graph, factors)
        form = product_form(graph)
        if form is None:
            raise VerifyError("not_a_product")
        with ExitStack() as stack:
            streams = [stack.enter_context(self._open(source)) for source in work.inputs]
            _require_streams(streams, graph.inputs)
            result = stack.enter_context(self._open(work.committed[0]))
            fold = work.fold and not isinstance(work.outputs[0], BlobOutput)
            sinks = stack.enter_context(Sinks(work.outputs if fold else (), self._store)).sinks
            right = work.inputs[form.right]
            hands = self._hands.get(
                key_of(right), form, lambda: project_stream(form, streams[form.right])
            )
            verdict = check_streams(
                form,
                streams[form.left],
                hands,
                None if form.carry is None else streams[form.carry],
                result,
                sinks[0].write if sinks else None,
            )
            if verdict.accepted and sinks:
                sinks[0].finish()
        if verdict.code == "product_mismatch":
            self._hands.redraw(key_of(right), form)
        return Checked(work.work, verdict.accepted, verdict.code, verdict.error, verdict.threshold)

    def _check_factors(self, work: Check, graph: Graph, form: FactorForm) -> Checked:
        """Factors are in memory as a whole: an engine had them so, beside what it needed more."""
        with ExitStack() as stack:
            streams = [stack.enter_context(self._open(source)) for source in work.inputs]
            _require_streams(streams, graph.inputs)
            inputs = [load_array(stream) for stream in streams]
        outputs = [self._load(blob) for blob in work.committed]
        verdict = check_factors(form, inputs, outputs)
        if verdict.accepted and work.fold:
            self._fold(work.committed, work.outputs)
        return Checked(work.work, verdict.accepted, verdict.code, verdict.error, verdict.threshold)

    def _compare(self, work: Compare) -> Checked:
        graph = decode(work.graph)
        specs = graph.output_specs()
        _require(work.first, specs)
        _require(work.second, specs)
        if [blob.blob for blob in work.first] == [blob.blob for blob in work.second]:
            return Checked(work.work, True, "", 0.0, 1.0)
        exact = work.numeric_class == "exact" or len(work.inputs) != len(graph.inputs)
        inputs = [] if exact else [self._load(source) for source in work.inputs]
        verdict = compare(
            graph,
            inputs,
            [self._load(blob) for blob in work.first],
            [self._load(blob) for blob in work.second],
            "exact" if exact else "float32",
            work.tolerance,
        )
        return Checked(
            work.work, verdict.accepted, verdict.code, verdict.error, verdict.threshold,
            tolerance=verdict.tolerance,
        )  # fmt: skip

    def _load(self, source: Input) -> Array:
        with self._open(source) as stream:
            return load_array(stream)

    def _fold(self, committed: tuple[BlobInput, ...], outputs: tuple[Output, ...]) -> None:
        if len(committed) != len(outputs):
            raise VerifyError(
                "result_shape", output="count", found=len(committed), expected=len(outputs)
            )
        for blob, place in zip(committed, outputs, strict=True):
            if isinstance(place, BlobOutput):
                continue
            _require((blob,), (TensorSpec(place.dtype, place.shape),))
            with self._open(blob) as stream, Sinks((place,), self._store) as sinks:
                buffer = memoryview(bytearray(min(_PIECE_BYTES, max(1, stream.nbytes))))
                for start in range(0, stream.nbytes, _PIECE_BYTES):
                    part = buffer[: min(_PIECE_BYTES, stream.nbytes - start)]
                    stream.read(start, start + part.nbytes, part)
                    sinks.sinks[0].write(start, part)
                sinks.sinks[0].finish()


def _require(committed: tuple[BlobInput, ...], specs: tuple[TensorSpec, ...]) -> None:
    """Raises VerifyError `result_shape` where blobs are not of the declared outputs."""
    if len(committed) != len(specs):
        raise VerifyError("result_shape", output="count", found=len(committed), expected=len(specs))
    for number, (blob, spec) in enumerate(zip(committed, specs, strict=True)):
        nbytes = spec.count * DTYPES[spec.dtype].itemsize
        if (blob.dtype, blob.shape, blob.nbytes) != (spec.dtype, spec.shape, nbytes):
            found = f"{blob.dtype}{list(blob.shape)} in {blob.nbytes} bytes"
            raise VerifyError("result_shape", output=number, found=found, expected=str(spec))


def _require_streams(streams: list[InputStream], specs: tuple[TensorSpec, ...]) -> None:
    if len(streams) != len(specs):
        raise VerifyError("result_shape", output="inputs", found=len(streams), expected=len(specs))
    for number, (stream, spec) in enumerate(zip(streams, specs, strict=True)):
        if (stream.dtype, stream.shape) != (spec.dtype, spec.shape):
            found = f"{stream.dtype}{list(stream.shape)}"
            raise VerifyError("result_shape", output=number, found=found, expected=str(spec))
