"""The shipped file is what the script makes."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np

from app.agent.answers import Case, cases

ROOT = Path(__file__).parents[3]


def test_the_shipped_cases_are_the_catalogs() -> None:
    made: tuple[Case, ...] = runpy.run_path(str(ROOT / "scripts/known_answers.py"))["made"]()
    assert len(made) == len(cases())
    for fresh, shipped in zip(made, cases(), strict=True):
        assert (fresh.name, fresh.numeric_class) == (shipped.name, shipped.numeric_class)
        assert (fresh.graph, fresh.inputs) == (shipped.graph, shipped.inputs), fresh.name
        for one, other in zip(fresh.answers, shipped.answers, strict=True):
            assert (one.dtype, len(one.data)) == (other.dtype, len(other.data))
            # Other machines have other mathematical libraries: bounds move by a hair.
            limits = [np.frombuffer(each.limits, np.float64) for each in (one, other)]
            np.testing.assert_allclose(*limits, rtol=1e-3, atol=1e-30)
