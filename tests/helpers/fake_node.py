"""A small lab node for tests: the real HTTP contract over a Unix socket or a loopback port.

It computes with the reference interpreter, in one task, at once or when it is told to. Its answers
are the wire's own messages; a test can hold a job, hide it, or have a reply spoiled.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import socketserver
import ssl
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.catalog.spec import DTYPES
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.serialize import decode as decode_graph
from gpugoblin.graph.serialize import graph_hash
from gpugoblin.hashing import JOB, digest
from gpugoblin.ids import fresh_id
from gpugoblin.wire.codec import decode, encode
from gpugoblin.wire.messages.job import (
    ArrayCreate,
    ArrayInfo,
    Certificate,
    CertificateBody,
    JobEvent,
    JobEvents,
    JobInfo,
    JobList,
    JobSubmit,
    LostWork,
    PlanReply,
    VerifiedBy,
)
from gpugoblin.wire.signing import public_key_bytes, sign_json
from tests.helpers.summaries import summary_of

__all__ = ["FakeJob", "FakeNode"]


@dataclass(slots=True)
class FakeArray:
    """An array as the node has it: numbers, or the bytes of an upload so far."""

    create: ArrayCreate
    info: ArrayInfo
    data: bytearray = field(default_factory=bytearray)
    numbers: Any = None


@dataclass(slots=True)
class FakeJob:
    """A job. `verified` of `tasks`; `results` are there from the beginning."""

    info: JobInfo
    submit: JobSubmit
    results: tuple[Any, ...]


class Refusal(Exception):
    """A reply with a status and an error's body."""

    def __init__(self, status: int, code: str, what: str = "It is refused.") -> None:
        super().__init__(code)
        self.status, self.code, self.what = status, code, what


class FakeNode:
    """See the module. Use as a context manager.

    Attributes:
        hold: jobs stay `running` until `finish` is called.
        spoil: path prefix -> (status, body) that is answered once instead.
        requests: every `METHOD path` that came in.
    """

    def __init__(self, socket_path: Path | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.key = Ed25519PrivateKey.generate()
        self.token = ""
        self.hold = False
        self.fail_jobs = ""
        self.grid = False
        self.spoil: dict[str, list[tuple[int, bytes]]] = {}
        self.requests: list[str] = []
        self.connections = 0
        self.arrays: dict[str, FakeArray] = {}
        self.jobs: dict[str, FakeJob] = {}
        self._changed = threading.Condition()
        self._sockets: set[socket.socket] = set()
        self._server = _server(self, socket_path, tls)
        host = "" if socket_path else f"127.0.0.1:{self._server.server_address[1]}"
        scheme = "https" if tls else "http"
        self.address = f"unix:{socket_path}" if socket_path else f"{scheme}://{host}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> FakeNode:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        with self._changed:
            self.hold = False
            self._changed.notify_all()
        self._server.shutdown()
        for connection in list(self._sockets):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()
        self._thread.join()

    def finish(self, name: str, state: str = "done") -> None:
        """Lets a held job end."""
        with self._changed:
            job = self.job(name)
            done = state == "done"
            job.info = msgspec.structs.replace(
                job.info,
                state=state,
                verified=job.info.tasks if done else job.info.verified,
                used=job.info.tasks if done else job.info.used,
                finished_s=time.time(),
                verified_by=VerifiedBy(product=job.info.tasks if done else 0),
            )
            self._changed.notify_all()

    def job(self, name: str) -> FakeJob:
        """A job by name or id."""
        for job in self.jobs.values():
            if name in (job.info.name, job.info.job):
                return job
        raise Refusal(404, "unknown_job", f"There is no job {name} of yours on this node.")

    def answer(
        self, method: str, path: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        """Status and body for one request."""
        self.requests.append(f"{method} {path}")
        for prefix, answers in self.spoil.items():
            if path.startswith(prefix) and answers:
                return answers.pop(0)
        try:
            return 200, self._route(
                method, [unquote(part) for part in path.split("/")[2:]], query, body
            )
        except Refusal as refusal:
            error = {"code": refusal.code, "what": refusal.what, "next_step": "Do otherwise."}
            return refusal.status, json.dumps({**error, "fields": {}}).encode()

    def _route(self, method: str, parts: list[str], query: dict[str, str], body: bytes) -> bytes:
        match method, *parts:
            case "GET", "health":
                health = {
                    "version": "0.1.0", "lab": "lab", "state": "ready",
                    "node_key": public_key_bytes(self.key).hex(),
                }  # fmt: skip
                return json.dumps(health).encode()
            case "POST", "arrays":
                return encode(self._create(decode(ArrayCreate, body)))
            case "PUT", "arrays", name, "bytes":
                return encode(self._put(name, int(query["offset"]), body))
            case "GET", "arrays", name, "region":
                return self._region(name, query)
            case "POST", "jobs":
                return encode(self._submit(decode(JobSubmit, body)))
            case "GET", "jobs":
                return encode(JobList(jobs=tuple(job.info for job in reversed(self.jobs.values()))))
            case "GET", "jobs", name:
                return encode(self._wait(name, query))
            case "POST", "jobs", name, "cancel":
                self.finish(name, "cancelled")
                return encode(self.job(name).info)
            case "POST", "jobs", name, "retry":
                self.finish(name)
                return encode(self.job(name).info)
            case "GET", "jobs", name, "summary":
                return encode(summary_of(self.job(name).info))
            case "DELETE", "jobs", name:
                del self.jobs[self.job(name).info.job]
                return b"{}"
            case "GET", "jobs", name, "events":
                return encode(self._events(name, int(query.get("after", 0))))
            case "GET", "jobs", name, "certificate":
                return encode(self._certificate(name))
        raise Refusal(404, "not_found")

    def _create(self, create: ArrayCreate) -> ArrayInfo:
        for known in self.arrays.values():
            if known.create == create:
                return known.info
        info = ArrayInfo(
            array=fresh_id("array"), dtype=create.dtype, shape=create.shape, stored_bytes=0,
            complete=create.source != "upload", verified=True,
        )  # fmt: skip
        array = FakeArray(create, info)
        if create.source != "upload":
            array.numbers = _open(create)
        elif 0 in create.shape:
            self._complete(array)
        self.arrays[info.array] = array
        return array.info

    def _put(self, name: str, offset: int, body: bytes) -> ArrayInfo:
        array = self.arrays[name]
        if offset != len(array.data):
            raise Refusal(409, "upload_offset")
        array.data += body
        array.info = msgspec.structs.replace(array.info, stored_bytes=len(array.data))
        expected = int(np.prod(array.create.shape)) * DTYPES[array.create.dtype].itemsize
        if len(array.data) == expected:
            self._complete(array)
        return array.info

    def _complete(self, array: FakeArray) -> None:
        dtype = DTYPES[array.create.dtype]
        array.numbers = np.frombuffer(bytes(array.data), dtype).reshape(array.create.shape)
        array.info = msgspec.structs.replace(array.info, complete=True)

    def _region(self, name: str, query: dict[str, str]) -> bytes:
        start = [int(part) for part in query["start"].split(",") if part]
        stop = [int(part) for part in query["stop"].split(",") if part]
        for job in self.jobs.values():
            for number, output in enumerate(job.info.outputs):
                if output.array == name:
                    if job.info.state != "done":
                        raise Refusal(409, "region_not_verified", "Not every part is verified yet.")
                    box = tuple(map(slice, start, stop))
                    return np.ascontiguousarray(job.results[number][box]).tobytes()
        raise Refusal(404, "unknown_array")

    def _submit(self, submit: JobSubmit) -> JobInfo:
        graph = decode_graph(submit.graph)
        content = digest(JOB, [submit.graph, *(i.encode() for i in submit.inputs)])
        executor = "grid" if self.grid and submit.executor != "local" else "local"
        for job in self.jobs.values():
            if job.info.name == submit.name and not submit.dry_run:
                if job.info.content != content:
                    raise Refusal(
                        409, "job_name_taken",
                        f"The name {submit.name!r} belongs to another computation.",
                    )  # fmt: skip
                return msgspec.structs.replace(job.info, attached=True)
        results = interpret(graph, [self._numbers(name) for name in submit.inputs])
        outputs = tuple(
            ArrayInfo(
                array=fresh_id("array"), dtype=spec.dtype, shape=spec.shape,
                stored_bytes=spec.nbytes, complete=True, verified=not self.hold,
            )
            for spec in graph.output_specs()
        )  # fmt: skip
        state = "planned" if submit.dry_run else "running" if self.hold else "done"
        info = JobInfo(
            job=fresh_id("job"), name=submit.name or fresh_id("unnamed"), owner="me", state=state,
            graph=graph_hash(graph), content=content, attached=False, tasks=4,
            verified=4 if state == "done" else 1, used=0, leased=1, checking=1,
            verified_by=VerifiedBy(product=4 if state == "done" else 1), lost=LostWork(),
            credits=0.0, bytes_sent=10, bytes_received=20, created_s=time.time(),
            started_s=time.time(), finished_s=time.time() if state == "done" else None,
            outputs=outputs, plan=_plan(executor),
        )  # fmt: skip
        if self.fail_jobs:
            info = msgspec.structs.replace(
                info,
                state="failed",
                error_code=self.fail_jobs,
                error_text=f"It cannot be done. [{self.fail_jobs}]",
            )
        if not submit.dry_run:
            self.jobs[info.job] = FakeJob(info, submit, results)
            for save, result in zip(submit.outputs, results, strict=True):
                if save.format == "npy":
                    np.save(save.path, result)
        return info

    def _numbers(self, name: str) -> Any:
        """An input: an array that was made known, or the result of a job."""
        if name in self.arrays:
            return self.arrays[name].numbers
        for job in self.jobs.values():
            for output, result in zip(job.info.outputs, job.results, strict=True):
                if output.array == name:
                    return result
        raise Refusal(404, "unknown_array")

    def _wait(self, name: str, query: dict[str, str]) -> JobInfo:
        with self._changed:
            before = self.job(name).info
            if "wait_s" in query and before.state == "running":
                self._changed.wait_for(
                    lambda: self.job(name).info != before or not self.hold,
                    float(query["wait_s"]),
                )
            return self.job(name).info

    def _events(self, name: str, after: int) -> JobEvents:
        job = self.job(name).info
        kinds = ("submitted", "started", job.state if job.state != "running" else "leased")
        events = [JobEvent(i, job.created_s, kind) for i, kind in enumerate(kinds, 1)]
        return JobEvents(events=tuple(event for event in events if event.number > after))

    def _certificate(self, name: str) -> Certificate:
        job = self.job(name)
        if job.info.state != "done":
            raise Refusal(409, "job_not_done", f"The job {name} is {job.info.state}.")
        body = CertificateBody(
            node_key=public_key_bytes(self.key), job=job.info.job, graph=job.info.graph,
            inputs=("0" * 64,), outputs=("1" * 64,), numeric_class="float32", assurance="full",
            tasks=job.info.tasks, verified_by=job.info.verified_by, engine_builds=("build-1",),
            catalog_hash="2" * 64, finished_s=time.time(),
        )  # fmt: skip
        return Certificate(body=body, signature=sign_json(self.key, body))


def _open(create: ArrayCreate) -> Any:
    match create.source:
        case "npy":
            return np.load(create.path)
        case "raw":
            data = Path(create.path).read_bytes()[create.offset_bytes :]
            count = int(np.prod(create.shape))
            return np.frombuffer(data, DTYPES[create.dtype], count).reshape(create.shape)
        case "safetensors":
            from safetensors.numpy import load_file

            return load_file(create.path)[create.member]
    import zarr

    return np.asarray(zarr.open_array(create.path, mode="r")[...])


def _plan(executor: Any) -> PlanReply:
    return PlanReply(
        kind="product", tasks=4, tile=(2, 2), flops=1000, verify_flops=50, bytes_in=100,
        bytes_out=200, memory_bound_bytes=4096, node_memory_bytes=8192, estimate_s=0.5,
        alone_s=1.0, gain=2.0, executor=executor,
    )  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    node: FakeNode

    def setup(self) -> None:
        self.node._sockets.add(self.request)
        self.node.connections += 1
        super().setup()

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()
        self.node._sockets.discard(self.request)

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        url = urlsplit(self.path)
        query = {
            key: values[0] for key, values in parse_qs(url.query, keep_blank_values=True).items()
        }
        if self.node.token and self.headers.get("Authorization") != f"Bearer {self.node.token}":
            error = {"code": "not_authenticated", "what": "No token that is known."}
            status, answer = 401, json.dumps(error).encode()
        else:
            status, answer = self.node.answer(self.command, url.path, query, body)
        if status == 0:  # a node that hangs up
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = do_DELETE = _serve

    def address_string(self) -> str:
        return "client"

    def log_message(self, *arguments: Any) -> None:
        pass


class _Tcp(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = False
    allow_reuse_address = True
    tls: ssl.SSLContext | None = None

    def get_request(self) -> Any:
        connection, address = super().get_request()
        if self.tls is not None:
            connection = self.tls.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


class _Unix(_Tcp):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)


def _server(node: FakeNode, path: Path | None, tls: ssl.SSLContext | None) -> _Tcp:
    handler = type("Handler", (_Handler,), {"node": node})
    if path is None:
        server = _Tcp(("127.0.0.1", 0), handler)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        server = _Unix(str(path), handler)
    server.tls = tls
    return server
