"""Contacts of devices at a real coordinator: signature, nonce, a new signed grant, durable.

One server on SQLite; two servers on one PostgreSQL with fsync. The load is sent by a program in C
(`contact_load.c`, compiled when this runs) that reads requests which were signed before, over plain
HTTP on loopback: what ends TLS stands before a coordinator. Each device comes once, so that every
contact gets a new grant. First as fast as the servers answer, then at half of that rate.

    python -m benchmarks.coordinator_contacts [--devices 12000] [--profile]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.record import Row, not_run, row
from gpugoblin.wire.codec import encode
from gpugoblin.wire.messages.contact import Contact
from gpugoblin.wire.signing import public_key_bytes, sign_request
from server_stub.coordinator import databases
from server_stub.coordinator.house import draw_id
from server_stub.coordinator.settings import Settings, load_settings
from server_stub.coordinator.store import Transaction
from tests.helpers import postgres
from tests.helpers.coordinator import card, write_config

DEVICES: Final = 12_000
CONNECTIONS: Final = 64
SOURCE: Final = Path(__file__).with_name("contact_load.c")
_LABS: Final = 3
_UNBOUNDED: Final[dict[str, object]] = {
    "tls": "off", "requests_per_s": 1e6, "requests_burst": 1_000_000_000, "demand_s": 86_400.0,
    "max_connections": 1000,
}  # fmt: skip


def fill(tx: Transaction, keys: list[Ed25519PrivateKey]) -> None:
    """An account for each device, and labs that want every card."""
    rng = random.Random(1)
    now_s = time.time()
    for number in range(_LABS):
        tx.execute(
            "INSERT INTO lab (lab, name, public_key, address, weight, created_s, max_cards,"
            " cards_wanted, demand_s) VALUES (?, ?, ?, ?, 1.0, ?, 1000000, 1000000, ?)",
            draw_id("lab", rng), f"lab-{number}", rng.randbytes(32), "https://127.0.0.1:9", now_s,
            now_s,
        )  # fmt: skip
    for number, key in enumerate(keys):
        account = draw_id("account", rng)
        tx.execute(
            "INSERT INTO account (account, name, created_s) VALUES (?, ?, ?)",
            account, f"owner-{number}", now_s - 1e6,
        )  # fmt: skip
        tx.execute(
            "INSERT INTO device (device, account, public_key, created_s) VALUES (?, ?, ?, ?)",
            draw_id("device", rng), account, public_key_bytes(key), now_s,
        )  # fmt: skip


def signed(keys: list[Ed25519PrivateKey], path: Path) -> None:
    """Writes one signed contact of each key, as `contact_load.c` reads them."""
    body = encode(Contact(cards=(card(0),), holding=(), wants=(0,)))
    with path.open("wb") as file:
        for key in keys:
            headers = sign_request(key, "POST", "/v1/contact", body, time.time())
            head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            request = (
                f"POST /v1/contact HTTP/1.1\r\nHost: x\r\n{head}"
                f"Content-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            file.write(struct.pack("<I", len(request)) + request)


def cpu_s(roots: list[int]) -> float:
    """CPU time so far of processes and all that they started."""
    total = 0.0
    for root in roots:
        parent = psutil.Process(root)
        for process in (parent, *parent.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                spent = process.cpu_times()
                total += spent.user + spent.system + spent.children_user + spent.children_system
    return total


@contextlib.contextmanager
def serving(config: Path) -> Iterator[tuple[int, int]]:
    """A coordinator's process: its id and port."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-m", "server_stub.coordinator", "serve", "--config", str(config)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[1]
        yield process.pid, int(address.rpartition(":")[2])
    finally:
        process.terminate()
        process.communicate(timeout=30)


def loaded(load: Path, requests: Path, rate: float, ports: list[int]) -> dict[str, float]:
    """What one run of the load measured."""
    done = subprocess.run(
        [load, requests, str(CONNECTIONS), str(rate), *map(str, ports)],
        check=True, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    names = ("answers", "wrong", "seconds", "p50_ms", "p99_ms", "max_ms")
    figures = dict(zip(names, map(float, done.stdout.split()), strict=True))
    assert not figures["wrong"], done.stderr[:2000]
    return figures


def figures(
    directory: Path, settings: Settings, config: Path, load: Path, devices: int,
    replicas: int = 1, database: tuple[int, ...] = (),
) -> dict[str, Any]:  # fmt: skip
    """CPU a contact and rate at full load, waits at half load."""
    keys = [Ed25519PrivateKey.generate() for _ in range(devices)]
    databases.transact(settings, lambda tx: fill(tx, keys))
    requests = directory / "requests"
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(serving(config)) for _ in range(replicas)]
        ports = [port for _, port in running]
        servers = [number for number, _ in running]
        signed(keys[: devices // 8], requests)
        loaded(load, requests, 0, ports)  # the first contacts load what the later ones share
        signed(keys[devices // 8 : devices // 2], requests)
        before = cpu_s(servers), cpu_s(list(database))
        full = loaded(load, requests, 0, ports)
        after = cpu_s(servers), cpu_s(list(database))
        signed(keys[devices // 2 :], requests)
        rate = full["answers"] / full["seconds"]
        half = loaded(load, requests, rate / 2, ports)
    servers_us = 1e6 * (after[0] - before[0]) / full["answers"]
    database_us = 1e6 * (after[1] - before[1]) / full["answers"]
    return {
        "us": servers_us + database_us, "servers_us": servers_us, "database_us": database_us,
        "rate": rate, "p50_ms": half["p50_ms"], "p99_ms": half["p99_ms"],
    }  # fmt: skip


def on_sqlite(load: Path, devices: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        config = write_config(Path(name), **_UNBOUNDED)
        return figures(Path(name), load_settings(config), config, load, devices)


def on_postgres(load: Path, devices: int) -> dict[str, Any]:
    """Two replicas; the database syncs its log, as a coordinator's has to."""
    with (
        postgres.running("fsync=on", "autovacuum=on", "shared_buffers=256MB") as server,
        tempfile.TemporaryDirectory() as name,
    ):
        config = write_config(Path(name), database=server.new_database(), **_UNBOUNDED)
        postmaster = int((server.directory / "data/postmaster.pid").read_text().split()[0])
        return figures(
            Path(name), load_settings(config), config, load, devices, 2, (postmaster,)
        )  # fmt: skip


@contextlib.contextmanager
def compiled() -> Iterator[Path]:
    """The load's program."""
    with tempfile.TemporaryDirectory() as name:
        load = Path(name) / "contact_load"
        subprocess.run(["cc", "-O2", "-o", load, SOURCE], check=True)
        yield load


def measure() -> list[Row]:
    names = (
        ("SQLite", 600.0, on_sqlite, False),
        ("PostgreSQL, 2 replicas", 800.0, on_postgres, postgres.missing()),
    )
    rows: list[Row] = []
    if shutil.which("cc") is None:
        return [not_run("contact: CPU", "us", "<= 600 us", "there is no C compiler")]
    with compiled() as load:
        for name, bar, run, is_missing in names:
            if is_missing:
                rows.append(
                    not_run(f"contact on {name}: CPU", "us", f"<= {bar:g} us", postgres.MISSING)
                )
                continue
            found = run(load, DEVICES)
            note = (
                f"servers {found['servers_us']:.0f} us, database {found['database_us']:.0f} us;"
                if found["database_us"]
                else "server and database in one process;"
            )
            rows += [
                row(f"contact on {name}: CPU", round(found["us"]), "us", bar=bar, better="lower",
                    note=f"{note} signature, nonce, new signed grant, durable"),
                row(f"contact on {name}: rate", round(found["rate"]), "1/s",
                    note=f"{CONNECTIONS} connections, load on the same cores"),
                row(f"contact on {name}: 99th percentile at half load",
                    round(found["p99_ms"], 1), "ms", bar=100, better="lower",
                    note=f"median {found['p50_ms']:.1f} ms"),
            ]  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", type=int, default=DEVICES)
    parser.add_argument("--only", choices=("sqlite", "postgres"))
    given = parser.parse_args()
    with compiled() as load:
        for name, run in (("sqlite", on_sqlite), ("postgres", on_postgres)):
            if given.only in (None, name):
                print(name, json.dumps(run(load, given.devices), indent=1))
    print("load average", os.getloadavg()[0])


if __name__ == "__main__":
    main()
