"""A whole network on the loopback: coordinator, lab node, agents with sandboxed engines.

Owns: setting it up as its operators would, with the programs that they run. Nothing of the product
is replaced; a test may put a recording hop in front of a server, or start another program in the
place of a part (a mutant).
"""

from __future__ import annotations

import contextlib
import io
import json
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from gpugoblin.units import MIB
from gpugoblin.wire.keys import load_or_make_key
from gpugoblin.wire.signing import public_key_bytes
from gpugoblin.wire.tls import make_self_signed
from server_stub.coordinator.cli import main as coordinator_command
from server_stub.coordinator.state import initialize
from server_stub.node.settings import template
from tests.helpers.lends import LENDS_ALWAYS
from tests.helpers.network_processes import Programs, patience

__all__ = ["Network", "Place", "free_port"]

COORDINATOR: Final = ("-m", "server_stub.coordinator")
NODE: Final = ("-m", "server_stub.node")
AGENT: Final = ("-m", "app.main", "--console")
GPUGOBLIN: Final = ("-c", "import sys; from gpugoblin.cli import main; sys.exit(main())")
"""The command `gpugoblin`, wherever its script is installed."""

QUICK: Final[dict[str, object]] = {
    "contact_s": 1.0,
    "waiting_contact_s": 0.3,
    "enrol_interval_s": 0.1,
    "poll_s": 0.5,
}
"""Settings of a coordinator of two devices rather than a million."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server is, and the digest of its certificate."""

    address: str
    certificate_sha256: str


Hop = Callable[[Place], Place]
"""Puts something in front of a server: takes where it is, returns where others shall go."""


def free_port() -> int:
    """A port of the loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def no_hop(place: Place) -> Place:
    return place


class Network:
    """The running network; a context manager.

    Args:
        root: a directory with a short path.
        agents: owner by name of the agent.
        coordinator, node: settings that differ from a quick test's.
        before_coordinator, before_node: hops.
        software_cards: agents lend not the processor but a card that its driver makes of it.
        lab_name: what the lab is called.
    """

    def __init__(
        self,
        root: Path,
        agents: Mapping[str, str],
        *,
        coordinator: Mapping[str, object] | None = None,
        node: Mapping[str, object] | None = None,
        before_coordinator: Hop = no_hop,
        before_node: Hop = no_hop,
        software_cards: bool = False,
        lab_name: str = "lab-a",
    ) -> None:
        self.lab_name = lab_name
        self.root = root
        self.agents = agents
        self.programs = Programs(root / "logs")
        self.lab = ""
        self.coordinator_address = ""
        self.node_key = ""
        self._coordinator_settings = {**QUICK, **(coordinator or {})}
        self._node_settings = dict(node or {})
        self._before_coordinator = before_coordinator
        self._before_node = before_node
        self._software_cards = software_cards

    @property
    def coordinator_config(self) -> Path:
        return self.root / "coordinator" / "coordinator.toml"

    @property
    def coordinator_database(self) -> Path:
        return self.coordinator_config.parent / "state" / "coordinator.sqlite3"

    @property
    def node_state(self) -> Path:
        return self.root / "node"

    @property
    def node_database(self) -> Path:
        return self.node_state / "node.sqlite"

    @property
    def node_socket(self) -> Path:
        return self.node_state / "node.sock"

    def __enter__(self) -> Network:
        self.programs.__enter__()
        try:
            self._start()
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

    def operate(self, *words: str) -> Any:
        """A command of the coordinator's operator, beside the running server."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            status = coordinator_command(
                [*words, "--config", str(self.coordinator_config), "--json"]
            )
        assert status == 0, (words, printed.getvalue())
        return json.loads(printed.getvalue())

    def receipts(self) -> int:
        """How many receipts the coordinator has booked."""
        rows = self.operate("credits", "--by", "lab")
        return sum(row["receipts"] for row in rows)

    def start_coordinator(
        self, name: str = "coordinator", words: Sequence[str] = COORDINATOR, **environment: str
    ) -> Place:
        """Starts it on the port of its configuration; where it is once it listens."""
        config = str(self.coordinator_config)
        self.programs.start(name, [*words, "serve", "--config", config], **environment)
        line = self.programs.await_line(name, r"^ready (\S+)(.*)$")
        return Place(line[1], line[2].partition("certificate_sha256=")[2])

    def start_node(self, name: str = "node", words: Sequence[str] = NODE) -> None:
        """Starts the lab node and waits for its socket."""
        config = str(self.root / "node.toml")
        self.programs.start(name, [*words, "serve", "--config", config])
        self.programs.await_line(name, r"listening on https")
        waiting = patience("the lab node's socket is there")
        while waiting():
            if self.node_socket.exists():
                return

    def stop(self, *names: str) -> None:
        """SIGTERM to all of them; each must end well."""
        for name in names:
            self.programs.ask_to_end(name)
        for name in names:
            self.programs.await_end(name)

    def _start(self) -> None:
        initialize(self.coordinator_config, **{"port": free_port(), **self._coordinator_settings})
        own = self.start_coordinator()
        self.coordinator_address = own.address
        place = self._before_coordinator(own)
        for owner in sorted(set(self.agents.values())):
            self.operate("account", "add", owner)
        for name in self.agents:
            self._begin_enrolment(name, place)
        self._set_up_node(place)
        self.start_node()
        for name, owner in self.agents.items():
            self._end_enrolment(name, owner)
            self.programs.start(name, [*AGENT, "--config", str(self.root / f"{name}.toml")])

    def _set_up_node(self, coordinator: Place) -> None:
        state, port = self.node_state, free_port()
        state.mkdir(mode=0o700)
        self.node_key = public_key_bytes(load_or_make_key(state / "node.key")).hex()
        tls = make_self_signed(state, ["localhost", "127.0.0.1"])
        public = self._before_node(Place(f"https://127.0.0.1:{port}", tls.sha256))
        made = self.operate(
            "lab", "add", self.lab_name, "--key", self.node_key, "--address", public.address,
            "--certificate", public.certificate_sha256,
        )  # fmt: skip
        self.lab = made["lab"]
        settings = {
            "state_dir": str(state),
            "lab": self.lab,
            "listen_port": port,
            "coordinator_address": coordinator.address,
            "coordinator_certificate_sha256": coordinator.certificate_sha256,
            "coordinator_key": made["coordinator_key"],
            "confirmed_no_confidential_data": True,
            "local_engine": False,
            "engine_threads": 1,
            **self._node_settings,
        }
        (self.root / "node.toml").write_text(template(settings), encoding="utf-8")

    def _begin_enrolment(self, name: str, coordinator: Place) -> None:
        config = self.root / f"{name}.toml"
        config.write_text(
            f'state_directory = "{self.root / name}"\n' + "\n".join(LENDS_ALWAYS) + "\n"
            f'[coordinator]\naddress = "{coordinator.address}"\n'
            f'certificate_sha256 = "{coordinator.certificate_sha256}"\n'
            f"[processor]\nthreads = 1\nshare = true\nmemory_bytes = {256 * MIB}\n"
            f"input_bytes = {256 * MIB}\noutput_bytes = {128 * MIB}\n"
            + ("lend = false\n[cards]\nsoftware = true\n" if self._software_cards else ""),
            encoding="utf-8",
        )
        self.programs.start(
            f"{name}-enrol", [*GPUGOBLIN, "agent", "enrol", "--config", str(config)]
        )

    def _end_enrolment(self, name: str, owner: str) -> None:
        code = self.programs.await_line(f"{name}-enrol", r"\b[A-Z0-9]{4}-[A-Z0-9]{4}\b")
        self.operate("approve", code[0], "--account", owner)
        self.programs.await_end(f"{name}-enrol")
