"""A small coordinator and a small lab for the agent's tests: real HTTPS, the wire's own messages.

Owns: both servers, scriptable by replacing one method. The lab keeps books of every lease: what it
gave out, what came back and how, and compares results with the reference interpreter.
"""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gpugoblin.blobs.chunk import BlobHasher, BlobManifest
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.clock import SystemClock
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.serialize import encode as encode_graph
from gpugoblin.ids import BlobHash, DeviceId, EnrolmentId, GrantId, LabId, LeaseId, fresh_id
from gpugoblin.wire.codec import decode, encode
from gpugoblin.wire.keys import make_key
from gpugoblin.wire.messages.blob import Manifest, UploadState
from gpugoblin.wire.messages.contact import Contact, ContactReply, Grant, GrantOffer
from gpugoblin.wire.messages.enrol import (
    EnrolPoll,
    EnrolPollReply,
    EnrolStart,
    EnrolStartReply,
)
from gpugoblin.wire.messages.lease import (
    Exchange,
    ExchangeReply,
    Lease,
    Refusal,
    Uploaded,
    UploadedReply,
)
from gpugoblin.wire.messages.task import (
    BlobRef,
    Constraints,
    OutputSpec,
    Task,
    TaskInput,
    VerifyChoice,
)
from gpugoblin.wire.signing import fingerprint, public_key_bytes, verify_claim, verify_request
from gpugoblin.wire.tickets import (
    BlobTicket,
    sign_blob_ticket,
    sign_grant,
    verify_blob_ticket,
    verify_grant,
)
from gpugoblin.wire.tls import make_self_signed
from tests.helpers.lends import LENDS_ALWAYS

Reply = tuple[int, bytes, dict[str, str]]


class Server:
    """An HTTPS server on loopback whose answers come from `answer(method, path, headers, body)`."""

    def __init__(self, directory: Path, name: str) -> None:
        self.files = make_self_signed(directory / name, ["127.0.0.1"])
        self.lock = threading.RLock()
        self.requests: Counter[str] = Counter()
        self.is_away = False
        self.problems: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(size)
                outer.requests[f"{self.command} {self.path.partition('?')[0]}"] += 1
                if outer.is_away or len(body) < size:
                    self.close_connection = True
                    return
                try:
                    status, data, extra = outer.answer(
                        self.command, self.path, dict(self.headers.items()), body
                    )
                except Exception as error:
                    outer.problems.append(f"{self.command} {self.path}: {error!r}")
                    status, data, extra = refusal(400, "fake_failed", str(error))
                self.send_response(status)
                for key, value in extra.items():
                    self.send_header(key, value)
                if "Content-Length" not in extra:
                    self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = handle_any

            def log_message(self, *_: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, *_: Any) -> None:
                pass

        self.httpd = Quiet(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.files.certificate, self.files.key)
        self.httpd.socket = context.wrap_socket(
            self.httpd.socket, server_side=True, do_handshake_on_connect=False
        )
        self.connections: list[Any] = []
        get_request = self.httpd.get_request

        def remembered() -> Any:
            request = get_request()
            self.connections.append(request[0])
            return request

        self.httpd.get_request = remembered  # type: ignore[method-assign]
        self.address = f"https://127.0.0.1:{self.httpd.server_address[1]}"
        self.thread = threading.Thread(target=self.httpd.serve_forever, args=(0.02,))
        self.thread.start()

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        raise LookupError(f"nothing at {path}")

    def close(self) -> None:
        self.httpd.shutdown()
        self.thread.join()
        self.httpd.server_close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(2)
            # A handler that died in the middle keeps the socket object alive: take it away.
            descriptor = connection.detach()
            if descriptor >= 0:
                os.close(descriptor)


def refusal(status: int, code: str, what: str = "no", **fields: object) -> Reply:
    body = {"code": code, "what": what, "next_step": "None.", "fields": fields}
    return status, json.dumps(body).encode(), {}


def message(value: msgspec.Struct) -> Reply:
    return 200, encode(value), {}


class FakeCoordinator(Server):
    """Approves every code at the second poll; grants every card that wants one for `lab`."""

    def __init__(self, directory: Path, grant_s: float = 600.0) -> None:
        self.key = make_key()
        self.lab: FakeLab | None = None
        self.grant_s = grant_s
        self.next_contact_s = 1.0
        self.poll_states = ["pending", "approved"]
        self.contacts: list[Contact] = []
        self.granted: list[GrantId] = []
        self.revoked: list[GrantId] = []
        self.devices: set[bytes] = set()
        self.change_offer: Callable[[GrantOffer], GrantOffer] = lambda offer: offer
        super().__init__(directory, "coordinator")

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        if path == "/v1/status":
            return 200, b"{}", {}
        device = verify_request(headers, method, path, body, time.time(), lambda *_: False)
        with self.lock:
            if path == "/v1/enrol/start":
                decode(EnrolStart, body)
                reply = EnrolStartReply(
                    EnrolmentId(fresh_id("enrol")), "ABCD-2345", fingerprint(device), 0.05, 60.0
                )
                return message(reply)
            if path == "/v1/enrol/poll":
                decode(EnrolPoll, body)
                state = (
                    self.poll_states.pop(0) if len(self.poll_states) > 1 else (self.poll_states[0])
                )
                if state == "approved":
                    self.devices.add(device)
                    return message(EnrolPollReply("approved", DeviceId(fresh_id("device"))))
                return message(EnrolPollReply(state))  # type: ignore[arg-type]
            if path == "/v1/contact":
                return self.contact(device, decode(Contact, body))
        raise LookupError(path)

    def contact(self, device: bytes, asked: Contact) -> Reply:
        if device not in self.devices:
            return refusal(403, "device_unknown", "This device is not known.")
        self.contacts.append(asked)
        lab = self.lab
        grants = (
            [] if lab is None else [self.offer(device, asked, card, lab) for card in asked.wants]
        )
        return message(
            ContactReply(
                DeviceId("device_a"), tuple(grants), tuple(self.revoked), self.next_contact_s
            )
        )

    def offer(self, device: bytes, asked: Contact, card: int, lab: FakeLab) -> GrantOffer:
        facts = next(each for each in asked.cards if each.card == card)
        now_s = int(time.time())
        grant = Grant(
            jti=GrantId(fresh_id("grant")),
            aud=lab.lab,
            exp=now_s + int(self.grant_s),
            iat=now_s,
            device_key=device.hex(),
            card=card,
            owner_pseudonym=fresh_id("owner"),  # type: ignore[arg-type]
            owner_age_days=100,
            network_bucket="00" * 8,
            card_class="cpu",
            engine_build=facts.engine_build,
            catalog_hash=facts.catalog_hash,
            max_leases=8,
        )
        self.granted.append(grant.jti)
        ticket = sign_grant(self.key, grant)
        return self.change_offer(GrantOffer(ticket, lab.lab, card, lab.address, lab.files.sha256))


class FakeLab(Server):
    """Leases matrix products `a @ b` of one shared `b`, checks every result, keeps books."""

    def __init__(self, directory: Path, coordinator: FakeCoordinator, name: str = "lab") -> None:
        self.key = make_key()
        self.coordinator = coordinator
        self.lab = LabId(fresh_id("lab"))
        self.blobs: dict[BlobHash, tuple[BlobManifest, bytes]] = {}
        self.tasks: list[Task] = []
        self.arrays: dict[str, tuple[Any, ...]] = {}
        self.open: dict[LeaseId, tuple[Task, bytes]] = {}
        self.committed: dict[LeaseId, tuple[BlobRef, ...]] = {}
        self.uploads: dict[tuple[LeaseId, int], bytearray] = {}
        self.fate: dict[LeaseId, str] = {}
        self.issued: list[LeaseId] = []
        self.exchanges: list[Exchange] = []
        self.capabilities: Any = None
        self.lease_s = 60.0
        self.idle_wait_s = 0.2
        self.change_lease: Callable[[Lease], Lease] = lambda lease: lease
        super().__init__(directory, name)
        coordinator.lab = coordinator.lab or self

    # -- work --------------------------------------------------------------------------------

    def add_blob(self, data: bytes) -> BlobHash:
        hasher = BlobHasher()
        hasher.update(data)
        manifest = hasher.manifest()
        self.blobs[manifest.blob] = (manifest, data)
        return manifest.blob

    def add_products(self, count: int, rows: int = 64, inner: int = 128, columns: int = 96) -> None:
        """`count` tasks `a @ b` of float32 with their own `a` and one `b`."""
        rng = np.random.default_rng(len(self.tasks) + 7)
        b = rng.standard_normal((inner, columns), dtype=np.float32)
        for _ in range(count):
            a = rng.standard_normal((rows, inner), dtype=np.float32)
            self.add_task("matmul", (a, b))

    def add_task(self, operator: str, arrays: tuple[Any, ...]) -> Task:
        builder = GraphBuilder()
        inputs = [builder.input(TensorSpec(str(array.dtype), array.shape)) for array in arrays]
        graph = builder.build([builder.add(operator, inputs)])
        return self.add_graph(graph, arrays, operator)

    def add_graph(self, graph: Graph, arrays: tuple[Any, ...], operator: str = "graph") -> Task:
        """One task that is any graph; its outputs are compared with the reference's."""
        outputs = graph.output_specs()
        task = Task(
            task=fresh_id("task"),  # type: ignore[arg-type]
            graph=encode_graph(graph),
            inputs=tuple(
                TaskInput(slot, self.add_blob(array.tobytes()), array.nbytes)
                for slot, array in enumerate(arrays)
            ),
            outputs=tuple(
                OutputSpec(slot, spec.dtype, spec.shape)  # type: ignore[arg-type]
                for slot, spec in enumerate(outputs)
            ),
            numeric_class="float32",
            assurance="full",
            verify=(VerifyChoice("product", 1000),),
            memory_bound_bytes=sum(array.nbytes for array in arrays) * 2,
            flops=2 * arrays[0].size * arrays[-1].shape[-1],
            bytes_moved=sum(array.nbytes for array in arrays),
            weight_version=0,
            seed_key=b"",
            catalog_hash="00" * 32,
            operator_versions={operator: 1},
            constraints=Constraints(),
            priority=0,
            affinity_key=0,
            deadline_class="normal",
        )
        if operator == "matmul":  # the reference, without its patience
            product = arrays[0].astype(np.float64) @ arrays[1].astype(np.float64)
            self.arrays[task.task] = (product.astype(np.float32),)
        else:
            self.arrays[task.task] = tuple(interpret(graph, list(arrays)))
        with self.lock:
            self.tasks.append(task)
        return task

    def verified(self) -> int:
        with self.lock:
            return sum(fate == "verified" for fate in self.fate.values())

    # -- the wire ----------------------------------------------------------------------------

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        now_s = time.time()
        device = verify_request(headers, method, path, body, now_s, lambda *_: False)
        try:
            grant = verify_grant(
                headers["Goblin-Grant"],
                keys=[public_key_bytes(self.coordinator.key)],
                audience=self.lab,
                now_s=now_s,
                device_key=device,
            )
        except Exception as error:
            return refusal(401, getattr(error, "code", "ticket_malformed"), str(error))
        with self.lock:
            if path == "/v1/lease/exchange":
                return self.exchange(device, grant, decode(Exchange, body))
            if path.startswith("/v1/blobs/"):
                return self.blob(path, headers, device, now_s)
            if path.startswith("/v1/results/"):
                return self.put(path, body)
            if path == "/v1/lease/uploaded":
                return self.uploaded(decode(Uploaded, body))
        raise LookupError(path)

    def exchange(self, device: bytes, grant: Grant, asked: Exchange) -> Reply:
        self.exchanges.append(asked)
        if asked.capabilities is not None:
            self.capabilities = asked.capabilities
        refused: list[Refusal] = []
        uploads: list[LeaseId] = []
        for result in asked.commits:
            if result.lease not in self.open:
                refused.append(Refusal(result.lease, "unknown_lease"))
                continue
            assert result.claim is not None
            verify_claim(device, result.lease, grant.jti, result.claim)
            self.committed[result.lease] = result.outputs
            uploads.append(result.lease)
        for abandon in asked.abandons:
            if abandon.lease in self.open:
                task, _ = self.open.pop(abandon.lease)
                self.tasks.append(task)
            self.fate.setdefault(abandon.lease, abandon.reason)
        self.lost(device, asked)
        leases = [self.lease(device, grant.jti) for _ in range(min(asked.want, len(self.tasks)))]
        wait_s = 0.0 if leases else self.idle_wait_s
        return message(
            ExchangeReply(tuple(leases), tuple(uploads), refused=tuple(refused), wait_s=wait_s)
        )

    def lost(self, device: bytes, asked: Exchange) -> None:
        """Leases whose answer never arrived: the device does not name them at its introduction."""
        if asked.capabilities is None:
            return
        named = {*asked.holding, *(each.lease for each in asked.abandons)}
        named |= {each.lease for each in asked.commits}
        for lease, (task, owner) in list(self.open.items()):
            if owner == device and lease not in named:
                del self.open[lease]
                self.tasks.append(task)
                self.fate[lease] = "answer_lost"

    def lease(self, device: bytes, grant: GrantId) -> Lease:
        task = self.tasks.pop(0)
        lease = LeaseId(fresh_id("lease"))
        now_s = int(time.time())
        ticket = self.ticket(device, grant)
        self.open[lease] = (task, device)
        self.issued.append(lease)
        return self.change_lease(Lease(lease, now_s + self.lease_s, task, ticket))

    def ticket(self, device: bytes, grant: GrantId) -> str:
        """A blob ticket for the inputs of a device's leases under a grant."""
        now_s = int(time.time())
        return sign_blob_ticket(
            self.key,
            BlobTicket(fresh_id("ticket"), self.lab, now_s + 600, now_s, device.hex(), grant),
        )

    def blob(self, path: str, headers: dict[str, str], device: bytes, now_s: float) -> Reply:
        verify_blob_ticket(
            headers["Goblin-Ticket"],
            keys=[public_key_bytes(self.key)],
            audience=self.lab,
            now_s=now_s,
            device_key=device,
        )
        name = BlobHash(path.split("/")[3])
        manifest, data = self.blobs[name]
        if path.endswith("/manifest"):
            return self.manifest(manifest)
        first, last = (int(text) for text in headers["Range"].removeprefix("bytes=").split("-"))
        return self.range(name, data, first, last)

    def manifest(self, manifest: BlobManifest) -> Reply:
        return message(Manifest(manifest.blob, manifest.nbytes, manifest.chunks))

    def range(self, name: BlobHash, data: bytes, first: int, last: int) -> Reply:
        piece = data[first : last + 1]
        return 206, piece, {"Content-Range": f"bytes {first}-{last}/{len(data)}"}

    def put(self, path: str, body: bytes) -> Reply:
        parts, _, query = path.partition("?")
        _, _, _, lease, slot = parts.split("/")
        key = (LeaseId(lease), int(slot))
        stored = self.uploads.setdefault(key, bytearray())
        offset = int(query.removeprefix("offset="))
        if offset == len(stored):
            stored += body
        nbytes = self.committed[key[0]][key[1]].nbytes
        return message(UploadState(len(stored), len(stored) >= nbytes))

    def uploaded(self, told: Uploaded) -> Reply:
        found = self.open.pop(told.lease, None)
        if found is None:
            return message(UploadedReply("late"))
        task, _ = found
        refs = self.committed[told.lease]
        self.fate[told.lease] = "verified"
        for slot, (ref, wanted) in enumerate(zip(refs, self.arrays[task.task], strict=True)):
            data = bytes(self.uploads.pop((told.lease, slot), b""))
            hasher = BlobHasher()
            hasher.update(data)
            result = np.frombuffer(data, wanted.dtype).reshape(wanted.shape)
            is_right = np.allclose(result, wanted, rtol=1e-4, atol=1e-3)
            if hasher.manifest().blob != ref.blob or not is_right:
                self.fate[told.lease] = "wrong"
                self.problems.append(f"{told.lease} is wrong")
        return message(UploadedReply("checking"))


def eventually(question: Callable[[], Any], limit_s: float = 45.0) -> Any:
    """Waits until `question()` is true and returns it."""
    clock = SystemClock()
    until_s = clock.monotonic_s() + limit_s
    while clock.monotonic_s() < until_s:
        found = question()
        if found:
            return found
        time.sleep(0.02)
    raise TimeoutError("it did not come true")


def settings_text(state: Path, coordinator: FakeCoordinator, **more: str) -> str:
    """A configuration for an agent of these servers."""
    lines = [
        f'state_directory = "{state}"',
        *LENDS_ALWAYS,
        "[coordinator]",
        f'address = "{coordinator.address}"',
        f'certificate_sha256 = "{coordinator.files.sha256}"',
        "[processor]",
        "threads = 1",
        "share = true",
        f"memory_bytes = {256 * 1024 * 1024}",
        f"input_bytes = {64 * 1024 * 1024}",
        f"output_bytes = {32 * 1024 * 1024}",
        "[cache]",
        f"limit_bytes = {64 * 1024 * 1024}",
        "least_free_bytes = 0",
        *(f"{name} = {value}" for name, value in more.items()),
    ]
    return "\n".join(lines) + "\n"
