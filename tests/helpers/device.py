"""A contributor's device for tests: real keys, real TLS, the interpreter as its engine."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import requests
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.blobs.chunk import blob_hash
from gpugoblin.catalog.registry import catalog_hash, operator_versions
from gpugoblin.catalog.spec import DTYPES, Array
from gpugoblin.graph.serialize import decode as decode_graph
from gpugoblin.ids import GrantId, LabId, LeaseId, OwnerPseudonym, fresh_id
from gpugoblin.wire.codec import decode, encode
from gpugoblin.wire.messages.blob import Manifest, UploadState
from gpugoblin.wire.messages.contact import Grant
from gpugoblin.wire.messages.lease import (
    Exchange,
    ExchangeReply,
    Lease,
    Uploaded,
    UploadedReply,
)
from gpugoblin.wire.messages.task import BlobRef, Capabilities, Counters, Result
from gpugoblin.wire.pinning import PinnedAdapter
from gpugoblin.wire.signing import public_key_bytes, sign_claim, sign_request
from gpugoblin.wire.tickets import sign_grant
from tests.helpers.node import evaluate

__all__ = ["Device", "capabilities", "grant_for"]

DTYPE_NAMES: Any = tuple(sorted(DTYPES))

Spoil = Callable[[list[Array]], list[Array]]


def capabilities(**changes: Any) -> Capabilities:
    """What a small processor can do."""
    made = Capabilities(
        catalog_hash=catalog_hash(), operators=operator_versions(),
        classes=("float32", "exact"), memory_bytes=1 << 30, max_slot_bytes=1 << 26,
        max_outputs=16, flops_per_s=1e12, bytes_per_s=1e9, sandbox_level="full",
        engine_build="test-1", driver="cpu", kernel_set="1" * 64,
        dtypes=DTYPE_NAMES, arithmetic=DTYPE_NAMES, convolutions=DTYPE_NAMES,
    )  # fmt: skip
    return msgspec.structs.replace(made, **changes)


def grant_for(
    coordinator: Ed25519PrivateKey, device: Ed25519PrivateKey, lab: str, now_s: float,
    **changes: Any,
) -> tuple[str, Grant]:  # fmt: skip
    """A grant as the coordinator would make it."""
    grant = Grant(
        jti=GrantId(fresh_id("grant")), aud=LabId(lab), exp=int(now_s) + 3000, iat=int(now_s),
        device_key=public_key_bytes(device).hex(), card=0,
        owner_pseudonym=OwnerPseudonym(fresh_id("owner")), owner_age_days=30,
        network_bucket=secrets.token_hex(8), card_class="cpu",
        engine_build="test-1", catalog_hash=catalog_hash(), max_leases=8,
    )  # fmt: skip
    grant = msgspec.structs.replace(grant, **changes)
    return sign_grant(coordinator, grant), grant


class Device:
    """One card with a grant. A context manager around its connection."""

    def __init__(
        self, port: int, certificate_sha256: str, coordinator: Ed25519PrivateKey, lab: str,
        now_s: Callable[[], float], **grant: Any,
    ) -> None:  # fmt: skip
        self.key = Ed25519PrivateKey.generate()
        self.now_s = now_s
        self.ticket, self.grant = grant_for(coordinator, self.key, lab, now_s(), **grant)
        self.base = f"https://127.0.0.1:{port}"
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.verify = False
        self.session.mount("https://", PinnedAdapter(certificate_sha256))
        self.spoil: Spoil = lambda arrays: arrays
        self.known = False

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()

    def request(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None,
        *, signed: dict[str, str] | None = None, limit_s: float = 30.0,
    ) -> requests.Response:  # fmt: skip
        """A signed request under the grant."""
        signature = signed or sign_request(self.key, method, path, body, self.now_s())
        return self.session.request(
            method, self.base + path, data=body or None, timeout=limit_s,
            headers={**signature, "Goblin-Grant": self.ticket, **(headers or {})},
        )  # fmt: skip

    def exchange(self, **fields: Any) -> ExchangeReply:
        """One exchange; capabilities go with the first."""
        if not self.known:
            fields.setdefault("capabilities", capabilities())
        response = self.request("POST", "/v1/lease/exchange", encode(Exchange(**fields)))
        assert response.status_code == 200, response.text
        self.known = True
        return decode(ExchangeReply, response.content)

    def blob(self, lease: Lease, blob: str, nbytes: int) -> bytes:
        """An input of a lease, by ranges."""
        tickets = {"Goblin-Ticket": lease.blob_ticket}
        response = self.request("GET", f"/v1/blobs/{blob}/manifest", headers=tickets)
        assert response.status_code == 200, response.text
        assert decode(Manifest, response.content).nbytes == nbytes
        parts = []
        for start in range(0, nbytes, 1 << 20):
            stop = min(nbytes, start + (1 << 20))
            span = {**tickets, "Range": f"bytes={start}-{stop - 1}"}
            response = self.request("GET", f"/v1/blobs/{blob}", headers=span)
            assert response.status_code == 206, response.text
            parts.append(response.content)
        data = b"".join(parts)
        assert blob_hash(data) == blob
        return data

    def compute(self, lease: Lease) -> list[Array]:
        """The outputs of a task, spoiled where the test says so."""
        graph = decode_graph(lease.task.graph)
        inputs = []
        for source, spec in zip(lease.task.inputs, graph.inputs, strict=True):
            data = self.blob(lease, source.blob, source.nbytes)
            inputs.append(np.frombuffer(data, DTYPES[spec.dtype]).reshape(spec.shape))
        return self.spoil(list(evaluate(lease.task.graph, inputs, lease.task.numeric_class)))

    def result(self, lease: LeaseId, outputs: list[Array]) -> Result:
        """The commitment to outputs."""
        return Result(
            lease=lease,
            outputs=tuple(BlobRef(blob_hash(a.tobytes()), a.nbytes) for a in outputs),
            engine_build="test-1", driver="cpu", kernel_set="1" * 64, sandbox_level="full",
            counters=Counters(0.01, 1000),
            claim=sign_claim(self.key, lease, self.grant.jti),
        )  # fmt: skip

    def upload(self, lease: LeaseId, outputs: list[Array]) -> UploadedReply:
        """Sends the bytes and says so."""
        for slot, array in enumerate(outputs):
            data, offset = array.tobytes(), 0
            while True:
                piece = data[offset : offset + (1 << 20)]
                path = f"/v1/results/{lease}/{slot}?offset={offset}"
                response = self.request("PUT", path, piece)
                assert response.status_code == 200, response.text
                state = decode(UploadState, response.content)
                if state.complete:
                    break
                offset = state.stored_bytes
        response = self.request("POST", "/v1/lease/uploaded", encode(Uploaded(lease)))
        assert response.status_code == 200, response.text
        return decode(UploadedReply, response.content)

    def work(self, want: int = 2) -> int:
        """Takes leases, computes, commits, uploads; returns how many tasks it did."""
        reply = self.exchange(want=want)
        for lease in reply.leases:
            outputs = self.compute(lease)
            committed = self.exchange(commits=(self.result(lease.lease, outputs),))
            if lease.lease in committed.uploads:
                self.upload(lease.lease, outputs)
        return len(reply.leases)
