"""Sources: their names for people."""

from __future__ import annotations

import numpy as np

from gpugoblin.capture.caller import Place
from gpugoblin.capture.source import FileSource, MemorySource, NodeSource
from gpugoblin.catalog.spec import TensorSpec

SPEC = TensorSpec("float32", (2,))


def test_names() -> None:
    assert FileSource("npy", "/d/a.npy", SPEC, "0").name == "/d/a.npy"
    assert FileSource("safetensors", "/d/m", SPEC, "0", member="w").name == "/d/m#w"
    memory = MemorySource(np.ones(2, np.float32), SPEC, "0", Place("a.py", 3))
    assert memory.name == "array at a.py:3"
    assert NodeSource("array_x", "unix:/s", SPEC, "0", label="gram").name == "gram"
    assert NodeSource("array_x", "unix:/s", SPEC, "0").name == "array_x"
