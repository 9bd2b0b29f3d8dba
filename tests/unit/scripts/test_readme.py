"""The first lines of Python that a reader sees run as they stand, on a real node."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

FILES = """
import numpy as np
import zarr

rng = np.random.default_rng(0)
np.save("a.npy", rng.standard_normal((40, 30), dtype=np.float32))
b = zarr.create_array("b.zarr", shape=(20, 30), chunks=(10, 30), dtype="float32")
b[:] = rng.standard_normal((20, 30), dtype=np.float32)
"""

CHECK = {
    "README.md": """
expected = np.load("a.npy") @ zarr.open_array("b.zarr")[:].T
assert np.allclose(zarr.open_array("c.zarr")[:], expected, atol=1e-4)
assert np.allclose(job.array[:5, :5], expected[:5, :5], atol=1e-4)
""",
    "docs/researcher/README.md": "",
}


@pytest.mark.parametrize("name", CHECK)
def test_the_first_block_runs_as_shown(name: str, short_path: Path) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / name).read_text(), re.S | re.M)
    # Another process: zarr's threads never end. The node it starts is stopped whatever happens.
    indented = "".join(f"    {line}\n" for line in (block + CHECK[name]).splitlines())
    program = (
        f"{FILES}\nlab = None\ntry:\n{indented}"
        "finally:\n    if lab is not None:\n        lab.stop_node()\n"
    )
    result = subprocess.run(
        [sys.executable, "-"],
        input=program,
        cwd=short_path,
        env={**os.environ, "XDG_STATE_HOME": str(short_path), "XDG_CONFIG_HOME": str(short_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    promised = re.findall(r"^# (.*)$", block, re.MULTILINE)
    assert [line for line in result.stdout.splitlines() if line in promised] == promised
