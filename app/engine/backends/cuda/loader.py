"""NVIDIA's C libraries, found and declared: the driver, the run-time compiler, cuBLAS.

Owns: where they are looked for, and turning a result into an error. Must not: keep any state of a
card. Each is loaded when it is first asked for; none of them is part of this project.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

from gpugoblin.errors import EngineError

__all__ = ["Library", "blas", "compiler", "driver", "require", "require_blas"]

MAJORS: Final = (13, 12)
"""Versions of CUDA whose libraries are taken, the newest first."""


class Library(Protocol):
    """C functions by name, each of which returns a status."""

    def __getattr__(self, name: str) -> Any: ...


def _candidates(name: str, folders: Sequence[str]) -> list[str]:
    """Files of the wheels of NVIDIA on the search path, then what the system's linker knows."""
    found: list[str] = []
    for major in MAJORS:
        file = f"lib{name}.so.{major}"
        for entry in sys.path:
            for folder in (f"cu{major}", *folders):
                path = Path(entry or ".") / "nvidia" / folder / "lib" / file
                if path.is_file():
                    found.append(str(path))
        found.append(file)
    return found


def _load(name: str, folders: Sequence[str]) -> Library:
    reason = "it is not installed"
    for path in _candidates(name, folders):
        try:
            return ctypes.CDLL(path)
        except OSError as cause:
            if "/" in path:
                reason = str(cause)
    raise EngineError("card_missing", backend="cuda", reason=f"lib{name} cannot be used ({reason})")


_KINDS: Final[dict[str, Any]] = {
    "p": ctypes.c_void_p,
    "s": ctypes.c_char_p,
    "i": ctypes.c_int,
    "u": ctypes.c_uint,
    "q": ctypes.c_longlong,
    "Q": ctypes.c_uint64,
    "z": ctypes.c_size_t,
}
"""A letter for each kind of argument; addresses of the card are `Q`."""

_DRIVER: Final = {
    **{"cuInit": "u", "cuDriverGetVersion": "p", "cuDeviceGetCount": "p", "cuDeviceGet": "pi"},
    **{"cuDeviceGetName": "pii", "cuDeviceGetUuid_v2": "pi", "cuDeviceGetAttribute": "pii"},
    **{"cuDevicePrimaryCtxSetFlags_v2": "iu", "cuDevicePrimaryCtxRetain": "pi"},
    **{"cuDevicePrimaryCtxRelease_v2": "i", "cuCtxSetCurrent": "p", "cuMemGetInfo_v2": "pp"},
    **{"cuCtxGetStreamPriorityRange": "pp", "cuMemAlloc_v2": "pz", "cuMemFree_v2": "Q"},
    **{"cuMemAllocHost_v2": "pz", "cuMemFreeHost": "p", "cuMemcpyHtoDAsync_v2": "Qpzp"},
    **{"cuMemcpyDtoHAsync_v2": "pQzp", "cuMemcpyDtoDAsync_v2": "QQzp", "cuMemsetD32Async": "Quzp"},
    **{"cuModuleLoadData": "pp", "cuModuleUnload": "p", "cuModuleGetFunction": "pps"},
    **{"cuLaunchKernel": "puuuuuuuppp", "cuStreamCreateWithPriority": "pui"},
    **{"cuStreamDestroy_v2": "p", "cuStreamSynchronize": "p", "cuStreamBeginCapture_v2": "pi"},
    **{"cuStreamEndCapture": "pp", "cuGraphInstantiateWithFlags": "ppQ", "cuGraphLaunch": "pp"},
    **{"cuGraphExecDestroy": "p", "cuGraphDestroy": "p", "cuEventCreate": "pu"},
    **{"cuEventRecord": "pp", "cuEventQuery": "p", "cuEventSynchronize": "p"},
    **{"cuEventDestroy_v2": "p", "cuCtxSynchronize": ""},
}
_BLAS: Final = {
    **{"cublasCreate_v2": "p", "cublasDestroy_v2": "p", "cublasSetStream_v2": "pp"},
    **{"cublasSetWorkspace_v2": "pQz", "cublasSetMathMode": "pi", "cublasGetVersion_v2": "pp"},
    "cublasGemmStridedBatchedEx": "piiiiipQiiqQiiqpQiiqiii",
}


def _declared(library: Library, signatures: Mapping[str, str]) -> Library:
    for name, kinds in signatures.items():
        function = getattr(library, name)
        function.argtypes = [_KINDS[kind] for kind in kinds]
        function.restype = ctypes.c_int
    return library


@cache
def driver() -> Library:
    """libcuda, which comes with the driver.

    Raises:
        EngineError: `card_missing`.
    """
    try:
        return _declared(ctypes.CDLL("libcuda.so.1"), _DRIVER)
    except (OSError, AttributeError) as cause:  # not there, or too old
        raise EngineError(
            "card_missing", backend="cuda", reason=f"NVIDIA's driver cannot be used ({cause})"
        ) from cause


@cache
def compiler() -> Library:
    """libnvrtc: CUDA C to machine code.

    Raises:
        EngineError: `card_missing`.
    """
    return _load("nvrtc", ("cuda_nvrtc",))


@cache
def blas() -> Library:
    """libcublas.

    Raises:
        EngineError: `card_missing`.
    """
    _load("cublasLt", ("cublas",))  # which it would look for elsewhere
    return _declared(_load("cublas", ("cublas",)), _BLAS)


_OUT_OF_MEMORY: Final = 2
_LOST: Final = frozenset({46, 214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719})
"""Errors after which no call of this process succeeds any more: faults of memory, of the card, of
an instruction, time-outs (cuda.h)."""


def require(result: int, doing: str) -> None:
    """Raises what the driver answered.

    Raises:
        EngineError: `card_memory`, `card_lost`, `card_failed`.
    """
    if result == 0:
        return
    if result == _OUT_OF_MEMORY:
        raise EngineError("card_memory", doing=doing)
    if result in _LOST:
        raise EngineError("card_lost", doing=doing)
    raise EngineError("card_failed", doing=doing, result=f"CUDA error {result}")


def require_blas(result: int, doing: str) -> None:
    """Raises what cuBLAS answered: `card_memory`, `card_lost`, `card_failed`."""
    if result == 3:
        raise EngineError("card_memory", doing=doing)
    if result == 13:
        raise EngineError("card_lost", doing=doing)
    if result:
        raise EngineError("card_failed", doing=doing, result=f"cuBLAS status {result}")
