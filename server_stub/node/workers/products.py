"""Product checks over streams: nothing but a few bands of rows is in memory.

Owns: projecting a right operand while it is read, checking a result while it goes by, and the
cache of projected panels. Must not: decide: `gpugoblin.verify` does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from gpugoblin.blobs.chunk import BlobHasher
from gpugoblin.catalog.spec import DTYPES, Array
from gpugoblin.units import MIB
from gpugoblin.verify.forms import ProductForm
from gpugoblin.verify.product import ProductCheck, ProductVerdict, project_right
from gpugoblin.verify.projection import (
    ProjectionSum,
    RightHand,
    draw,
)
from server_stub.node.workers.streams import InputStream, require_bytes

__all__ = ["Hands", "band_rows", "check_streams", "load_array", "project_stream"]

_BAND_BYTES: Final = 4 * MIB
_PANELS: Final = 4

HandsKey = tuple[str, ProductForm]


class Hands:
    """Projected panels, by the identity of the right operand and the form that reads it.

    Secrets never leave the process. After a rejection `redraw` forgets the panel, so that nothing
    can be learned from answers about one secret. Shared by all results of a panel until then.
    """

    def __init__(self, capacity: int = _PANELS) -> None:
        self._capacity = capacity
        self._known: OrderedDict[HandsKey, tuple[RightHand, ...]] = OrderedDict()

    def get(
        self, key: str, form: ProductForm, make: Callable[[], tuple[RightHand, ...]]
    ) -> tuple[RightHand, ...]:
        """The panel's hands, drawn now if there are none. `form` counts without its rows."""
        place = self._place(key, form)
        found = self._known.get(place)
        if found is None:
            found = self._known[place] = make()
            while len(self._known) > self._capacity:
                self._known.popitem(last=False)
        self._known.move_to_end(place)
        return found

    def redraw(self, key: str, form: ProductForm) -> None:
        """Forgets the secrets of a panel."""
        self._known.pop(self._place(key, form), None)

    @staticmethod
    def _place(key: str, form: ProductForm) -> HandsKey:
        # Equal in everything that the projection of the right operand depends on.
        return key, ProductForm(
            0, 1, None, False, form.transpose_right, form.batch, 0, form.inner, form.columns,
            form.dtype,
        )  # fmt: skip


def load_array(stream: InputStream) -> Array:
    """A whole input in private memory, with its hash checked where it is known."""
    array = np.empty(stream.shape, DTYPES[stream.dtype])
    target = memoryview(array.reshape(-1).view(np.uint8).data)
    hasher = BlobHasher()
    for start in range(0, stream.nbytes, _BAND_BYTES):
        part = target[start : min(stream.nbytes, start + _BAND_BYTES)]
        stream.read(start, start + part.nbytes, part)
        hasher.update(part)
    require_hash(stream, hasher)
    return array


def require_hash(stream: InputStream, hasher: BlobHasher) -> None:
    """Raises StoreError `array_bytes_changed` when a file's bytes are not those of its task."""
    require_bytes(stream, hasher.manifest().blob)


def band_rows(row_bytes: int, band_bytes: int = _BAND_BYTES) -> int:
    """Rows of a band."""
    return max(1, band_bytes // max(1, row_bytes))


def project_stream(form: ProductForm, stream: InputStream) -> tuple[RightHand, ...]:
    """Draws secrets and projects a right operand, band by band. It is read once, and once more
    where the sizes of its columns ask for it."""
    if form.batch_count != 1 or stream.nbytes <= _BAND_BYTES:
        return project_right(form, load_array(stream))
    total = ProjectionSum(draw(form.columns, form.dtype), form.inner)
    hasher = BlobHasher()
    _project_bands(form, stream, total, hasher)
    require_hash(stream, hasher)
    again = total.scaled()
    if again is not None:
        _project_bands(form, stream, again, None)
        total = again
    return (total.right_hand(),) * max(1, form.batch_count)


def _project_bands(
    form: ProductForm, stream: InputStream, total: ProjectionSum, hasher: BlobHasher | None
) -> None:
    for first, band in _bands(stream, hasher):
        if form.transpose_right:
            total.add_columns(first, band.T)
        else:
            total.add_rows(first, band)


def _bands(stream: InputStream, hasher: BlobHasher | None) -> Iterator[tuple[int, Array]]:
    """Bands of rows of a matrix with the number of their first row, each valid until the next."""
    height, width = stream.shape[-2:]
    row_bytes = width * DTYPES[stream.dtype].itemsize
    rows = band_rows(row_bytes)
    buffer = np.empty((rows, width), DTYPES[stream.dtype])
    for first in range(0, height, rows):
        band = buffer[: min(rows, height - first)]
        target = memoryview(band.reshape(-1).view(np.uint8).data)
        stream.read(first * row_bytes, first * row_bytes + target.nbytes, target)
        if hasher is not None:
            hasher.update(target)
        yield first, band


def check_streams(
    form: ProductForm,
    left: InputStream,
    hands: tuple[RightHand, ...],
    carry: InputStream | None,
    result: InputStream,
    accept: Callable[[int, memoryview], None] | None = None,
) -> ProductVerdict:
    """Checks a result that lies in the store, reading everything once.

    Args:
        accept: called with the offset and bytes of each band that passed, in order, until the
            first that does not.
    """
    if form.transpose_left or form.batch_count != 1:
        return _check_whole(form, left, hands, carry, result, accept)
    item = DTYPES[form.dtype].itemsize
    rows = band_rows(max(form.inner, form.columns) * item)
    left_band = np.empty((rows, form.inner), DTYPES[form.dtype])
    carry_band = np.empty((rows, form.columns), DTYPES[form.dtype])
    result_band = np.empty((rows, form.columns), DTYPES[form.dtype])
    hasher = BlobHasher()
    worst = ProductVerdict(True, 0.0, 0.0)
    for first in range(0, form.rows, rows):
        count = min(rows, form.rows - first)
        hasher.update(_read_rows(left, left_band, first, count))
        part = None
        if carry is not None:
            _read_rows(carry, carry_band, first, count)
            part = carry_band[:count]
        data = _read_rows(result, result_band, first, count)
        check = ProductCheck(form.with_rows(count), left_band[:count], hands[:1], part)
        check.take(0, result_band[:count])
        worst = worst.worse(check.verdict())
        if not worst.accepted:
            return worst
        if accept is not None:
            accept(first * form.columns * item, data)
    require_hash(left, hasher)
    return worst


def _read_rows(stream: InputStream, band: Array, first: int, count: int) -> memoryview:
    part = band[:count]
    data = memoryview(part.reshape(-1).view(np.uint8).data)
    start = first * band.shape[1] * band.itemsize
    if data.nbytes:
        stream.read(start, start + data.nbytes, data)
    return data


def _check_whole(
    form: ProductForm,
    left: InputStream,
    hands: tuple[RightHand, ...],
    carry: InputStream | None,
    result: InputStream,
    accept: Callable[[int, memoryview], None] | None,
) -> ProductVerdict:
    loaded = None if carry is None else load_array(carry)
    check = ProductCheck(form, load_array(left), hands, loaded)
    item = DTYPES[form.dtype].itemsize
    rows = band_rows(form.columns * item, MIB)
    band = np.empty((rows, form.columns), DTYPES[form.dtype])
    total = form.batch_count * form.rows
    for first in range(0, total, rows):
        count = min(rows, total - first)
        data = _read_rows(result, band, first, count)
        if not check.take(first, band[:count]):
            break
        if accept is not None:
            accept(first * form.columns * item, data)
    return check.verdict()
