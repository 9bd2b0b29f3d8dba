"""Labs and coordinators that lie, break off, or talk nonsense: a clear line, and the agent goes on.

Each row changes one thing at an otherwise honest server and names the words that the owner reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from gpugoblin.blobs.chunk import BlobHasher
from gpugoblin.ids import BlobHash, GrantId, LabId, fresh_id
from gpugoblin.wire.codec import encode
from gpugoblin.wire.keys import make_key
from gpugoblin.wire.messages.blob import Manifest, UploadState
from gpugoblin.wire.messages.contact import Grant, GrantOffer
from gpugoblin.wire.messages.lease import Exchange, ExchangeReply, Lease
from gpugoblin.wire.messages.task import OutputSpec
from gpugoblin.wire.tickets import sign_grant
from tests.helpers.agent_network import FakeLab, Reply, eventually, message, refusal
from tests.helpers.agent_run import Scene
from tests.helpers.stub_engine import StubMaker


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr("app.agent.network.LEAST_CONTACT_S", 0.1)
    made = Scene(tmp_path)
    made.coordinator.next_contact_s = 0.1
    yield made
    made.close()


def flipped(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


def content_range(first: int, last: int, size: int) -> dict[str, str]:
    return {"Content-Range": f"bytes {first}-{last}/{size}"}


# -- labs -----------------------------------------------------------------------------------


def false_bytes(lab: FakeLab) -> None:
    lab.range = lambda name, data, first, last: (  # type: ignore[method-assign]
        206, flipped(data[first : last + 1]), content_range(first, last, len(data)),
    )  # fmt: skip


def short_bytes(lab: FakeLab) -> None:
    def short(name: BlobHash, data: bytes, first: int, last: int) -> Reply:
        return 206, data[first:last], content_range(first, last, len(data))

    lab.range = short  # type: ignore[method-assign]


def long_bytes(lab: FakeLab) -> None:
    def long(name: BlobHash, data: bytes, first: int, last: int) -> Reply:
        return 206, data[first : last + 1] + b"x", content_range(first, last, len(data))

    lab.range = long  # type: ignore[method-assign]


def whole_instead_of_range(lab: FakeLab) -> None:
    lab.range = lambda name, data, first, last: (200, data, {})  # type: ignore[method-assign]


def other_range(lab: FakeLab) -> None:
    lab.range = lambda name, data, first, last: (  # type: ignore[method-assign]
        206, data[first : last + 1], content_range(first + 1, last + 1, len(data)),
    )  # fmt: skip


def false_chunk_list(lab: FakeLab) -> None:
    lab.manifest = lambda manifest: message(  # type: ignore[method-assign]
        Manifest(manifest.blob, manifest.nbytes, ("00" * 32,) * len(manifest.chunks))
    )


def other_blob(lab: FakeLab) -> None:
    hasher = BlobHasher()
    hasher.update(b"something else")
    other = hasher.manifest()
    lab.manifest = lambda manifest: message(  # type: ignore[method-assign]
        Manifest(other.blob, other.nbytes, other.chunks)
    )


def endless_chunk_list(lab: FakeLab) -> None:
    lab.manifest = lambda manifest: message(  # type: ignore[method-assign]
        Manifest(manifest.blob, manifest.nbytes, ("00" * 32,) * 50_000)
    )


def no_json(lab: FakeLab) -> None:
    lab.exchange = lambda *_: (200, b"<html>hello</html>", {})  # type: ignore[method-assign]


def unknown_field(lab: FakeLab) -> None:
    lab.exchange = lambda *_: (200, b'{"run":"rm -rf /"}', {})  # type: ignore[method-assign]


def too_large(lab: FakeLab) -> None:
    body = b'{"leases":[]' + b" " * (33 * 1024 * 1024) + b"}"
    lab.exchange = lambda *_: (200, body, {})  # type: ignore[method-assign]


def redirect(lab: FakeLab) -> None:
    lab.exchange = lambda *_: (302, b"", {"Location": "https://127.0.0.1:1/"})  # type: ignore[method-assign]


def silent_error(lab: FakeLab) -> None:
    lab.exchange = lambda *_: (500, b"oops", {})  # type: ignore[method-assign]


def escape_codes(lab: FakeLab) -> None:
    lab.exchange = lambda *_: refusal(503, "busy", "\x1b[2J\x1b]0;owned\x07 later")  # type: ignore[method-assign]


def hangs_up(lab: FakeLab) -> None:
    lab.is_away = True


def refuses_grant(lab: FakeLab) -> None:
    lab.exchange = lambda *_: refusal(401, "ticket_expired", "The ticket has ended.")  # type: ignore[method-assign]


def change(**fields: object) -> Callable[[FakeLab], None]:
    def apply(lab: FakeLab) -> None:
        lab.change_lease = lambda lease: msgspec.structs.replace(lease, **fields)

    return apply


def change_task(make: Callable[[Lease], dict[str, object]]) -> Callable[[FakeLab], None]:
    def apply(lab: FakeLab) -> None:
        lab.change_lease = lambda lease: msgspec.structs.replace(
            lease, task=msgspec.structs.replace(lease.task, **make(lease))
        )

    return apply


def somebody_elses_ticket(lab: FakeLab) -> None:
    """The ticket is of this lab and for this device, but belongs to another grant."""
    stranger = GrantId(fresh_id("grant"))
    honest = lab.exchange

    def swap(device: bytes, grant: Grant, asked: Exchange) -> Reply:
        lab.change_lease = lambda lease: msgspec.structs.replace(
            lease, blob_ticket=lab.ticket(device, stranger)
        )
        return honest(device, grant, asked)

    lab.exchange = swap  # type: ignore[method-assign]


def two_sizes(lease: Lease) -> dict[str, object]:
    first = lease.task.inputs[0]
    again = msgspec.structs.replace(first, slot=1, nbytes=first.nbytes + 1)
    return {"inputs": (first, again)}


def doubled_slots(lease: Lease) -> dict[str, object]:
    first = lease.task.inputs[0]
    return {"inputs": (first, first)}


def huge_output(lease: Lease) -> dict[str, object]:
    return {"outputs": (OutputSpec(0, "int64", (2**40, 2**40)),)}


def large_output(lease: Lease) -> dict[str, object]:
    return {"outputs": (OutputSpec(0, "int64", (2**30,)),)}


def wrong_size(lease: Lease) -> dict[str, object]:
    first = lease.task.inputs[0]
    return {"inputs": (msgspec.structs.replace(first, nbytes=first.nbytes + 4),)}


def oversized_input(lease: Lease) -> dict[str, object]:
    # The manifest of such a blob would be honest, but it does not fit into the cache.
    first = lease.task.inputs[0]
    return {"inputs": (msgspec.structs.replace(first, nbytes=2**40),)}


def never_enough(lab: FakeLab) -> None:
    lab.put = lambda path, body: message(UploadState(0, False))  # type: ignore[method-assign]


def refuses_results(lab: FakeLab) -> None:
    lab.put = lambda path, body: refusal(404, "unknown_lease")  # type: ignore[method-assign]


def too_many_leases(lab: FakeLab) -> None:
    honest = lab.exchange

    def flood(device: bytes, grant: Grant, asked: Exchange) -> Reply:
        lab.exchange = honest  # type: ignore[method-assign]
        leases = tuple(lab.lease(device, grant.jti) for _ in range(20))
        return message(ExchangeReply(leases))

    lab.exchange = flood  # type: ignore[method-assign]


@dataclass(frozen=True)
class Row:
    name: str
    spoil: Callable[[FakeLab], None]
    words: str
    shuns: bool = False


LABS = [
    Row("false bytes", false_bytes, "do not match its name (chunk 0)", shuns=True),
    Row("fewer bytes", short_bytes, "its inputs could not be had"),
    Row("more bytes", long_bytes, "its inputs could not be had"),
    Row("no range", whole_instead_of_range, "its inputs could not be had"),
    Row("another range", other_range, "its inputs could not be had"),
    Row("false chunk list", false_chunk_list, "do not match its name (chunk list)", shuns=True),
    Row("another blob", other_blob, "do not match its name (chunk list)", shuns=True),
    Row("endless chunk list", endless_chunk_list, "its inputs could not be had"),
    Row("no JSON", no_json, "does not match its declaration"),
    Row("unknown field", unknown_field, "unknown field"),
    Row("too large", too_large, "more than 33554432 bytes"),
    Row("redirect", redirect, "status 302 without a reason"),
    Row("no reason", silent_error, "status 500 without a reason"),
    Row("terminal escapes", escape_codes, "busy]"),
    Row("hangs up", hangs_up, "cannot be reached"),
    Row("refuses the grant", refuses_grant, "the grant has ended"),
    Row("malformed ticket", change(blob_ticket="x.y.z"), "too much that is false", shuns=True),
    Row("another's ticket", somebody_elses_ticket, "too much that is false", shuns=True),
    Row("two sizes", change_task(two_sizes), "too much that is false", shuns=True),
    Row("doubled slots", change_task(doubled_slots), "too much that is false", shuns=True),
    Row("huge output", change_task(huge_output), "too much that is false", shuns=True),
    Row("large output", change_task(large_output), "does not fit into the memory"),
    Row("wrong size", change_task(wrong_size), "too much that is false", shuns=True),
    Row("oversized input", change_task(oversized_input), "its inputs could not be had"),
    Row("never enough", never_enough, "still misses output"),
    Row("refuses results", refuses_results, "did not take a result"),
    Row("too many leases", too_many_leases, "goes back to its lab"),
]


AKIN = frozenset(
    {
        "more bytes", "no range", "another range", "another blob", "endless chunk list",
        "unknown field", "no reason", "doubled slots", "two sizes", "huge output",
        "malformed ticket",
    }
)  # fmt: skip
"""Rows that take the way of another row; they run with `--slow`."""


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row.name, marks=[pytest.mark.slow] if row.name in AKIN else [])
        for row in LABS
    ],
)
def test_a_hostile_lab(scene: Scene, tmp_path: Path, row: Row) -> None:
    """The owner is told, and an honest lab gets its results afterwards from the same agent."""
    scene.lab.add_products(30, rows=8, inner=16, columns=8)
    row.spoil(scene.lab)
    honest = FakeLab(tmp_path, scene.coordinator, "honest")
    scene.labs.append(honest)
    honest.add_products(2, rows=8, inner=16, columns=8)

    def script() -> None:
        eventually(lambda: scene.said(row.words))
        if row.shuns:
            eventually(lambda: scene.said("taking nothing from it"))
        scene.coordinator.lab = honest
        scene.coordinator.revoked = list(scene.coordinator.granted)
        eventually(lambda: honest.verified() == 2)

    assert scene.lend(script, StubMaker()) == 0
    assert not any("\x1b" in line for line in scene.lines)
    assert honest.problems == []


def test_a_lab_that_was_away_gets_its_results_when_it_is_back(scene: Scene) -> None:
    scene.lab.add_products(40, rows=8, inner=16, columns=8)

    def script() -> None:
        eventually(lambda: scene.lab.verified() > 3)
        scene.lab.is_away = True
        eventually(lambda: scene.said("A lab does not answer"))
        scene.lab.is_away = False
        eventually(lambda: scene.lab.verified() == 40)

    assert scene.lend(script, StubMaker()) == 0


# -- coordinators ---------------------------------------------------------------------------


def another_device(scene: Scene) -> None:
    def swap(offer: GrantOffer) -> GrantOffer:
        import jwt

        claims = jwt.decode(offer.ticket, options={"verify_signature": False})
        grant = msgspec.convert(claims, Grant)
        stranger = msgspec.structs.replace(grant, device_key="ab" * 32)
        return msgspec.structs.replace(offer, ticket=sign_grant(make_key(), stranger))

    scene.coordinator.change_offer = swap


def offer_with(**fields: object) -> Callable[[Scene], None]:
    def apply(scene: Scene) -> None:
        scene.coordinator.change_offer = lambda offer: msgspec.structs.replace(offer, **fields)

    return apply


def over_already(scene: Scene) -> None:
    scene.coordinator.grant_s = -10.0


def contact_says(status: int, body: bytes) -> Callable[[Scene], None]:
    def apply(scene: Scene) -> None:
        scene.coordinator.contact = lambda *_: (status, body, {})  # type: ignore[method-assign]

    return apply


def forgets_the_device(scene: Scene) -> None:
    scene.coordinator.contact = lambda *_: refusal(403, "device_unknown", "Who?")  # type: ignore[method-assign]


def is_away(scene: Scene) -> None:
    scene.coordinator.contact = lambda *_: refusal(503, "overloaded", "Later.")  # type: ignore[method-assign]


def large_reply() -> bytes:
    return b'{"device":"device_a","grants":[],"revoked":[]' + b" " * 1_200_000 + b"}"


COORDINATORS = [
    ("another device", another_device, "it is for another device"),
    ("no ticket", offer_with(ticket="abc"), "not of its declared form"),
    ("another lab", offer_with(lab=LabId("lab_other")), "for another lab or card"),
    ("another card", offer_with(card=7), "for another lab or card"),
    ("plain http", offer_with(address="http://192.0.2.1:80"), "neither encrypted nor pinned"),
    ("over already", over_already, "over already"),
    ("no JSON", contact_says(200, b"[]"), "does not match its declaration"),
    ("too large", contact_says(200, large_reply()), "more than 1048576 bytes"),
    ("forgets the device", forgets_the_device, "Who?"),
    ("away", is_away, "Later."),
]


@pytest.mark.parametrize(("name", "spoil", "words"), COORDINATORS, ids=lambda each: str(each)[:20])
def test_a_hostile_coordinator(
    scene: Scene, name: str, spoil: Callable[[Scene], None], words: str
) -> None:
    """The owner is told, and an honest answer later is used by the same agent."""
    scene.lab.add_products(2, rows=8, inner=16, columns=8)
    honest = scene.coordinator.contact
    spoil(scene)

    def script() -> None:
        eventually(lambda: scene.said(words))
        scene.coordinator.change_offer = lambda offer: offer
        scene.coordinator.grant_s = 600.0
        scene.coordinator.contact = honest  # type: ignore[method-assign]
        eventually(lambda: scene.lab.verified() == 2)

    assert scene.lend(script, StubMaker()) == 0
    assert scene.lab.problems == []


def test_a_wrong_certificate_of_the_lab_is_never_spoken_to(scene: Scene) -> None:
    scene.lab.add_products(2)
    offer_with(certificate_sha256="ab" * 32)(scene)
    scene.lend(lambda: eventually(lambda: scene.said("does not show the certificate")), StubMaker())
    assert not scene.lab.requests


def test_a_wrong_certificate_of_the_coordinator_is_never_spoken_to(scene: Scene) -> None:
    config = scene.config
    config.write_text(config.read_text().replace(scene.coordinator.files.sha256, "ab" * 32))
    scene.fixed_config = config
    scene.lend(lambda: eventually(lambda: scene.said("does not show the certificate")), StubMaker())
    assert not scene.coordinator.requests


def test_a_fingerprint_of_another_key_stops_the_enrolment(scene: Scene) -> None:
    from gpugoblin.ids import EnrolmentId
    from gpugoblin.wire.messages.enrol import EnrolStartReply

    honest = scene.coordinator.answer

    def swapped(method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        if path == "/v1/enrol/start":
            reply = EnrolStartReply(
                EnrolmentId("enrol_a"), "ABCD-2345", "dead-beef-dead-beef", 1, 9
            )
            return 200, encode(reply), {}
        return honest(method, path, headers, body)

    scene.coordinator.answer = swapped  # type: ignore[method-assign]
    scene.lend(lambda: eventually(lambda: scene.said("which is not this device's")), StubMaker())
    assert not scene.said("approve the code")


@pytest.mark.parametrize(
    ("state", "words"), [("denied", "was denied"), ("expired", "was not approved in time")]
)
def test_an_enrolment_that_is_not_approved(scene: Scene, state: str, words: str) -> None:
    scene.coordinator.poll_states = [state, "pending", "approved"]
    scene.lab.add_products(1, rows=8, inner=16, columns=8)

    def script() -> None:
        eventually(lambda: scene.said(words))
        eventually(lambda: scene.lab.verified() == 1)

    scene.lend(script, StubMaker())


def test_a_revoked_grant_ends_at_the_next_contact(scene: Scene) -> None:
    scene.lab.add_products(30, rows=8, inner=16, columns=8)

    def script() -> None:
        eventually(lambda: scene.lab.verified() > 0)
        scene.coordinator.lab = None
        scene.coordinator.revoked = list(scene.coordinator.granted)
        eventually(lambda: scene.said("the grant has ended (grant revoked)"))

    scene.lend(script, StubMaker("", *["hang"] * 40))


def test_a_grant_that_ends_takes_its_cache_with_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path, grant_s=7.0)
    try:
        scene.coordinator.next_contact_s = 100.0
        scene.lab.add_products(1, rows=8, inner=16, columns=8)

        def script() -> None:
            eventually(lambda: list((scene.state / "cache").iterdir()))
            eventually(lambda: scene.said("the grant has ended (grant over)"))
            eventually(lambda: not list((scene.state / "cache").iterdir()))

        scene.lend(script, StubMaker())
    finally:
        scene.close()
