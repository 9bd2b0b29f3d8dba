"""CUDA C to machine code of one architecture, without a card.

Owns: the options, which decide what arithmetic means. Must not: load what it made.
"""

from __future__ import annotations

import ctypes
from typing import Final

from app.engine.backends.cuda.loader import Library, compiler
from app.engine.backends.cuda.source import Source
from gpugoblin.errors import EngineError

__all__ = ["ARCHITECTURES", "compiled", "options_for"]

ARCHITECTURES: Final = (75, 80, 86, 89, 90, 100, 120)
"""Compute capabilities times ten that every kernel is compiled for in the tests."""

_LOG_BYTES: Final = 4000


def options_for(source: Source, architecture: int) -> list[str]:
    """Divisions and roots are rounded correctly and small numbers kept; a product and a sum are
    only joined in a kernel that allows it."""
    return [
        f"--gpu-architecture=sm_{architecture}",
        "--std=c++17",
        "--ftz=false",
        "--prec-div=true",
        "--prec-sqrt=true",
        f"--fmad={'true' if source.contracts else 'false'}",
    ]


def compiled(source: Source, architecture: int, library: Library | None = None) -> bytes:
    """The machine code.

    Raises:
        EngineError: `card_missing` without the compiler, `card_failed` with what it said.
    """
    nvrtc = compiler() if library is None else library
    program = ctypes.c_void_p()
    text = source.text.encode("ascii")
    _require(
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"kernel.cu", 0, None, None),
        "reading a kernel",
    )
    try:
        given = [option.encode("ascii") for option in options_for(source, architecture)]
        options = (ctypes.c_char_p * len(given))(*given)
        result = nvrtc.nvrtcCompileProgram(program, len(given), options)
        if result:
            raise EngineError(
                "card_failed",
                doing="compiling a kernel",
                result=f"NVRTC status {result}: {_log(nvrtc, program)}"[:300],
            )
        size = ctypes.c_size_t()
        _require(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), "compiling a kernel")
        code = ctypes.create_string_buffer(size.value)
        _require(nvrtc.nvrtcGetCUBIN(program, code), "compiling a kernel")
        return code.raw
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _require(result: int, doing: str) -> None:
    if result:
        raise EngineError("card_failed", doing=doing, result=f"NVRTC status {result}")


def _log(nvrtc: Library, program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(max(1, size.value))
    nvrtc.nvrtcGetProgramLog(program, text)
    return " ".join(text.value[:_LOG_BYTES].decode("utf-8", "replace").split())
