"""Cutting one application of an operator along an index of its split rule.

Owns: what changes in the attributes when an index keeps only part of its extent. Inputs are cut by
the caller, on the axes that the split names.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpugoblin.catalog.spec import Attributes, AttrValue, Operator, Split

__all__ = ["cut_attributes"]


def cut_attributes(
    operator: Operator, attributes: Attributes, split: Split, extent: int
) -> Mapping[str, AttrValue]:
    """The attributes of one piece, in which the index of `split` runs over `extent` values.

    Raises:
        ValueError: the index must stay whole, or has a halo: what that changes depends on the
            place of the piece, not on its extent alone.
    """
    if split.kind in ("halo", "whole"):
        raise ValueError(f"the index {split.index} of {operator.key} must stay whole")
    changed = dict(attributes)
    name, axis = {
        "reshape": ("shape", split.output),
        "broadcast": ("shape", split.output),
        "slice": ("stop", split.operands[0]),
    }.get(operator.name, ("", None))
    value = changed.get(name)
    if axis is not None and isinstance(value, tuple):
        changed[name] = (*value[:axis], extent, *value[axis + 1 :])
    return changed
