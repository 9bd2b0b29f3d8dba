"""Running the program itself: as it is, and in float64.

Owns: the copies that it runs on, as it may write to its buffers or arguments. Runs in the child
process: the default dtype is changed for float64.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from gpugoblin.capture.torch.library import HALVES, dtype_name, load_torch, numpy_of
from gpugoblin.capture.torch.signs import catalog_signs
from gpugoblin.capture.torch.tracing import replaced
from gpugoblin.capture.torch.wrapping import Program
from gpugoblin.catalog.spec import Array

__all__ = ["copied", "double_values", "eager", "leaves_of", "tensors_of"]


def eager(program: Program, *, signs: bool = False) -> list[Array]:
    """What the program itself computes, on a copy, as it may write to its buffers or arguments.

    Args:
        signs: give eigenvectors and factors the catalog's signs.
    """
    torch = load_torch()
    module, args, kwargs = copied(program.module, program.args, program.kwargs)
    torch.manual_seed(0)
    with torch.no_grad(), catalog_signs(signs):
        return [numpy_of(tensor) for tensor in module(*args, **kwargs)]


def copied(*given: Any) -> tuple[Any, ...]:
    """Deep copies. Tensors that were computed, as old weight norms keep them, are copied as
    numbers: torch copies only leaves."""
    torch = load_torch()
    memo: dict[int, Any] = {}
    modules = (one for one in given if isinstance(one, torch.nn.Module))
    for module in (inner for one in modules for inner in one.modules()):
        for value in vars(module).values():
            if isinstance(value, torch.Tensor) and not value.is_leaf:
                memo[id(value)] = value.detach().clone()
    return tuple(copy.deepcopy(one, memo) for one in given)


def tensors_of(program: Program) -> dict[tuple[str, str], Any]:
    """Every tensor that may be an input, by kind and name."""
    found: dict[tuple[str, str], Any] = {("argument", name): one for name, one in program.tensors}
    for name, tensor in program.state().items():
        found["parameter", name] = tensor
        found["buffer", name] = tensor
    return found


def leaves_of(program: Program, wide: bool) -> tuple[Any, Any, dict[tuple[str, str], Any]]:
    """Copies of module and arguments whose float tensors are leaves that want gradients."""
    torch = load_torch()
    (module,) = copied(program.module)
    if wide:
        module = module.double()
    tensors: dict[tuple[str, str], Any] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        parameter.requires_grad_(parameter.is_floating_point())
        tensors["parameter", name[len(program.prefix) :]] = parameter
    leaves = []
    for name, tensor in program.tensors:
        leaf = tensor.detach().clone()
        if dtype_name(leaf.dtype) in ("float32", *HALVES):
            leaf = (leaf.double() if wide else leaf).requires_grad_(True)
        elif wide and leaf.is_complex():
            leaf = leaf.to(torch.complex128)
        tensors["argument", name] = leaf
        leaves.append(leaf)
    return module, replaced((program.args, program.kwargs), iter(leaves)), tensors


def double_values(program: Program, *, signs: bool = False) -> list[Array] | None:
    """The results in float64, None for a program that cannot be run so."""
    torch = load_torch()
    kept = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        module, given, _ = leaves_of(program, True)
        with torch.no_grad(), catalog_signs(signs):
            return [np.asarray(numpy_of(one)) for one in module(*given[0], **given[1])]
    except Exception:
        # As in `_try_wide`: the program names float32 somewhere, and the caller does without.
        return None
    finally:
        torch.set_default_dtype(kept)
