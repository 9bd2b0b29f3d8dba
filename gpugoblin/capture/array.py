"""The lazy array: NumPy's manners, no numbers yet.

Owns: the class `Array`, its operators and methods; what each means is in the modules beside this
one. Names follow the Python array API standard (2024.12) where it has them. Must not: read, send
or compute anything; `save` and `compute` hand the expression to the session in use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Final, NoReturn, Unpack

import numpy as np

from gpugoblin.capture import indexing, products, reducing, selecting, shaping
from gpugoblin.capture.applying import refused
from gpugoblin.capture.caller import Place, caller
from gpugoblin.capture.convert import as_number, memory_value, source_value
from gpugoblin.capture.dtypes import DtypeLike, Number, catalog_dtype
from gpugoblin.capture.elementwise import cast, elementwise
from gpugoblin.capture.expression import Value
from gpugoblin.capture.operators import Operators
from gpugoblin.capture.runner import CURRENT, PathLike, RunningJob, SubmitOptions
from gpugoblin.capture.source import Source
from gpugoblin.capture.ufuncs import SCALAR_OF_UFUNC
from gpugoblin.catalog.spec import FLOATS
from gpugoblin.catalog.spec import Array as NumpyArray
from gpugoblin.errors import CaptureError

__all__ = [
    "API_VERSIONS",
    "DEVICE",
    "Array",
    "ArrayLike",
    "as_value",
    "binary",
    "from_source",
    "operand",
]

DEVICE: Final = "grid"
API_VERSIONS: Final = ("2022.12", "2023.12", "2024.12")


class Array(Operators):
    """A lazy array: a shape, a dtype, and how to compute it.

    Made by `gg.open`, `gg.array` and by computing with other arrays. Nothing runs before `save` or
    `compute`. dtypes: those of the catalog; how they combine stands in `capture/dtypes.py`.
    """

    __slots__ = ("_block_axis", "_value")

    def __init__(self, value: Value, block_axis: int | None = None) -> None:
        self._value = value
        self._block_axis = block_axis

    @property
    def value(self) -> Value:
        """The expression, for those who lower it."""
        return self._value

    @property
    def block_axis(self) -> int | None:
        """The axis along which `gg.map_blocks` wants it cut."""
        return self._block_axis

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, first axis first."""
        return self._value.spec.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype, as NumPy's."""
        return np.dtype(self._value.spec.dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._value.spec.rank

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._value.spec.count

    @property
    def nbytes(self) -> int:
        """What the result takes, in bytes."""
        return self._value.spec.nbytes

    @property
    def device(self) -> str:
        """Always `grid`: where an array is computed is the job's matter, not the program's."""
        return DEVICE

    def to_device(self, device: str, /, *, stream: None = None) -> Array:
        """The array itself; there is one device, `grid`."""
        if device != DEVICE or stream is not None:
            raise refused(
                "to_device", [self._value], f"there is no device {device!r} with a stream",
                'Use "grid"; where a job runs is said with gg.where(...) at save and compute.',
                caller(),
            )  # fmt: skip
        return self

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The module whose functions follow the Python array API standard: `gpugoblin`."""
        if api_version is not None and api_version not in API_VERSIONS:
            raise refused(
                "__array_namespace__", [self._value], f"the version {api_version} is not known",
                f"Ask for one of {', '.join(API_VERSIONS)}.", caller(),
            )  # fmt: skip
        return import_module("gpugoblin")

    @property
    def T(self) -> Array:  # the name of the standard
        """All axes in the opposite order, as NumPy's; a matrix transposed."""
        return Array(shaping.permute(self._value, None, caller()))

    @property
    def mT(self) -> Array:
        """The last two axes exchanged."""
        return Array(shaping.transpose_last(self._value, caller()))

    def reshape(self, *shape: int | Sequence[int]) -> Array:
        """The same elements in C order under another shape; one extent may be -1."""
        return Array(shaping.reshape(self._value, shaping.flat_ints(shape), caller()))

    def permute(self, *axes: int | Sequence[int]) -> Array:
        """The axes in another order."""
        return Array(shaping.permute(self._value, shaping.flat_ints(axes), caller()))

    def transpose(self, *axes: int | Sequence[int]) -> Array:
        """As NumPy's: without arguments all axes turned around, else `permute`."""
        return Array(shaping.permute(self._value, shaping.flat_ints(axes) or None, caller()))

    def squeeze(self, axis: int | tuple[int, ...]) -> Array:
        """Without the named axes, which have the extent 1."""
        return Array(shaping.squeeze(self._value, axis, caller()))

    def ravel(self) -> Array:
        """All elements along one axis, in C order."""
        return Array(shaping.reshape(self._value, (-1,), caller()))

    def astype(self, dtype: DtypeLike) -> Array:
        """Another dtype. Float to int goes toward zero and saturates; NaN becomes 0."""
        place = caller()
        return Array(cast(self._value, catalog_dtype(dtype, place, "the target"), place))

    def sum(self, axis: reducing.Axis = None, *, keepdims: bool = False) -> Array:
        """Sums. int32 and bool are summed as int64; float32 stays float32."""
        return Array(reducing.reduce("sum", self._value, axis, keepdims, caller()))

    def prod(self, axis: reducing.Axis = None, *, keepdims: bool = False) -> Array:
        """Products, with the dtypes of `sum`."""
        return Array(reducing.reduce("prod", self._value, axis, keepdims, caller()))

    def mean(self, axis: reducing.Axis = None, *, keepdims: bool = False) -> Array:
        """Means of float32."""
        return Array(reducing.mean_of(self._value, axis, keepdims, caller()))

    def max(self, axis: reducing.Axis = None, *, keepdims: bool = False) -> Array:
        """The largest elements; NaN wins."""
        return Array(reducing.reduce("max", self._value, axis, keepdims, caller()))

    def min(self, axis: reducing.Axis = None, *, keepdims: bool = False) -> Array:
        """The smallest elements; NaN wins."""
        return Array(reducing.reduce("min", self._value, axis, keepdims, caller()))

    def any(self, axis: reducing.Axis = None, *, keepdims: bool = False) -> Array:
        """True where any element is not zero."""
        return Array(reducing.reduce("any", self._value, axis, keepdims, caller()))

    def all(self, axis: reducing.Axis = None, *, keepdims: bool = False) -> Array:
        """True where no element is zero."""
        return Array(reducing.reduce("all", self._value, axis, keepdims, caller()))

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Array:
        """Where the first largest element is, as int64."""
        return Array(reducing.reduce_arg("argmax", self._value, axis, keepdims, caller()))

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Array:
        """Where the first smallest element is, as int64."""
        return Array(reducing.reduce_arg("argmin", self._value, axis, keepdims, caller()))

    def var(
        self, axis: reducing.Axis = None, *, correction: float = 0.0, keepdims: bool = False
    ) -> Array:
        """Variances of float32: squares of distances from the mean over the count less
        `correction`."""
        return Array(reducing.variance(self._value, axis, correction, keepdims, caller()))

    def std(
        self, axis: reducing.Axis = None, *, correction: float = 0.0, keepdims: bool = False
    ) -> Array:
        """Standard deviations: the roots of `var`."""
        place = caller()
        found = reducing.variance(self._value, axis, correction, keepdims, place)
        return Array(elementwise("sqrt", (found,), place))

    def take(self, indices: ArrayLike, axis: int = 0) -> Array:
        """The slices at `indices` (one axis of integers from 0) along `axis`."""
        place = caller()
        return Array(selecting.take(self._value, as_value(indices, place), axis, place))

    def save(self, path: PathLike | None = None, **options: Unpack[SubmitOptions]) -> RunningJob:
        """Submits the computation as a job, whose result is kept.

        Args:
            path: where the result goes (.npy, .zarr, .safetensors); None keeps it on the node.
            options: see `SubmitOptions`.

        Returns:
            the job, which goes on without this process.

        Raises:
            ClientError: `not_connected`, or what keeps the node from being reached.
            RemoteError: the node refused the job, with its reason.
        """
        return CURRENT.get().save((self,), path, self._block_axis, options)

    def compute(
        self, *, timeout: float | None = None, **options: Unpack[SubmitOptions]
    ) -> NumpyArray:
        """Computes now and returns the numbers.

        Args:
            timeout: seconds to wait at most; the job goes on beyond.

        Raises:
            as `save`, and JobFailed; ClientError `job_timeout`, `job_cancelled`.
        """
        (result,) = CURRENT.get().compute((self,), timeout, self._block_axis, options)
        return result

    def __getitem__(self, index: Any) -> Array:
        parts = index if isinstance(index, tuple) else (index,)
        place = caller()
        held = tuple(as_value(p, place) if _is_array(p) else p for p in parts)
        return Array(indexing.take_index(self._value, held, place))

    def __matmul__(self, other: ArrayLike) -> Array:
        place = caller()
        return Array(products.matmul(self._value, as_value(other, place), place))

    def __rmatmul__(self, other: ArrayLike) -> Array:
        place = caller()
        return Array(products.matmul(as_value(other, place), self._value, place))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a lazy array of shape ()")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        self._needs_numbers(
            "iterating", "Compute with the whole array, or loop over range(len(x)) and slice x[i]."
        )

    def __bool__(self) -> bool:
        self._needs_numbers(
            "if, while, and, or, not",
            "Choose elementwise with gg.where(condition, a, b), combine conditions with & | ~, "
            "or take the number first: .compute().",
        )

    def __float__(self) -> float:
        self._needs_numbers("float()", "Take the number first: float(x.compute()).")

    def __int__(self) -> int:
        self._needs_numbers("int()", "Take the number first: int(x.compute()).")

    def __index__(self) -> int:
        self._needs_numbers("an index", "Take the number first: int(x.compute()).")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NumpyArray:
        self._needs_numbers(
            "a NumPy function",
            "Use a function of gg (docs/researcher/functions.md has all), or x.compute() first.",
        )

    def __array_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """`numpy.concatenate([x, y])`: the function of gg that means the same."""
        found = import_module("gpugoblin.capture.numpy_functions").find(function)
        if found is None:
            name = getattr(function, "__name__", "function")
            self._needs_numbers(
                f"numpy.{name}",
                "Use a function of gg (docs/researcher/functions.md has all), or x.compute() "
                "first.",
            )
        return found(*arguments, **options)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Array:
        """`numpy.exp(x)`, and an ndarray on the left of an operator."""
        if method == "__call__" and not options:
            if ufunc.__name__ == "matmul":
                place = caller()
                left, right = (as_value(given, place) for given in inputs)
                return Array(products.matmul(left, right, place))
            scalar = SCALAR_OF_UFUNC.get(ufunc.__name__)
            if scalar is not None:
                return _scalar(scalar, inputs)
            found = import_module("gpugoblin.capture.numpy_functions").find(ufunc)
            if found is not None:
                return found(*inputs)  # type: ignore[no-any-return]
        self._needs_numbers(
            f"numpy.{ufunc.__name__}", "Use a function of gg, or x.compute() first."
        )

    def __complex__(self) -> complex:
        self._needs_numbers("complex()", "Take the number first: complex(x.compute()).")

    def __dlpack__(self, **options: Any) -> Any:
        self._needs_numbers("DLPack", "Take the numbers first: x.compute().__dlpack__().")

    def __dlpack_device__(self) -> tuple[int, int]:
        self._needs_numbers("DLPack", "Take the numbers first: x.compute().__dlpack_device__().")

    def __setitem__(self, index: object, new: object) -> NoReturn:
        self._needs_numbers(
            "assigning to a part",
            "Arrays do not change: build a new one with gg.where or gg.concat.",
        )

    def __repr__(self) -> str:
        spec = self._value.spec
        what = self._value.node.operator.partition(":")
        source = self._value.node.source
        made = source.name if source is not None else f"{what[2] or what[0]}"
        return f"<gg.Array {spec} from {made}, nothing computed yet>"

    def _binary(self, name: str, other: object, *, swapped: bool = False) -> Array:
        return binary(name, other, self) if swapped else binary(name, self, other)

    def _unary(self, name: str) -> Array:
        return Array(elementwise(name, (self._value,), caller()))

    def _needs_numbers(self, use: str, fix: str) -> NoReturn:
        raise CaptureError(
            "value_needed", line=caller(), use=use, operands=str(self._value.spec), fix=fix
        )


ArrayLike = Array | NumpyArray | Sequence[Any]
"""What stands beside a lazy array: another one, or numbers in memory."""


def from_source(source: Source) -> Array:
    """The lazy array of a source."""
    return Array(source_value(source))


def as_value(given: object, place: Place) -> Value:
    """The expression value of an array, lazy or in memory.

    Raises:
        CaptureError: `dtype_refused`, `not_an_array`.
    """
    if isinstance(given, Array):
        return given._value
    return memory_value(given, place)


def _is_array(part: object) -> bool:
    if isinstance(part, np.ndarray) and part.ndim == 0:
        return part.dtype.kind not in "iu"
    return isinstance(part, Array | np.ndarray | list)


def operand(given: object, place: Place) -> Value | Number:
    """An argument of an elementwise function: a plain number stays one."""
    number = as_number(given)
    return as_value(given, place) if number is None else number


def binary(name: str, left: object, right: object) -> Array:
    """Scalar function `name` of two arguments, at least one of which should be an array."""
    return _scalar(name, (left, right))


def _scalar(name: str, given: Sequence[object]) -> Array:
    place = caller()
    values = [operand(item, place) for item in given]
    if not any(isinstance(value, Value) for value in values):
        values[0] = as_value(given[0], place)
    if name == "floordiv" and any(
        isinstance(value, Value) and value.spec.dtype in FLOATS for value in values
    ):
        return Array(elementwise("floor", (elementwise("div", values, place),), place))
    return Array(elementwise(name, values, place))
