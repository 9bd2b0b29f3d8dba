"""A refusal names the line, the function, the reason and what helps."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.capture import refusals
from gpugoblin.errors import CaptureError


@pytest.mark.parametrize("name", sorted(refusals.REFUSED))
def test_refused(name: str) -> None:
    with pytest.raises(CaptureError) as caught:
        getattr(gg, name)(gg.array(np.ones(3, np.float32)))
    assert caught.value.code == "function_refused"
    assert f"gg.{name} cannot be said" in str(caught.value)
    assert "test_refusals.py" in str(caught.value)
    assert caught.value.next_step == refusals.REFUSED[name][1]


@pytest.mark.parametrize("namespace", ["linalg", "fft"])
def test_extensions(namespace: str) -> None:
    for name in getattr(refusals, namespace.upper()):
        with pytest.raises(CaptureError, match=f"gg.{namespace}.{name} cannot be said"):
            getattr(getattr(gg, namespace), name)(np.ones((2, 2), np.float32))
