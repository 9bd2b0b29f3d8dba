"""No research data at the coordinator: a whole network runs, and all it could see is searched.

Traffic is taken before encryption, by a hop that ends TLS; beside it the database with its log,
all files, and the memory of the process. The data of the jobs are canaries (`canary_plant` says
what, `canary_forms` in which spellings). That the search can find is shown three times: at the lab
node, which knows everything; at a coordinator that logs a shape and a hash; with a lab node that
sends a dimension and part of a hash in fields that admit them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest
from msgspec import Struct

from gpugoblin.wire import messages as declared
from gpugoblin.wire.bounds import Shape, Word
from gpugoblin.wire.registry import MESSAGES
from tests.helpers import postgres
from tests.helpers.canary_fields import Capacity, carriers
from tests.helpers.canary_run import Evidence, run
from tests.helpers.canary_scan import Hit

pytestmark = pytest.mark.timeout(300)

Field = tuple[str, str, Capacity]

ALLOWED: Final[dict[Field, str]] = {
    ("contact@1", "cards[].catalog_hash", "hash"): "of the published catalog: equal for everybody",
    ("contact@1", "cards[].engine_build", "hash"): "a version of our release, which the device has"
    " before it meets a lab; the run below shows that it is one",
    ("contact@1", "cards[].engine_build", "shape"): "the same word",
    ("contact@1", "cards[].memory_bytes", "shape"): "the card's own size, set by its owner",
    ("enrol.mail@1", "mailbox", "shape"): "the owner's mail address, typed before the device meets"
    " a lab; the coordinator knows it from its pages, too",
    ("enrol.start@1", "public_key", "hash"): "the device's key, made before it meets a lab",
    ("node.demand@1", "cards_wanted", "number"): "how many tasks are left: wanted cards, no size",
    ("node.demand@1", "min_memory_bytes", "number"): "whole steps of 256 MiB, rounded down",
    ("receipt.batch@1", "receipts[].device_signature", "hash"): "over lease and grant alone, and"
    " checked by the coordinator",
    ("receipt.batch@1", "receipts[].units", "shape"): "work in three digits: credit is made of it",
    ("receipt.batch@1", "receipts[].verified_s", "shape"): "a time",
}
"""Fields toward the coordinator that admit 256 bits or a large number, each with the reason."""


@pytest.fixture(scope="module")
def evidence() -> Iterator[Evidence]:
    root = Path(tempfile.mkdtemp(prefix="gg-"))
    try:
        yield run(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="module")
def in_postgres() -> Iterator[Evidence]:
    """The same with the coordinator's facts in PostgreSQL."""
    if postgres.missing():
        pytest.skip(postgres.MISSING)
    root = Path(tempfile.mkdtemp(prefix="gg-"))
    try:
        with postgres.running() as server:
            yield run(root, server)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _told(hits: list[Hit], seed: int) -> str:
    return f"seed {seed}: {len(hits)} hits\n" + "\n".join(map(str, hits[:40]))


@pytest.mark.parametrize("kind", ["traffic", "files", "rows", "memory"])
def test_the_coordinator_saw_no_canary(evidence: Evidence, kind: str) -> None:
    if kind == "memory" and evidence.memory_refused:
        pytest.skip(f"the memory of a process cannot be read here: {evidence.memory_refused}")
    assert evidence.searched_bytes[kind] > 1000
    assert not evidence.seen[kind], _told(evidence.seen[kind], evidence.seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["traffic", "files", "rows", "memory", "copy", "server", "backend"]
)
def test_no_canary_is_in_postgres_either(in_postgres: Evidence, kind: str) -> None:
    if kind in ("memory", "backend") and in_postgres.memory_refused:
        pytest.skip(f"the memory of a process cannot be read here: {in_postgres.memory_refused}")
    assert in_postgres.searched_bytes[kind] > 1000
    assert not in_postgres.seen[kind], _told(in_postgres.seen[kind], in_postgres.seed)


@pytest.mark.slow
def test_control_a_canary_in_postgres_is_found(in_postgres: Evidence) -> None:
    assert "table: receipt of PostgreSQL" in in_postgres.places["rows"]
    assert not any("sqlite3" in place for place in in_postgres.places["files"])
    assert {hit.canary.kind for hit in in_postgres.logged["rows"]} == {"hash"}
    found = {hit.place for hit in in_postgres.logged["server"]}
    assert len(found) >= 2, "a page of the table, and the log of writes"


def test_the_run_was_whole(evidence: Evidence) -> None:
    requests = Counter(evidence.requests)
    assert requests["POST /v1/enrol/start"] == 2
    for line in (
        "POST /v1/enrol/poll", "POST /v1/contact", "POST /v1/node/demand",
        "GET /v1/node/revocations", "POST /v1/node/receipts",
    ):  # fmt: skip
        assert requests[line] > 0, line
    files = {place.removeprefix("file: ") for place in evidence.places["files"]}
    assert {"coordinator.sqlite3", "coordinator.sqlite3-wal", "coordinator.log"} <= files
    assert {"table: receipt of coordinator.sqlite3", "table: audit of coordinator.sqlite3"} <= (
        evidence.places["rows"]
    )
    assert any(place.startswith("tickets") for place in evidence.places["traffic"])
    kinds = Counter(canary.kind for canary in evidence.canaries)
    assert (kinds["dimension"], kinds["operator"]) == (4, 2)
    assert kinds["pattern"] == 8  # five inputs and three results
    for kind in ("hash", "id", "name", "size"):
        assert kinds[kind] >= 10, kinds


def test_the_pages_told_of_the_node_that_keeps_the_data(evidence: Evidence) -> None:
    assert evidence.pages.count("lab-a") >= 3
    assert "are kept on the operator" in evidence.pages


def test_devices_name_their_release_as_their_engines_build(evidence: Evidence) -> None:
    assert evidence.builds == {f"engine-{version('gpugoblin')}".encode()}


def test_control_the_lab_node_shows_every_canary(evidence: Evidence) -> None:
    found = {id(hit.canary) for hit in evidence.control}
    lost = [f"{each.kind} {each.what}" for each in evidence.canaries if id(each) not in found]
    assert lost == [], f"seed {evidence.seed}"


def test_control_memory_can_be_searched(evidence: Evidence) -> None:
    if evidence.memory_refused:
        pytest.skip(f"the memory of a process cannot be read here: {evidence.memory_refused}")
    kinds = {hit.canary.kind for hit in evidence.node_memory}
    assert {"hash", "name"} <= kinds


@pytest.mark.parametrize(("secret", "kind"), [("shape", "dimension"), ("hash", "hash")])
def test_a_coordinator_that_logs_one_is_caught(evidence: Evidence, secret: str, kind: str) -> None:
    assert {hit.canary.kind for hit in evidence.logged[secret]} == {kind}


def test_a_lab_node_that_sends_them_is_caught(evidence: Evidence) -> None:
    places: dict[str, set[str]] = {}
    for hit in evidence.sent:
        places.setdefault(hit.canary.kind, set()).add(hit.place.partition(":")[0])
    assert places["dimension"] == {"traffic", "table"}
    assert "traffic" in places["hash"]
    assert set(places) == {"dimension", "hash"}


def _toward_the_coordinator() -> set[Field]:
    assert declared.contact.Contact is not None  # the import fills the registry
    return {
        (entry.key, carrier.field, carrier.capacity)
        for entry in MESSAGES.values()
        if entry.receiver == "coordinator"
        for carrier in carriers(entry.struct)
    }


def test_no_field_toward_the_coordinator_could_carry_a_shape_or_a_hash() -> None:
    found = _toward_the_coordinator()
    assert found - set(ALLOWED) == set(), "a new field needs a reason, or tighter bounds"
    assert set(ALLOWED) - found == set(), "reasons for fields that are gone"


class Telling(Struct):
    """Fields that each could carry something."""

    shape: Shape
    graph: Word
    data: bytes
    note: str
    rows: int
    sizes: dict[str, int]
    small: bool = False


def test_the_walk_over_fields_finds_carriers() -> None:
    found = {(carrier.field, carrier.capacity) for carrier in carriers(Telling)}
    assert found == {
        ("shape[]", "shape"), ("graph", "hash"), ("graph", "shape"), ("data", "hash"),
        ("note", "hash"), ("note", "shape"), ("rows", "number"), ("sizes{key}", "hash"),
        ("sizes{key}", "shape"), ("sizes{}", "shape"),
    }  # fmt: skip
