"""One lab node alone, run as its operator runs it, for tests of bad input on this machine.

Owns: its configuration and its process. No coordinator and no contributors: see `network.py`.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from gpugoblin.units import MIB
from server_stub.node.settings import template
from tests.helpers.network import NODE
from tests.helpers.network_processes import Programs, patience

__all__ = ["Lab"]


class Lab:
    """A context manager.

    Args:
        root: a directory with a short path, which other users may enter.
        settings: what differs from a small node's.
    """

    def __init__(self, root: Path, **settings: object) -> None:
        self.state = Path(str(settings.get("state_dir", root / "node")))
        self.config = root / "node.toml"
        self.programs = Programs(root / "logs")
        small = {
            "state_dir": str(self.state),
            "engine_threads": 1,
            "engine_memory_bytes": 128 * MIB,
            "slot_bytes": MIB,
        }
        self.config.write_text(template({**small, **settings}), encoding="utf-8")

    @property
    def address(self) -> str:
        return f"unix:{self.state / 'node.sock'}"

    def start(self) -> None:
        """Starts the node and waits until it listens."""
        path = self.programs.logs / "node.log"
        said = len(self.programs.log("node")) if path.exists() else 0  # by an earlier life
        self.programs.start("node", [*NODE, "serve", "--config", str(self.config)])
        self.programs.await_line("node", r"listening on", said)
        waiting = patience("the node's socket is there")
        while waiting():
            if (self.state / "node.sock").exists():
                return

    def stop(self) -> None:
        """As its operator would; it must end well."""
        self.programs.ask_to_end("node")
        self.programs.await_end("node")

    def __enter__(self) -> Lab:
        self.programs.__enter__()
        try:
            self.start()
        except BaseException:
            self.programs.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.programs.__exit__(kind, error, trace)
