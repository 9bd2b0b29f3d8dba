"""gpugoblin: verified computation on lent graphics cards.

    import gpugoblin as gg
    gg.connect("local")
    job = (gg.open("a.npy") @ gg.open("b.npy").T).save("c.npy", name="gram")
    job.wait()

Owns: the public names, resolved on first use. Importing the package loads neither NumPy nor any
part of the client; the functions of arrays follow the Python array API standard.
"""

# Stars are for type checkers alone: every module names in `__all__` what it makes public.
# ruff: noqa: F403

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gpugoblin import errors as errors
    from gpugoblin.capture import fft as fft
    from gpugoblin.capture import linalg as linalg
    from gpugoblin.capture import nn as nn
    from gpugoblin.capture.arranging import *
    from gpugoblin.capture.array import Array as Array
    from gpugoblin.capture.blocks import *
    from gpugoblin.capture.compound_functions import *
    from gpugoblin.capture.creation import *
    from gpugoblin.capture.datatypes import *
    from gpugoblin.capture.einsum import *
    from gpugoblin.capture.functions import *
    from gpugoblin.capture.gradients import *
    from gpugoblin.capture.jax.program import *
    from gpugoblin.capture.nn import softmax as softmax
    from gpugoblin.capture.onnx.model import from_onnx as from_onnx
    from gpugoblin.capture.programs import show as show
    from gpugoblin.capture.reductions import *
    from gpugoblin.capture.refusals import *
    from gpugoblin.capture.scalar_functions import *
    from gpugoblin.capture.special_functions import *
    from gpugoblin.capture.torch.capturing import capture as capture
    from gpugoblin.capture.torch.checking import check as check
    from gpugoblin.client.certificate import JobCertificate as JobCertificate
    from gpugoblin.client.constraints import where as where
    from gpugoblin.client.job import *
    from gpugoblin.client.opening import open_array
    from gpugoblin.client.public import *
    from gpugoblin.client.run import *
    from gpugoblin.client.session import *
    from gpugoblin.client.train import train as train
    from gpugoblin.client.train_loop import prepare as prepare
    from gpugoblin.optim import schedules as schedules
    from gpugoblin.optim.adafactor import *
    from gpugoblin.optim.adam import *
    from gpugoblin.optim.lion import *
    from gpugoblin.optim.sgd import *

    open = open_array

__version__ = "0.1.0"

_NAMES: Final = {
    "gpugoblin.capture.arranging": """
        argsort cumulative_prod cumulative_sum flip moveaxis pad roll searchsorted sort
    """,
    "gpugoblin.capture.array": "Array",
    "gpugoblin.capture.blocks": "function map_blocks",
    "gpugoblin.capture.compound_functions": """
        acosh asinh atanh conj copysign hypot logaddexp nextafter positive real signbit
    """,
    "gpugoblin.capture.creation": """
        arange asarray empty empty_like eye full full_like linspace meshgrid ones ones_like tril
        triu zeros zeros_like
    """,
    "gpugoblin.capture.datatypes": """
        __array_api_version__ __array_namespace_info__ bool can_cast complex128 complex64 e finfo
        float32 float64 from_dlpack iinfo inf int16 int32 int64 int8 isdtype nan newaxis pi
        result_type uint16 uint32 uint64 uint8
    """,
    "gpugoblin.capture.einsum": "einsum",
    "gpugoblin.capture.functions": """
        array astype broadcast_arrays broadcast_to clip concat expand_dims matmul matrix_transpose
        permute_dims repeat reshape squeeze stack take take_along_axis tensordot tile topk unstack
        vecdot
    """,
    "gpugoblin.capture.gradients": "gradient value_and_gradient",
    "gpugoblin.capture.jax.program": "from_jax",
    "gpugoblin.capture.nn": "softmax",
    "gpugoblin.capture.onnx.model": "from_onnx",
    "gpugoblin.capture.programs": "show",
    "gpugoblin.capture.reductions": """
        all any argmax argmin count_nonzero diff max mean min prod std sum var
    """,
    "gpugoblin.capture.refusals": """
        imag nonzero unique_all unique_counts unique_inverse unique_values
    """,
    "gpugoblin.capture.scalar_functions": """
        abs acos add asin atan atan2 bitwise_and bitwise_invert bitwise_left_shift bitwise_or
        bitwise_right_shift bitwise_xor ceil cos cosh divide equal erf exp exp2 expm1 floor
        floor_divide fmod greater greater_equal isfinite isinf isnan less less_equal log log10 log1p
        log2 logical_and logical_not logical_or logical_xor maximum minimum multiply negative
        not_equal pow reciprocal remainder round rsqrt sigmoid sign sin sinh sqrt square subtract
        tan tanh trunc
    """,
    "gpugoblin.capture.special_functions": """
        bitwise_count bitwise_right_shift_unsigned cbrt digamma erfc erfinv fmax fmin lgamma
        round_bfloat16 round_float16 round_tf32 sinc softplus truncate_divide xlogy
    """,
    "gpugoblin.capture.torch.checking": "check",
    "gpugoblin.client.certificate": "JobCertificate",
    "gpugoblin.client.constraints": "where",
    "gpugoblin.client.job": "Job JobFailed",
    "gpugoblin.client.public": "compute estimate get jobs save",
    "gpugoblin.client.run": "Run",
    "gpugoblin.client.session": "Session connect",
    "gpugoblin.client.train": "train",
    "gpugoblin.client.train_loop": "prepare",
    "gpugoblin.optim.adafactor": "Adafactor",
    "gpugoblin.optim.adam": "Adam AdamW",
    "gpugoblin.optim.lion": "Lion",
    "gpugoblin.optim.sgd": "SGD",
}
"""Module -> the public names that it defines."""

_HOMES: Final = MappingProxyType(
    {name: (home, name) for home, names in _NAMES.items() for name in names.split()}
    | {"open": ("gpugoblin.client.opening", "open_array")}
)
"""Public name -> its module, and its name there."""

_MODULES: Final = {
    "capture": "gpugoblin.capture",
    "errors": "gpugoblin.errors",
    "fft": "gpugoblin.capture.fft",
    "linalg": "gpugoblin.capture.linalg",
    "nn": "gpugoblin.capture.nn",
    "schedules": "gpugoblin.optim.schedules",
}
"""Public name -> the module that it is."""

__all__ = sorted((*_HOMES, *_MODULES, "__version__"))


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'gpugoblin' has no attribute {name!r}")
    value = getattr(import_module(home[0]), home[1])
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
