"""Durable lease and complete on the lab node: one task a request, signed, with nonce and events.

One process serves the devices' routes over plain HTTP on loopback (TLS is measured apart), another
plays 64 devices on keep-alive connections; each request commits the result of the last lease and
takes a new one. Prints requests per second, server CPU per request, and percentiles.

    python benchmarks/node_leases.py [--seconds 10] [--connections 64]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import uvloop
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.record import Row, row
from gpugoblin.blobs.store import BlobStore
from gpugoblin.catalog.registry import catalog_hash, operator_versions
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.clock import SystemClock
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.dtypes import needs_of
from gpugoblin.graph.serialize import encode as encode_graph
from gpugoblin.graph.serialize import graph_hash
from gpugoblin.ids import BlobHash, GrantId, LabId, LeaseId, OwnerPseudonym, fresh_id
from gpugoblin.plan.spec import ArrayRegion, OutputPlace, PlannedTask, Region
from gpugoblin.wire.codec import decode, encode
from gpugoblin.wire.messages.contact import Grant
from gpugoblin.wire.messages.job import PlanReply
from gpugoblin.wire.messages.lease import Exchange, ExchangeReply
from gpugoblin.wire.messages.task import BlobRef, Capabilities, Constraints, Counters, Result
from gpugoblin.wire.signing import public_key_bytes, sign_request
from gpugoblin.wire.tickets import sign_grant
from server_stub.node import settings
from server_stub.node.http import servers
from server_stub.node.http.clients import application
from server_stub.node.http.devices import Devices
from server_stub.node.node import Node
from server_stub.node.state import blobs, jobs, tasks
from server_stub.node.state.words import Rules, Step
from server_stub.node.store.sqlite import SqliteStore
from server_stub.node.tickets import Tickets

LAB = "lab_bench"
TASKS = 60_000
MANY = 16


def planned(graph: Any, count: int) -> Iterator[PlannedTask]:
    for index in range(count):
        box = Region((0, 0), (64, 64))
        out = Region((index * 64, 0), (index * 64 + 64, 64))
        yield PlannedTask(
            index, graph, (ArrayRegion(0, box), ArrayRegion(1, box)), (OutputPlace(0, out),),
            "product", 1000, 524288, 49152, 49152, index // 64, (),
        )  # fmt: skip


def fill(step: Step, graph: Any) -> None:
    """A running job with many ready tasks, its inputs packed."""
    plan = PlanReply(
        kind="bench", tasks=10**9, tile=(), flops=0, verify_flops=0, bytes_in=0, bytes_out=0,
        memory_bound_bytes=0, node_memory_bytes=0, estimate_s=0.0, alone_s=0.0, gain=1.0,
        executor="grid",
    )  # fmt: skip
    name = str(graph_hash(graph))
    new = jobs.NewJob(
        "bench", "bench", encode_graph(graph), name, {"matmul": 1},
        needs_of(graph).mask(), "0" * 64, (), (), "float32", "full", "grid",
        Constraints(sandbox="none"), 0, None, "{}", 0, plan,
    )  # fmt: skip
    job, _ = jobs.submit(step, new)
    step.tx.change("update job set cursor = 0 where id = ?", (job,))
    for array in (0, 1):
        step.tx.change(
            "insert into region(job, array, box, blob, nbytes, stored) values(?, ?, ?, ?, 1, 1)",
            (job, array, tasks.box_text(Region((0, 0), (64, 64))), f"{array}" * 64),
        )
        blobs.hold(step, f"{array}" * 64, 16384)
    batch = [(task, name, 0) for task in planned(graph, TASKS)]
    tasks.generate(step, job, 0, batch)


class NoWorkers:
    async def run(self, work: Any) -> Any:
        await asyncio.Event().wait()


async def serve(port: int, directory: Path, coordinator_key: str) -> None:
    made = settings.parse({"state_dir": str(directory), "local_engine": False,
                           "window_tasks": 8, "lab": LAB, "device_hold_s": 0.0})  # fmt: skip
    store = SqliteStore(directory / "node.sqlite")
    key = Ed25519PrivateKey.generate()
    rules = Rules(catalog_hash=catalog_hash())
    node = Node(made, store, NoWorkers(), BlobStore(directory / "blobs", 0), SystemClock(),
                rules, key)  # fmt: skip
    builder = GraphBuilder()
    spec = TensorSpec("float32", (64, 64))
    value = builder.add("matmul", (builder.input(spec), builder.input(spec)))
    graph = builder.build((value,))
    await node.handle(lambda step: fill(step, graph))
    tickets = Tickets(key, LAB, bytes.fromhex(coordinator_key))
    door = servers.Door(
        Devices(node, tickets).front(application([])), servers.bind_tcp("127.0.0.1", port)
    )
    await door.open()
    print("ready", flush=True)
    while True:
        # What uploads and checks would do: results leave the devices' accounts.
        await asyncio.sleep(0.05)
        await store.write(lambda tx: tx.change(
            "update lease set state = 'accepted'"
            # Both words: the index of live leases is found by the first; else all are read.
            " where state in ('issued', 'committed') and state = 'committed'"))  # fmt: skip


def capabilities() -> Capabilities:
    return Capabilities(
        catalog_hash=catalog_hash(), operators=operator_versions(),
        classes=("float32", "exact"), memory_bytes=1 << 30, max_slot_bytes=1 << 26,
        max_outputs=16, flops_per_s=1e12, bytes_per_s=1e9, sandbox_level="full",
        engine_build="bench-1", driver="cpu", kernel_set="1" * 64,
        dtypes=("float32",), arithmetic=("float32",), convolutions=("float32",),
    )  # fmt: skip


def _result(lease: LeaseId) -> Result:
    return Result(
        lease=lease, outputs=(BlobRef(BlobHash(os.urandom(32).hex()), 16384),),
        engine_build="bench-1", driver="cpu", kernel_set="1" * 64, sandbox_level="full",
        counters=Counters(0.1, 1000), claim=b"s" * 64,
    )  # fmt: skip


async def device(
    number: int, port: int, coordinator: Ed25519PrivateKey, ends_s: float, times: list[float],
    want: int = 1,
) -> int:  # fmt: skip
    """One keep-alive connection that commits and leases `want` tasks a request until the end."""
    key = Ed25519PrivateKey.generate()
    now_s = int(time.time())
    grant = Grant(
        jti=GrantId(fresh_id("grant")), aud=LabId(LAB), exp=now_s + 3000, iat=now_s,
        device_key=public_key_bytes(key).hex(), card=0,
        owner_pseudonym=OwnerPseudonym(fresh_id("owner")), owner_age_days=30,
        network_bucket=f"{number:016x}", card_class="cpu", engine_build="bench-1",
        catalog_hash=catalog_hash(), max_leases=64,
    )  # fmt: skip
    ticket = sign_grant(coordinator, grant)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    message = Exchange(want=want, capabilities=capabilities())
    done = 0
    while time.monotonic() < ends_s:
        body = encode(message)
        signed = sign_request(key, "POST", "/v1/lease/exchange", body, time.time())
        head = "".join(f"{name}: {value}\r\n" for name, value in signed.items())
        started_s = time.perf_counter()
        writer.write(
            f"POST /v1/lease/exchange HTTP/1.1\r\nHost: x\r\nGoblin-Grant: {ticket}\r\n{head}"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        answer = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in answer[:15], answer
        length = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        reply = decode(ExchangeReply, await reader.readexactly(length))
        times.append(time.perf_counter() - started_s)
        assert len(reply.leases) == want, "the tasks are used up"
        assert not reply.refused, reply.refused
        done += len(message.commits)
        message = Exchange(want=want, commits=tuple(_result(one.lease) for one in reply.leases))
    writer.close()
    return done


async def load(port: int, coordinator: Ed25519PrivateKey, seconds: float, connections: int,
               server: psutil.Process, want: int) -> dict[str, Any]:  # fmt: skip
    times: list[float] = []
    before = server.cpu_times()
    started_s = time.monotonic()
    done = await asyncio.gather(*(
        device(number, port, coordinator, started_s + seconds, times, want)
        for number in range(connections)
    ))  # fmt: skip
    took_s = time.monotonic() - started_s
    after = server.cpu_times()
    cpu_s = after.user + after.system - before.user - before.system
    times.sort()
    return {
        "requests_per_s": len(times) / took_s,
        "completed_per_s": sum(done) / took_s,
        "server_cpu_us": 1e6 * cpu_s / len(times),
        "server_cpu_us_a_task": 1e6 * cpu_s / len(times) / want,
        "p50_ms": 1e3 * times[len(times) // 2],
        "p99_ms": 1e3 * times[len(times) * 99 // 100],
    }


def run(seconds: float, connections: int, want: int = 1) -> dict[str, Any]:
    """Starts the server in a process of its own, loads it from this one, ends it."""
    coordinator = Ed25519PrivateKey.generate()
    probe = servers.bind_tcp("127.0.0.1", 0)
    port = probe.getsockname()[1]
    probe.close()
    with tempfile.TemporaryDirectory() as directory:
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.node_leases", "--serve", str(port), "--directory",
             directory, "--key", public_key_bytes(coordinator).hex()],
            stdout=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            server = psutil.Process(child.pid)
            return uvloop.run(load(port, coordinator, seconds, connections, server, want))
        finally:
            child.terminate()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()


def measure() -> list[Row]:
    runs = [run(6.0, 64) for _ in range(5)]
    median = {name: statistics.median(one[name] for one in runs) for name in runs[0]}
    # 60,000 tasks: a run must not use them up.
    many_us = statistics.median(run(2.0, 64, MANY)["server_cpu_us_a_task"] for _ in range(5))
    return [
        row("lease and complete, one task a request, 64 connections", median["completed_per_s"],
            "requests/s", bar=4000, peer="BOINC's published server (2005)", peer_value=102,
            note="durable, signed, with nonce and events; load on the same cores"),
        row("server CPU of one lease and complete", median["server_cpu_us"], "us", bar=250,
            better="lower"),
        row(f"server CPU of one task, {MANY} a request", many_us, "us", bar=60, better="lower"),
        row("lease and complete, 99th percentile", median["p99_ms"], "ms", better="lower"),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--want", type=int, default=1, help="tasks a request")
    parser.add_argument("--serve", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--key", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        uvloop.run(serve(given.serve, given.directory, given.key))
        return
    figures = run(given.seconds, given.connections, given.want)
    figures["load_average"] = os.getloadavg()[0]
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
