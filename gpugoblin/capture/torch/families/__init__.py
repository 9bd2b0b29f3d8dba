"""The lowering rules, one file a family of ATen operators. Importing this package fills the table.

A rule is a function (context, *arguments as the operator has them); what ATen says about memory
(layout, device, pin_memory, memory_format) is swallowed, as a graph has none.
"""

from gpugoblin.capture.torch.families import (
    activations,
    arithmetic,
    chance,
    complexes,
    contractions,
    control,
    convolutions,
    creation,
    custom,
    distances,
    fourier,
    indexing,
    linalg,
    losses,
    matrix_functions,
    movement,
    norms,
    ordering,
    padding,
    pooling,
    reductions,
    resizing,
    scattering,
)
from gpugoblin.capture.torch.registry import TABLE, lookup

__all__ = ["TABLE", "lookup"]

_FAMILIES = (
    activations,
    arithmetic,
    chance,
    complexes,
    contractions,
    control,
    convolutions,
    creation,
    custom,
    distances,
    fourier,
    indexing,
    linalg,
    losses,
    matrix_functions,
    movement,
    norms,
    ordering,
    padding,
    pooling,
    reductions,
    resizing,
    scattering,
)
