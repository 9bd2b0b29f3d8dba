from __future__ import annotations

import dataclasses

import pytest

from gpugoblin.catalog.formula import Formula, FormulaNode


def test_trees_are_values() -> None:
    one = Formula((FormulaNode("input"), FormulaNode("neg", (0,))))
    assert one == Formula((FormulaNode("input", (), 0, ""), FormulaNode("neg", (0,))))
    assert hash(one) == hash(Formula(one.nodes))
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.nodes = ()  # type: ignore[misc]
