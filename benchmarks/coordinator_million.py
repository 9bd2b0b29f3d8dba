"""A million devices at one coordinator: what they cost, and what comes after an hour's outage.

Owns: a simulation, second by second, of when devices come: the agent's own backoff where a
request fails, the coordinator's own interval and jitter where one succeeds. The cost is the rate
of contacts times what one contact and one TLS handshake cost, both measured in the same run.
"""

from __future__ import annotations

import random
import ssl
import tempfile
import time
from pathlib import Path
from typing import Final

import numpy as np

from app.agent.backoff import Backoff
from benchmarks.coordinator_contacts import compiled, on_sqlite
from benchmarks.record import Row, row
from gpugoblin.wire.tls import TlsFiles, make_self_signed
from server_stub.coordinator.settings import Settings

DEVICES: Final = 1_000_000
STEADY_S: Final = 1_200
OUTAGE_S: Final = 3_600
AFTER_S: Final = 3_700
"""The agent waits an hour at most, so all have come by then."""
WINDOW_S: Final = 60


def arrivals(devices: int = DEVICES, fixed_retry_s: float | None = None) -> np.ndarray:
    """Requests that devices send in each second; with a fixed retry, for comparison."""
    settings = Settings.of({"state_dir": "/nowhere"})
    agent = Backoff(random.Random(1))
    first_s, most_s, least_s = agent.first_s, agent.most_s, agent.least_s
    low_s = settings.contact_s * (1 - settings.contact_jitter)
    high_s = settings.contact_s * (1 + settings.contact_jitter)
    rng = np.random.default_rng(1)
    due_s = rng.uniform(0.0, settings.contact_s, devices)
    failures = np.zeros(devices, np.int64)
    total_s = STEADY_S + OUTAGE_S + AFTER_S
    counts = np.zeros(total_s)
    for second in range(total_s):
        come = np.flatnonzero(due_s < second + 1)
        counts[second] = come.size
        if STEADY_S <= second < STEADY_S + OUTAGE_S:
            ceiling_s = np.minimum(most_s, first_s * 2.0 ** np.minimum(failures[come], 40))
            wait_s = np.maximum(least_s, rng.uniform(0.0, 1.0, come.size) * ceiling_s)
            failures[come] += 1
            due_s[come] += wait_s if fixed_retry_s is None else fixed_retry_s
        else:
            failures[come] = 0
            due_s[come] += rng.uniform(low_s, high_s, come.size)
    return counts


def surge(counts: np.ndarray) -> tuple[float, float]:
    """Requests a second in the steady state, and in the busiest minute after the outage."""
    # The first contacts are spread evenly; later the jitter keeps them so.
    steady = counts[STEADY_S // 2 : STEADY_S].mean()
    after = counts[STEADY_S + OUTAGE_S :]
    minutes = np.convolve(after, np.ones(WINDOW_S) / WINDOW_S, "valid")
    return float(steady), float(minutes.max())


def handshake_us(files: TlsFiles, times: int = 300) -> float:
    """Server CPU of one full TLS 1.3 handshake."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files.certificate, files.key)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    spent_s = 0.0
    for _ in range(times):
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        here = server.wrap_bio(to_server, to_client, server_side=True)
        there = client.wrap_bio(to_client, to_server)
        waiting = {here, there}
        while waiting:
            for side in (there, here):
                if side in waiting:
                    began_s = time.process_time()
                    try:
                        side.do_handshake()
                        waiting.discard(side)
                    except ssl.SSLWantReadError:
                        pass
                    if side is here:
                        spent_s += time.process_time() - began_s
    return 1e6 * spent_s / times


def measure() -> list[Row]:
    with compiled() as load:
        contact_us = on_sqlite(load, 6000)["us"]
    with tempfile.TemporaryDirectory() as name:
        tls_us = handshake_us(make_self_signed(Path(name), ["localhost"]))
    steady, after = surge(arrivals())
    calm, fixed = surge(arrivals(DEVICES // 20, fixed_retry_s=60.0))
    cores = steady * (contact_us + tls_us) / 1e6
    return [
        row("a million devices, a contact in 300 s each: cost", round(cores, 2), "cores", bar=2.0,
            better="lower",
            note=f"{steady:.0f} contacts/s, each {contact_us:.0f} us on SQLite and {tls_us:.0f} us"
            " for a TLS handshake"),
        row("a million devices: busiest minute after an hour's outage", round(after / steady, 2),
            "of the steady state", bar=1.5, better="lower", peer="a retry each 60 s",
            peer_value=round(fixed / calm, 2), note="the agent's own backoff"),
    ]  # fmt: skip
