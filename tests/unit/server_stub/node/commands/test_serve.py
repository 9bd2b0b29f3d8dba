"""The node as a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from server_stub.node.commands import main

__all__: list[str] = []


def test_the_process_serves_and_stops_on_sigterm(config: Path, tmp_path: Path) -> None:
    from gpugoblin.wire.transport import Endpoint, Transport

    process = subprocess.Popen(
        [sys.executable, "-I", "-m", "server_stub.node", "serve", "--config", str(config)],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "listening on" in line:
                break
        client = Transport(Endpoint(f"unix:{tmp_path / 'state' / 'node.sock'}"))
        assert b'"state":"running"' in client.fetch("GET", "/v1/health", max_bytes=10_000)
        client.close()
        assert main(["doctor", "--config", str(config)]) in (0, 3)
        process.terminate()
        process.communicate(timeout=20)
        assert process.returncode == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert not (tmp_path / "state" / "node.sock").exists()
