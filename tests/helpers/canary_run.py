"""One run of a whole network with canaries in it, and everything that was found where.

The lab node is the one that the operator runs beside the coordinator (`hosted_lab`), on the same
machine: a process, a store and a key of its own.

Owns: the order of things: an honest run; the search at the coordinator; the control at the lab
node; then a coordinator and a lab node that betray. `Evidence` is all that the tests read.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import requests

import gpugoblin as gg
from gpugoblin.catalog.registry import catalog_hash
from gpugoblin.wire.keys import load_key
from gpugoblin.wire.signing import public_key_bytes
from gpugoblin.wire.tls import certificate_sha256
from tests.helpers.canary_hop import Hop
from tests.helpers.canary_plant import Plant, learned
from tests.helpers.canary_scan import Canary, Hit, Search
from tests.helpers.canary_sources import (
    Source,
    database,
    database_in_postgres,
    files,
    memory,
    request_lines,
    traffic,
)
from tests.helpers.network import Network
from tests.helpers.network_processes import patience
from tests.helpers.postgres import Postgres

__all__ = ["Evidence", "run"]

AGENTS: Final = {"agent-1": "ann", "agent-2": "bob"}
MUTANT_COORDINATOR: Final = str(Path(__file__).with_name("canary_mutant_coordinator.py"))
MUTANT_NODE: Final = str(Path(__file__).with_name("canary_mutant_node.py"))
_BUILD: Final = re.compile(rb'"engine_build":"([^"]*)"')


@dataclass(slots=True)
class Evidence:
    """What a run left behind.

    Args:
        requests: at the coordinator, by method and path.
        seen: what was found at the honest coordinator, by kind of source. Nothing, one hopes.
        places, searched_bytes: where was looked for it, and through how much, by kind.
        builds: what devices said of their engines.
        control: what was found at the lab node.
        logged: what was found at a coordinator that logged `shape` or `hash`.
        sent: what was found at an honest coordinator whose lab node betrays.
        pages: those that tell of the hosted lab node.
    """

    seed: int
    canaries: list[Canary] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    seen: dict[str, list[Hit]] = field(default_factory=dict)
    places: dict[str, set[str]] = field(default_factory=dict)
    searched_bytes: Counter[str] = field(default_factory=Counter)
    builds: set[bytes] = field(default_factory=set)
    memory_refused: str = ""
    control: list[Hit] = field(default_factory=list)
    node_memory: list[Hit] = field(default_factory=list)
    logged: dict[str, list[Hit]] = field(default_factory=dict)
    sent: list[Hit] = field(default_factory=list)
    pages: str = ""


def run(root: Path, server: Postgres | None = None) -> Evidence:
    """Runs everything below `root`, a directory with a short path.

    Args:
        server: the coordinator's facts lie in a new database of this PostgreSQL. Its rows, files,
            log and processes are searched too, and nobody betrays: SQLite's run has shown that.
    """
    settings: dict[str, object] = {"tls": "off", "hosted_lab": "lab-a"}
    if server is not None:
        settings["database"] = server.new_database()
    evidence = Evidence(random.SystemRandom().getrandbits(32))
    with ExitStack() as stack:
        outside = stack.enter_context(Hop("coordinator", root))
        inside = [stack.enter_context(Hop(name, root)) for name in ("node", "client")]
        network = Network(
            root, AGENTS, coordinator=settings,
            before_coordinator=outside.before, before_node=inside[0].before,
        )  # fmt: skip
        with network:
            _Run(network, outside, inside, evidence, server, str(settings.get("database"))).all()
    return evidence


class _Run:
    """A run under way."""

    def __init__(
        self, network: Network, outside: Hop, inside: list[Hop], evidence: Evidence,
        server: Postgres | None, dsn: str,
    ) -> None:  # fmt: skip
        self._network = network
        self._server, self._dsn = server, dsn
        self._outside = outside
        self._inside = inside
        self._evidence = evidence
        self._search = Search(())

    def all(self) -> None:
        network = self._network
        plant = self._compute()
        inside = [source for hop in self._inside for source in traffic(hop.flows())]
        new = learned(network.node_database, inside, self._allowed())
        self._evidence.canaries += [*plant.canaries(), *new]
        self._search = Search(self._evidence.canaries)
        self._look_at_the_coordinator()
        self._look_at_the_node(inside)
        if self._server is not None:
            self._look_at_postgres(self._server)
            network.stop(*AGENTS, "coordinator")
            self._look("files", self._coordinator_files())
            return
        network.stop(*AGENTS, "coordinator")
        # What a clean end writes is searched as well.
        self._look("files", self._coordinator_files())
        self._betray_in_the_log()
        self._betray_on_the_wire()

    def _compute(self) -> Plant:
        """Plans and runs jobs made of canaries, until the coordinator has booked all of it."""
        network, root = self._network, self._network.root
        plant = Plant(root, self._evidence.seed)
        door = root / "client.sock"
        self._inside[1].before_socket(door, network.node_socket)
        with gg.connect(f"unix:{door}"):
            a, b = plant.sparse(10_007, 8), plant.sparse(8, 30_011)
            gg.estimate(a @ b, executor="grid", name=plant.name("planned job"))
            wide = plant.sparse(30_011, 8) @ plant.sparse(8, plant.planned)
            gg.estimate(wide, executor="grid", name=plant.name("planned job"))
            jobs = [
                gg.save([array], name=plant.name("job"), executor="grid", force=True)
                for array in (
                    plant.array(10_007, 11) @ plant.array(11, 13),
                    plant.array(17, 30_011) @ plant.array(30_011, 19),
                    gg.sum(gg.exp(plant.array(plant.column, 2)), axis=0),
                )
            ]
            for job in jobs:
                plant.result(job.wait(timeout=60))
                job.certificate()
        tasks = sum(job.info.tasks for job in jobs)
        waiting = patience("the coordinator books every receipt")
        while waiting():
            if network.receipts() >= tasks:
                return plant
        raise AssertionError

    def _allowed(self) -> frozenset[str]:
        """Hashes that the coordinator may know: keys, certificates, the catalog's."""
        network = self._network
        root = network.root
        key_files = (
            network.node_state / "node.key",
            network.coordinator_database.parent / "ticket.key",
            *(path for name in AGENTS for path in (root / name).glob("*.key")),
        )
        certificates = (network.node_state / "tls.crt", *root.glob("*/tls.crt"))
        return frozenset({
            catalog_hash(),
            *(public_key_bytes(load_key(path)).hex() for path in key_files),
            *(certificate_sha256(path) for path in certificates),
        })  # fmt: skip

    def _pages(self) -> str:
        """Asked for before the search, so that whatever makes them has run."""
        with requests.Session() as session:
            session.trust_env = False
            asked = [
                session.get(f"{self._network.coordinator_address}{path}", timeout=20)
                for path in ("/privacy", "/labs", "/questions")
            ]
        assert [one.status_code for one in asked] == [200, 200, 200]
        return "".join(one.text for one in asked)

    def _coordinator_files(self) -> Iterator[Source]:
        network = self._network
        log = network.programs.logs / "coordinator.log"
        yield from files(network.coordinator_config.parent, log)

    def _look(self, kind: str, sources: Iterable[Source]) -> None:
        seen = self._evidence.seen.setdefault(kind, [])
        for source in sources:
            self._evidence.places.setdefault(kind, set()).add(source.place)
            self._evidence.searched_bytes[kind] += len(source.data)
            seen += self._found(source)

    def _found(self, source: Source) -> Iterator[Hit]:
        yield from self._search.find(source.place, source.data)
        yield from self._search.compare(source.place, source.numbers)

    def _look_at_the_coordinator(self) -> None:
        network, evidence = self._network, self._evidence
        flows = self._outside.flows()
        evidence.requests += request_lines(flows)
        for flow in flows:
            evidence.builds.update(_BUILD.findall(flow.data))
        evidence.pages = self._pages()
        self._look("traffic", traffic(flows))
        self._look("files", self._coordinator_files())
        self._look("rows", self._rows())
        whole, self._search = self._search, Search(evidence.canaries, strong_only=True)
        try:
            self._look("memory", memory(network.programs.pid("coordinator")))
            for source in memory(network.programs.pid("node")):
                evidence.node_memory += self._found(source)
        except PermissionError as cause:
            evidence.memory_refused = str(cause)
        self._search = whole

    def _rows(self) -> Iterator[Source]:
        if self._server is None:
            yield from database(self._network.coordinator_database)
            return
        with self._server.connect(self._server.name_of(self._dsn)) as connection:
            yield from database_in_postgres(connection)

    def _look_at_postgres(self, server: Postgres) -> None:
        """What lies on its disk (pages, WAL, log), in its processes, and in a copy of it.

        It has words of its own, so only forms that nothing else has are looked for. Last of all a
        canary is put there on purpose, which must be found in all of it.
        """
        network = self._network
        copy = network.root / "copy.sqlite3"
        network.operate("backup", str(copy))
        self._look("copy", files(copy))
        self._search = Search(self._evidence.canaries, strong_only=True)
        with server.connect(server.name_of(self._dsn)) as connection:
            connection.execute("CHECKPOINT")
        self._look("server", files(server.directory))
        try:
            for pid in server.backends(self._dsn):
                self._look("backend", memory(pid))
        except PermissionError as cause:
            self._evidence.memory_refused = str(cause)
        one = next(canary.what for canary in self._evidence.canaries if canary.kind == "hash")
        with server.connect(server.name_of(self._dsn)) as connection:
            connection.execute("CREATE TABLE betrayal (secret TEXT)")
            connection.execute("INSERT INTO betrayal VALUES (%s)", (one,))
            connection.execute("CHECKPOINT")
            rows = list(database_in_postgres(connection))
        for kind, sources in (("rows", rows), ("server", files(server.directory))):
            self._evidence.logged[kind] = [hit for source in sources for hit in self._found(source)]

    def _look_at_the_node(self, inside: Iterable[Source]) -> None:
        network = self._network
        log = network.programs.logs / "node.log"
        for sources in (inside, files(network.node_state, log), database(network.node_database)):
            for source in sources:
                self._evidence.control += self._found(source)

    def _betray_in_the_log(self) -> None:
        """A coordinator that logs a shape, then one hash."""
        network, name = self._network, "mutant-coordinator"
        one = next(canary.what for canary in self._evidence.canaries if canary.kind == "hash")
        secret, draft = network.root / "secret", network.root / "secret-draft"
        secret.write_text("float32[10007, 11]", encoding="ascii")
        network.start_coordinator(name, [MUTANT_COORDINATOR], CANARY_BETRAYAL=str(secret))
        for kind, start in (("shape", "float32"), ("hash", one[:4])):
            line = network.programs.await_line(name, rf"INFO work: {start}.*\.$")
            self._evidence.logged[kind] = list(self._found(Source("log", line[0].encode())))
            draft.write_text(one, encoding="ascii")
            draft.replace(secret)
        network.stop(name)

    def _betray_on_the_wire(self) -> None:
        """A lab node that puts a dimension and half a hash where they are admitted."""
        network = self._network
        network.stop("node")
        network.start_coordinator("coordinator-again")
        self._outside.forget()
        network.start_node("mutant-node", [MUTANT_NODE])
        waiting = patience("the mutant sends a receipt")
        while waiting():
            flows = self._outside.flows()
            if "POST /v1/node/receipts" in request_lines(flows):
                break
        for sources in (traffic(flows), database(network.coordinator_database)):
            for source in sources:
                self._evidence.sent += self._found(source)
        network.stop("mutant-node", "coordinator-again")
