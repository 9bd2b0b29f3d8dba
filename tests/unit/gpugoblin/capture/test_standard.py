"""Every name of the standard is there, or says why it is not."""

from __future__ import annotations

import pytest

from gpugoblin.capture.standard import SECTIONS, reason

NAMES = sorted({name for names in SECTIONS.values() for name in names.split()})


def test_every_name_has_an_answer() -> None:
    reasons = {name: reason(name) for name in NAMES}
    assert len(reasons) == 190
    assert reasons["exp"] == reasons["linalg.outer"] == reasons["float32"] == ""
    assert "depends on numbers" in reasons["nonzero"]
    assert "refused" in reasons["complex64"]
    with pytest.raises(LookupError):
        reason("nonsense")
