"""Whether this torch is one that capture knows.

Owns: that question, asked once a process before anything is traced. Capture exchanges parts of
torch that torch promises to nobody. Where one of them is another than known, a Function would be
passed over, and gradients be wrong without a word. Must not: ask for a version by number, as most
change nothing here.
"""

from __future__ import annotations

import functools
from typing import Any

from gpugoblin.capture.torch.functions import Calls, watched
from gpugoblin.capture.torch.library import load_torch
from gpugoblin.capture.torch.lines import every_frame
from gpugoblin.errors import CaptureError

__all__ = ["require_known_torch"]


@functools.cache
def require_known_torch() -> None:
    """Tries the exchange on one call.

    Raises:
        CaptureError: `torch_unknown`.
    """
    torch = load_torch()

    class Tried(torch.autograd.Function):  # type: ignore[misc, name-defined, unused-ignore]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, seed: Any) -> Any:
            return seed

    calls: Calls = []
    reason = "a call of torch.autograd.Function is not seen"
    try:
        with watched(calls), every_frame():
            Tried.apply(torch.zeros(1))
    except Exception as error:  # whatever another version raises where a part of it is missing
        reason = f"{type(error).__name__}: {error}"
    if [call.kind for call in calls] != [Tried]:
        raise CaptureError("torch_unknown", version=torch.__version__, reason=reason.rstrip("."))
