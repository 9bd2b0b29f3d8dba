"""What the agent says to a lab node under one grant: exchanges, blobs, uploads.

Owns: these dialogues, and the distrust: every byte from a lab is bounded, every chunk is compared
with its name before it is kept. Must not: decide when. All calls block: each runs on a lane, and
each lane has a link of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from app.agent.cache import BlobCache
from app.agent.link import Link, PeerRefusal
from gpugoblin.blobs.chunk import CHUNK_BYTES, BlobManifest, check_manifest, chunk_count
from gpugoblin.errors import AgentError, StoreError
from gpugoblin.ids import BlobHash, GrantId, LeaseId
from gpugoblin.wire.codec import decode, encode, message_type
from gpugoblin.wire.messages.blob import Manifest, UploadState
from gpugoblin.wire.messages.lease import Exchange, ExchangeReply, Uploaded, UploadedReply

__all__ = ["HOLD_S", "Output", "exchange", "fetch", "upload"]

HOLD_S: Final = 75.0
"""How long a lab may hold an exchange while it has no work: 50 s, and the way."""

RUN_CHUNKS: Final = 4
UPLOAD_PIECE_BYTES: Final = CHUNK_BYTES
UPLOAD_ROUNDS: Final = 3
GRANT_HEADER: Final = "Goblin-Grant"
TICKET_HEADER: Final = "Goblin-Ticket"


@dataclass(frozen=True, slots=True)
class Output:
    """One output of a computed task: its name and its private bytes."""

    slot: int
    blob: BlobHash
    data: bytes | bytearray


def exchange(link: Link, ticket: str, message: Exchange) -> ExchangeReply:
    """One lease exchange. Raises AgentError, WireError (see `Link.call`)."""
    data = link.call(
        "POST",
        "/v1/lease/exchange",
        encode(message),
        max_bytes=message_type(ExchangeReply).max_bytes,
        headers={GRANT_HEADER: ticket},
        timeout_s=HOLD_S,
    )
    return decode(ExchangeReply, data)


def fetch(
    link: Link,
    cache: BlobCache,
    grant: GrantId,
    tickets: tuple[str, str],
    blob: BlobHash,
    nbytes: int,
    goes_on: Callable[[], bool],
) -> None:
    """Brings a blob into the cache, from the first chunk that is missing.

    Args:
        tickets: of the grant and of the blob.
        nbytes: the size that the lease says; another size is refused before anything is fetched.
        goes_on: asked after each piece; False breaks off, and what is whole stays.

    Raises:
        AgentError: `grant_closed` (broken off), `blob_is_false` (the lab lies), those of the
            cache, those of `Link`.
    """
    headers = {GRANT_HEADER: tickets[0], TICKET_HEADER: tickets[1]}
    if not goes_on():
        raise AgentError("grant_closed", grant=grant)
    if cache.missing(grant, blob) is None:
        cache.begin(grant, _manifest(link, headers, blob, nbytes))
    missing = cache.missing(grant, blob) or []
    room = memoryview(bytearray(min(nbytes, RUN_CHUNKS * CHUNK_BYTES) if missing else 0))
    while missing and goes_on():
        run = _first_run(missing)
        _fetch_run(link, cache, grant, headers, blob, nbytes, run, goes_on, room)
        missing = cache.missing(grant, blob) or []
    if missing:
        raise AgentError("grant_closed", grant=grant)


def _manifest(link: Link, headers: dict[str, str], blob: BlobHash, nbytes: int) -> BlobManifest:
    # 64 digits and some punctuation for each chunk, and the rest of the message.
    most = min(message_type(Manifest).max_bytes, 4096 + 80 * chunk_count(nbytes))
    data = link.call("GET", f"/v1/blobs/{blob}/manifest", max_bytes=most, headers=headers)
    answer = decode(Manifest, data)
    try:
        manifest = check_manifest(answer.blob, answer.nbytes, answer.chunks)
    except StoreError as cause:
        raise AgentError("blob_is_false", blob=blob, chunk="list") from cause
    if manifest.blob != blob or manifest.nbytes != nbytes:
        raise AgentError("blob_is_false", blob=blob, chunk="list")
    return manifest


def _first_run(missing: list[int]) -> range:
    """The first chunks in a row that are missing, at most `RUN_CHUNKS`."""
    count = 1
    while count < min(RUN_CHUNKS, len(missing)) and missing[count] == missing[0] + count:
        count += 1
    return range(missing[0], missing[0] + count)


def _fetch_run(
    link: Link,
    cache: BlobCache,
    grant: GrantId,
    headers: dict[str, str],
    blob: BlobHash,
    nbytes: int,
    run: range,
    goes_on: Callable[[], bool],
    room: memoryview,
) -> None:
    start = run.start * CHUNK_BYTES
    target = room[: min(nbytes, run.stop * CHUNK_BYTES) - start]
    kept = run.start

    def arrived(there_bytes: int) -> bool:
        nonlocal kept
        while kept < run.stop:
            first = (kept - run.start) * CHUNK_BYTES
            last = min(first + CHUNK_BYTES, target.nbytes)
            if there_bytes < last:
                break
            cache.put(grant, blob, kept, target[first:last])
            kept += 1
        return goes_on()

    link.stream(f"/v1/blobs/{blob}", start, target, headers=headers, goes_on=arrived)


def upload(
    link: Link,
    ticket: str,
    lease: LeaseId,
    outputs: tuple[Output, ...],
    goes_on: Callable[[], bool],
) -> str:
    """Sends the outputs of a lease and says so; goes on where an earlier attempt broke off.

    Returns:
        What became of it: `checking`, `late` or `cancelled`.

    Raises:
        AgentError: `upload_unfinished`: the lab says again and again that bytes are missing.
    """
    headers = {GRANT_HEADER: ticket}
    wanted = {output.slot for output in outputs}
    for _ in range(UPLOAD_ROUNDS):
        for output in outputs:
            if output.slot in wanted:
                _upload_one(link, headers, lease, output, goes_on)
        data = link.call(
            "POST",
            "/v1/lease/uploaded",
            encode(Uploaded(lease)),
            max_bytes=message_type(UploadedReply).max_bytes,
            headers=headers,
        )
        answer = decode(UploadedReply, data)
        if answer.state != "missing":
            return answer.state
        wanted = set(answer.missing)
    raise AgentError("upload_unfinished", lease=lease, slots=sorted(wanted))


def _upload_one(
    link: Link,
    headers: dict[str, str],
    lease: LeaseId,
    output: Output,
    goes_on: Callable[[], bool],
) -> None:
    data = memoryview(output.data)
    offset, rounds = 0, 0
    limit = 4 + 4 * chunk_count(data.nbytes)  # a lab that never says that it has enough
    while rounds < limit and goes_on():
        rounds += 1
        piece = bytes(data[offset : offset + UPLOAD_PIECE_BYTES])
        try:
            answer = link.call(
                "PUT",
                f"/v1/results/{lease}/{output.slot}?offset={offset}",
                piece,
                max_bytes=message_type(UploadState).max_bytes,
                headers=headers,
            )
        except PeerRefusal as refusal:
            stored_bytes = refusal.remote_fields.get("stored_bytes")
            if refusal.refusal != "upload_offset" or not isinstance(stored_bytes, int):
                raise
        else:
            state = decode(UploadState, answer)
            if state.complete:
                return
            stored_bytes = state.stored_bytes
        if not 0 <= stored_bytes <= data.nbytes:
            break
        offset = stored_bytes
    raise AgentError("upload_unfinished", lease=lease, slots=[output.slot])
