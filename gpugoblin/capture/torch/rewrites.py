"""What to write instead: a proposal for each kind of refusal. Owns: those sentences."""

from __future__ import annotations

from typing import Final

__all__ = ["rewrite_for"]

_BY_OPERATOR: Final = {
    "nonzero": "Use torch.where(mask, value, 0) and keep the shape; counts are mask.sum().",
    "masked_select": "Use torch.where(mask, x, 0) and divide by mask.sum() for a mean.",
    "masked_scatter": "Use x[mask] = one value, or torch.where with values of the whole shape.",
    "unique": "Sort, and compare neighbors: (s[1:] != s[:-1]) marks the first of each.",
    "_local_scalar_dense": "Keep the number a tensor: x.sum() instead of x.sum().item().",
    "item": "Keep the number a tensor: x.sum() instead of x.sum().item().",
    "bincount": "Use torch.zeros(n).index_add(0, labels, torch.ones(len(labels))), n known.",
    "linalg_eig": "Use torch.linalg.eigh for symmetric matrices.",
    "multinomial": "Use torch.searchsorted(p.cumsum(-1), u) with u given as an argument.",
    "randperm": "Pass the permutation as an argument.",
    "repeat_interleave": "Pass repeats as a number, not as a tensor.",
}
_BY_CAUSE: Final = (
    ("NaN", "Use torch.where(mask, x, 0), or -inf where a maximum or a softmax follows."),
    ("dtype", "Convert with .float() or .long() before this line."),
    ("as the data says", "Use torch.where(mask, x, 0), which keeps the shape."),
)
_ELSE: Final = (
    "Write it with other torch functions; gg.check(..., report=PATH) writes a report that the "
    "operators of the network can act on."
)


def rewrite_for(operator: str, cause: str = "") -> str:
    """The proposal for an ATen operator by name, or for a cause."""
    plain = operator.partition(".")[0]
    if plain in _BY_OPERATOR:
        return _BY_OPERATOR[plain]
    for words, proposal in _BY_CAUSE:
        if words in cause:
            return proposal
    return _ELSE
