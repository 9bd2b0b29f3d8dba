"""A refusal names the primitive and the line."""

from __future__ import annotations

import numpy as np

import gpugoblin as gg
from gpugoblin.capture.caller import Place
from gpugoblin.capture.jax.call import Call


def test_refusals() -> None:
    x = gg.array(np.ones(2, np.float32))
    call = Call("odd", [x], {"axis": 1}, [(2,)], ["float32"], Place("run.py", 3), lambda *_: ())
    assert call["axis"] == 1
    assert call.array(0) is x
    error = call.refused("it is odd", "Use an even one.")
    assert error.code == "model_refused"
    assert "run.py:3: the node odd cannot be said: it is odd" in str(error)
