"""gpugoblin: verified computation on lent graphics cards.

    import gpugoblin as gg
    gg.connect("local")
    job = (gg.open("a.npy") @ gg.open("b.npy").T).save("c.npy", name="gram")
    job.wait()

Owns: the public names, resolved on first use. Importing the package loads neither NumPy nor any
part of the client; the functions of arrays follow the Python array API standard.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpugoblin import errors
    from gpugoblin.capture.arranging import argsort as argsort
    from gpugoblin.capture.arranging import cumulative_prod as cumulative_prod
    from gpugoblin.capture.arranging import cumulative_sum as cumulative_sum
    from gpugoblin.capture.arranging import flip as flip
    from gpugoblin.capture.arranging import moveaxis as moveaxis
    from gpugoblin.capture.arranging import pad as pad
    from gpugoblin.capture.arranging import roll as roll
    from gpugoblin.capture.arranging import searchsorted as searchsorted
    from gpugoblin.capture.arranging import sort as sort
    from gpugoblin.capture.array import Array as Array
    from gpugoblin.capture.blocks import function as function
    from gpugoblin.capture.blocks import map_blocks as map_blocks
    from gpugoblin.capture.functions import arange as arange
    from gpugoblin.capture.functions import array as array
    from gpugoblin.capture.functions import astype as astype
    from gpugoblin.capture.functions import broadcast_to as broadcast_to
    from gpugoblin.capture.functions import clip as clip
    from gpugoblin.capture.functions import concat as concat
    from gpugoblin.capture.functions import expand_dims as expand_dims
    from gpugoblin.capture.functions import full as full
    from gpugoblin.capture.functions import matmul as matmul
    from gpugoblin.capture.functions import matrix_transpose as matrix_transpose
    from gpugoblin.capture.functions import ones as ones
    from gpugoblin.capture.functions import permute_dims as permute_dims
    from gpugoblin.capture.functions import reshape as reshape
    from gpugoblin.capture.functions import softmax as softmax
    from gpugoblin.capture.functions import squeeze as squeeze
    from gpugoblin.capture.functions import stack as stack
    from gpugoblin.capture.functions import take as take
    from gpugoblin.capture.functions import topk as topk
    from gpugoblin.capture.functions import vecdot as vecdot
    from gpugoblin.capture.functions import zeros as zeros
    from gpugoblin.capture.reductions import all as all
    from gpugoblin.capture.reductions import any as any
    from gpugoblin.capture.reductions import argmax as argmax
    from gpugoblin.capture.reductions import argmin as argmin
    from gpugoblin.capture.reductions import max as max
    from gpugoblin.capture.reductions import mean as mean
    from gpugoblin.capture.reductions import min as min
    from gpugoblin.capture.reductions import prod as prod
    from gpugoblin.capture.reductions import sum as sum
    from gpugoblin.capture.scalar_functions import abs as abs
    from gpugoblin.capture.scalar_functions import acos as acos
    from gpugoblin.capture.scalar_functions import add as add
    from gpugoblin.capture.scalar_functions import asin as asin
    from gpugoblin.capture.scalar_functions import atan as atan
    from gpugoblin.capture.scalar_functions import atan2 as atan2
    from gpugoblin.capture.scalar_functions import bitwise_and as bitwise_and
    from gpugoblin.capture.scalar_functions import bitwise_invert as bitwise_invert
    from gpugoblin.capture.scalar_functions import bitwise_left_shift as bitwise_left_shift
    from gpugoblin.capture.scalar_functions import bitwise_or as bitwise_or
    from gpugoblin.capture.scalar_functions import bitwise_right_shift as bitwise_right_shift
    from gpugoblin.capture.scalar_functions import bitwise_xor as bitwise_xor
    from gpugoblin.capture.scalar_functions import ceil as ceil
    from gpugoblin.capture.scalar_functions import cos as cos
    from gpugoblin.capture.scalar_functions import cosh as cosh
    from gpugoblin.capture.scalar_functions import divide as divide
    from gpugoblin.capture.scalar_functions import equal as equal
    from gpugoblin.capture.scalar_functions import erf as erf
    from gpugoblin.capture.scalar_functions import exp as exp
    from gpugoblin.capture.scalar_functions import exp2 as exp2
    from gpugoblin.capture.scalar_functions import expm1 as expm1
    from gpugoblin.capture.scalar_functions import floor as floor
    from gpugoblin.capture.scalar_functions import floor_divide as floor_divide
    from gpugoblin.capture.scalar_functions import fmod as fmod
    from gpugoblin.capture.scalar_functions import greater as greater
    from gpugoblin.capture.scalar_functions import greater_equal as greater_equal
    from gpugoblin.capture.scalar_functions import isfinite as isfinite
    from gpugoblin.capture.scalar_functions import isinf as isinf
    from gpugoblin.capture.scalar_functions import isnan as isnan
    from gpugoblin.capture.scalar_functions import less as less
    from gpugoblin.capture.scalar_functions import less_equal as less_equal
    from gpugoblin.capture.scalar_functions import log as log
    from gpugoblin.capture.scalar_functions import log1p as log1p
    from gpugoblin.capture.scalar_functions import log2 as log2
    from gpugoblin.capture.scalar_functions import log10 as log10
    from gpugoblin.capture.scalar_functions import logical_and as logical_and
    from gpugoblin.capture.scalar_functions import logical_not as logical_not
    from gpugoblin.capture.scalar_functions import logical_or as logical_or
    from gpugoblin.capture.scalar_functions import logical_xor as logical_xor
    from gpugoblin.capture.scalar_functions import maximum as maximum
    from gpugoblin.capture.scalar_functions import minimum as minimum
    from gpugoblin.capture.scalar_functions import multiply as multiply
    from gpugoblin.capture.scalar_functions import negative as negative
    from gpugoblin.capture.scalar_functions import not_equal as not_equal
    from gpugoblin.capture.scalar_functions import pow as pow
    from gpugoblin.capture.scalar_functions import reciprocal as reciprocal
    from gpugoblin.capture.scalar_functions import remainder as remainder
    from gpugoblin.capture.scalar_functions import round as round
    from gpugoblin.capture.scalar_functions import rsqrt as rsqrt
    from gpugoblin.capture.scalar_functions import sigmoid as sigmoid
    from gpugoblin.capture.scalar_functions import sign as sign
    from gpugoblin.capture.scalar_functions import sin as sin
    from gpugoblin.capture.scalar_functions import sinh as sinh
    from gpugoblin.capture.scalar_functions import sqrt as sqrt
    from gpugoblin.capture.scalar_functions import square as square
    from gpugoblin.capture.scalar_functions import subtract as subtract
    from gpugoblin.capture.scalar_functions import tan as tan
    from gpugoblin.capture.scalar_functions import tanh as tanh
    from gpugoblin.capture.scalar_functions import trunc as trunc
    from gpugoblin.client.certificate import JobCertificate as JobCertificate
    from gpugoblin.client.constraints import where as where
    from gpugoblin.client.job import Job as Job
    from gpugoblin.client.job import JobFailed as JobFailed
    from gpugoblin.client.opening import open_array as open
    from gpugoblin.client.public import compute as compute
    from gpugoblin.client.public import estimate as estimate
    from gpugoblin.client.public import get as get
    from gpugoblin.client.public import jobs as jobs
    from gpugoblin.client.public import save as save
    from gpugoblin.client.session import Session as Session
    from gpugoblin.client.session import connect as connect

__version__ = "0.1.0"

__all__ = [
    "Array",
    "Job",
    "JobCertificate",
    "JobFailed",
    "Session",
    "__version__",
    "abs",
    "acos",
    "add",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "array",
    "asin",
    "astype",
    "atan",
    "atan2",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "broadcast_to",
    "ceil",
    "clip",
    "compute",
    "concat",
    "connect",
    "cos",
    "cosh",
    "cumulative_prod",
    "cumulative_sum",
    "divide",
    "equal",
    "erf",
    "errors",
    "estimate",
    "exp",
    "exp2",
    "expand_dims",
    "expm1",
    "flip",
    "floor",
    "floor_divide",
    "fmod",
    "full",
    "function",
    "get",
    "greater",
    "greater_equal",
    "isfinite",
    "isinf",
    "isnan",
    "jobs",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "map_blocks",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "moveaxis",
    "multiply",
    "negative",
    "not_equal",
    "ones",
    "open",
    "pad",
    "permute_dims",
    "pow",
    "prod",
    "reciprocal",
    "remainder",
    "reshape",
    "roll",
    "round",
    "rsqrt",
    "save",
    "searchsorted",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "softmax",
    "sort",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "subtract",
    "sum",
    "take",
    "tan",
    "tanh",
    "topk",
    "trunc",
    "vecdot",
    "where",
    "zeros",
]

_HOMES: dict[str, tuple[str, ...]] = {
    "gpugoblin.capture.arranging": (
        "argsort",
        "cumulative_prod",
        "cumulative_sum",
        "flip",
        "moveaxis",
        "pad",
        "roll",
        "searchsorted",
        "sort",
    ),
    "gpugoblin.capture.array": ("Array",),
    "gpugoblin.capture.blocks": (
        "function",
        "map_blocks",
    ),
    "gpugoblin.capture.functions": (
        "arange",
        "array",
        "astype",
        "broadcast_to",
        "clip",
        "concat",
        "expand_dims",
        "full",
        "matmul",
        "matrix_transpose",
        "ones",
        "permute_dims",
        "reshape",
        "softmax",
        "squeeze",
        "stack",
        "take",
        "topk",
        "vecdot",
        "zeros",
    ),
    "gpugoblin.capture.reductions": (
        "all",
        "any",
        "argmax",
        "argmin",
        "max",
        "mean",
        "min",
        "prod",
        "sum",
    ),
    "gpugoblin.capture.scalar_functions": (
        "abs",
        "acos",
        "add",
        "asin",
        "atan",
        "atan2",
        "bitwise_and",
        "bitwise_invert",
        "bitwise_left_shift",
        "bitwise_or",
        "bitwise_right_shift",
        "bitwise_xor",
        "ceil",
        "cos",
        "cosh",
        "divide",
        "equal",
        "erf",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "floor_divide",
        "fmod",
        "greater",
        "greater_equal",
        "isfinite",
        "isinf",
        "isnan",
        "less",
        "less_equal",
        "log",
        "log10",
        "log1p",
        "log2",
        "logical_and",
        "logical_not",
        "logical_or",
        "logical_xor",
        "maximum",
        "minimum",
        "multiply",
        "negative",
        "not_equal",
        "pow",
        "reciprocal",
        "remainder",
        "round",
        "rsqrt",
        "sigmoid",
        "sign",
        "sin",
        "sinh",
        "sqrt",
        "square",
        "subtract",
        "tan",
        "tanh",
        "trunc",
    ),
    "gpugoblin.client.certificate": ("JobCertificate",),
    "gpugoblin.client.constraints": ("where",),
    "gpugoblin.client.job": (
        "Job",
        "JobFailed",
    ),
    "gpugoblin.client.public": (
        "compute",
        "estimate",
        "get",
        "jobs",
        "save",
    ),
    "gpugoblin.client.session": (
        "Session",
        "connect",
    ),
}
"""Module -> the public names that it defines."""

_RENAMED = {"open": ("gpugoblin.client.opening", "open_array")}
_MODULES = {"errors": "gpugoblin.errors"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    home = next(((module, name) for module, names in _HOMES.items() if name in names), None)
    home = _RENAMED.get(name, home)
    if home is None:
        raise AttributeError(f"module 'gpugoblin' has no attribute {name!r}")
    value = getattr(import_module(home[0]), home[1])
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
