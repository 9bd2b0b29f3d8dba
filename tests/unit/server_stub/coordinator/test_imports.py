"""The coordinator knows nothing of graphs, operators, blobs or arrays: not even their modules."""

from __future__ import annotations

import subprocess
import sys

FORBIDDEN = (
    "numpy",
    "gpugoblin.graph",
    "gpugoblin.catalog",
    "gpugoblin.blobs",
    "gpugoblin.plan",
    "gpugoblin.verify",
    "gpugoblin.capture",
    "gpugoblin.client",
    "server_stub.node",
    "app",
    "torch",
)
SCRIPT = """
import sys
import server_stub.coordinator.cli
import server_stub.coordinator.server
print("\\n".join(sorted(sys.modules)))
"""


def test_modules() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(done.stdout.split())
    assert "server_stub.coordinator.handlers.contact" in loaded
    assert loaded.isdisjoint(FORBIDDEN)
