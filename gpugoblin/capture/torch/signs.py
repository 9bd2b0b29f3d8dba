"""Eigenvectors and factors with the catalog's signs, from torch.

Owns: that choice. Eigenvectors, singular vectors and the rows of R are defined up to a sign; the
catalog says which one, LAPACK does not. While the mode lasts, torch's results have the catalog's,
so that a graph can be compared with the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gpugoblin.capture.torch.library import load_torch
from gpugoblin.graph.ir import Graph

__all__ = ["catalog_signs", "needs_signs"]


def needs_signs(graph: Graph) -> bool:
    """Whether a graph has factors that torch may give with other signs."""
    return any(node.operator in ("eigh", "qr", "svd") for node in graph.nodes)


def catalog_signs(wanted: bool) -> AbstractContextManager[Any]:
    """A context in which torch's eigh, svd and qr give the catalog's signs, if that is wanted."""
    if not wanted:
        return nullcontext()
    mode: Any = load_torch().utils._python_dispatch.TorchDispatchMode

    class Signs(mode):  # type: ignore[misc]
        """Looks at the results of three operators."""

        def __torch_dispatch__(
            self,
            func: Any,
            types: Sequence[type],
            args: Sequence[Any] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            found = func(*args, **(kwargs or {}))
            name = str(func).split(".")[1]
            if name == "_linalg_eigh" and found[1].numel():
                return found[0], found[1] * _of_columns(found[1])
            if name == "_linalg_svd" and found[0].numel():
                sign = _of_columns(found[0])
                return found[0] * sign, found[1], found[2] * sign.mT
            if name == "linalg_qr" and found[0].numel():
                line = found[1].diagonal(dim1=-2, dim2=-1).real
                sign = (line >= 0).to(found[1].dtype) * 2 - 1
                return found[0] * sign[..., None, :], found[1] * sign[..., :, None]
            return found

    found: AbstractContextManager[Any] = Signs()
    return found


def _of_columns(vectors: Any) -> Any:
    """1 or -1 for each column: of the components of at least 3/8 of the largest magnitude, the
    first becomes positive."""
    torch = load_torch()
    size = vectors.abs()
    large = size >= 0.375 * size.amax(-2, keepdim=True)
    place = large.to(torch.int8).argmax(-2, keepdim=True)
    return torch.where(vectors.gather(-2, place) < 0, -1.0, 1.0).to(vectors.dtype)
