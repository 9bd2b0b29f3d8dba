"""The network of the demonstration: a coordinator, a lab node, four contributors of three owners.

Owns: setting them up with the commands that their operators would use, and what happens to three
of the contributors. Everything listens on the loopback interface only.
"""

from __future__ import annotations

import json
import socket
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.processes import Processes, run_command

__all__ = ["CONTRIBUTORS", "Contributor", "Network"]


@dataclass(frozen=True, slots=True)
class Contributor:
    """One machine that lends its processor. `module` is the program that it runs."""

    name: str
    owner: str
    module: str
    fate: str


LIAR = str(Path(__file__).with_name("liar.py"))

CONTRIBUTORS = (
    Contributor("machine-1", "owner-a", "app.main", "honest, stays"),
    Contributor("machine-2", "owner-b", "app.main", "honest, leaves"),
    Contributor("machine-3", "owner-a", "app.main", "honest, killed and started again"),
    Contributor("machine-4", "owner-c", LIAR, "returns wrong numbers"),
)

LENDS_ALWAYS = 'profile = "custom"\naway.when_present = "go_on"\nload.processor_percent = 100\n'
"""Whoever watches the demo uses the machine, and the demo itself keeps it busy."""


SLOT_BYTES = 64 * 1024 * 1024
"""Four contributors on one machine: small tasks, so that each of them gets many."""


class Network:
    """The running network. A context manager.

    Args:
        threads: of each contributor's engine.
        slot_bytes: the largest tensor of a task.
    """

    def __init__(
        self,
        root: Path,
        contributors: Sequence[Contributor] = CONTRIBUTORS,
        threads: int = 1,
        slot_bytes: int = SLOT_BYTES,
    ) -> None:
        self.root = root
        self._contributors = tuple(contributors)
        self._threads = threads
        self._slot_bytes = slot_bytes
        self.processes = Processes(root / "logs")
        self.node_socket = root / "node" / "node.sock"
        self._coordinator_config = root / "coordinator.toml"

    def __enter__(self) -> Network:
        self.processes.__enter__()
        try:
            self._start()
        except BaseException:
            self.processes.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        self.processes.__exit__(*error)

    def _start(self) -> None:
        address, pin = self._start_coordinator()
        # Contributors start their engines while the lab and the accounts are made.
        for contributor in self._contributors:
            self._configure(contributor, address, pin)
            self.start_contributor(contributor)
        owners = sorted({contributor.owner for contributor in self._contributors})
        with ThreadPoolExecutor(2) as operators:
            node = operators.submit(self._start_node, address, pin)
            accounts = [
                operators.submit(self._coordinator, "account", "add", own) for own in owners
            ]
            for account in accounts:
                account.result()
            enrolled = [operators.submit(self._approve, each) for each in self._contributors]
            for done in (*enrolled, node):
                done.result()

    def _start_coordinator(self) -> tuple[str, str]:
        config = self._coordinator_config
        self._coordinator("init", "--port", str(_free_port()))
        # A demonstration of two minutes wants shorter waits than a network of a million devices.
        _change(config, contact_s=2.0, waiting_contact_s=1.0, enrol_interval_s=0.2, poll_s=1.0)
        self.processes.start(
            "coordinator", "server_stub.coordinator", ["serve", "--config", str(config)]
        )
        ready = self.processes.await_match(
            "coordinator", r"^ready \S+ certificate_sha256=\w+"
        ).split()
        return ready[1], ready[2].partition("=")[2]

    def _start_node(self, coordinator: str, pin: str) -> None:
        config, port = self.root / "node.toml", _free_port()
        state = self.root / "node"
        said = run_command(
            "server_stub.node", "init", "--config", str(config), "--state-dir", str(state),
            "--port", str(port), "--coordinator", coordinator,
        )  # fmt: skip
        facts = dict(line.split(maxsplit=1) for line in said.splitlines() if len(line.split()) > 1)
        lab = self._coordinator(
            "lab", "add", "demonstration", "--key", facts["key"],
            "--address", f"https://127.0.0.1:{port}", "--certificate", facts["certificate"],
        )  # fmt: skip
        _change(
            config,
            lab=lab["lab"],
            coordinator_key=lab["coordinator_key"],
            coordinator_certificate_sha256=pin,
            confirmed_no_confidential_data=True,
            grid_slot_bytes=self._slot_bytes,
        )
        self.processes.start("node", "server_stub.node", ["serve", "--config", str(config)])
        deadline_s = time.monotonic() + 30
        while not self.node_socket.exists():
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"the lab node did not start:\n{self.processes.log('node')}")
            time.sleep(0.05)

    def _configure(self, contributor: Contributor, coordinator: str, pin: str) -> None:
        state = self.root / contributor.name
        config = self.root / f"{contributor.name}.toml"
        config.write_text(
            f'state_directory = "{state}"\n{LENDS_ALWAYS}'
            f'[coordinator]\naddress = "{coordinator}"\ncertificate_sha256 = "{pin}"\n'
            f"[processor]\nthreads = {self._threads}\nshare = true\n",
            encoding="utf-8",
        )

    def _approve(self, contributor: Contributor) -> None:
        """What the operator does for a device whose owner has told the code."""
        code = self.processes.await_match(contributor.name, r"\b[A-Z0-9]{4}-[A-Z0-9]{4}\b")
        self._coordinator("approve", code, "--account", contributor.owner)

    def start_contributor(self, contributor: Contributor) -> None:
        config = self.root / f"{contributor.name}.toml"
        self.processes.start(
            contributor.name, contributor.module, ["--console", "--config", str(config)]
        )

    def await_credits(self, timeout_s: float = 20.0) -> None:
        """Waits until the lab node has told the coordinator of all verified work."""
        deadline_s, last = time.monotonic() + timeout_s, -1.0
        while time.monotonic() < deadline_s:
            units = sum(float(row["units"]) for row in self.credits())
            if units == last and units > 0:
                return
            last = units
            time.sleep(2.5)  # longer than the node waits between two batches

    def credits(self) -> list[dict[str, Any]]:
        """Verified work by owner, from the coordinator's ledger."""
        rows = self._coordinator("credits", "--by", "owner")
        assert isinstance(rows, list)  # noqa: S101 - our own command's JSON
        return rows

    def _coordinator(self, *arguments: str) -> Any:
        said = run_command(
            "server_stub.coordinator", *arguments, "--config", str(self._coordinator_config),
            "--json",
        )  # fmt: skip
        return json.loads(said)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _change(path: Path, **values: object) -> None:
    """Sets values in a flat TOML file, as an operator would with an editor."""
    kept = [
        line
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.lstrip("# ").partition("=")[0].strip() not in values
    ]
    for name, value in values.items():
        text = json.dumps(value) if not isinstance(value, bool) else str(value).lower()
        kept.append(f"{name} = {text}")
    path.write_text("\n".join(kept) + "\n", encoding="utf-8")
    tomllib.loads(path.read_text(encoding="utf-8"))
