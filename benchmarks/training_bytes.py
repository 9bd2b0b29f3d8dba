"""Bytes against loss: rounds of local steps beside synchronous steps, over slow links.

A lab node, and eight contributors in this process that reach it over TLS through shaped links
(100 Mbit/s each way, a round trip of 50 ms). A network of one hidden layer learns the digits; all
runs read the same number of examples. A contributor's card is emulated by waiting: `step_s` for
each step beside the arithmetic, which takes the cores of this machine. A quarter of the
contributors vanish each minute in the middle of a task, and come back ten seconds later.

In class `exact` the bits of a run do not depend on who computes it, so its loss is that of a run on
the node's own engine, and its bytes and times are those of a few rounds over the links.

    python -m benchmarks.training_bytes [--steps 1000] [--seeds 3] [--local 0 10 100]
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import gpugoblin as gg
from benchmarks.record import Row, not_run, row
from benchmarks.shaped_link import ShapedLink
from gpugoblin.client.run import Run
from gpugoblin.client.session import Session
from gpugoblin.graph.serialize import decode
from tests.helpers.device import Device
from tests.helpers.lab import COORDINATOR, LAB, grid_settings
from tests.helpers.node import LabNode

__all__ = ["measure"]

LOCAL: Final = (0, 10, 50, 100, 500)
"""Local steps of a round; 0: synchronous."""

CONTRIBUTORS, BATCH, HIDDEN = 8, 2, 512
TRAINED, AGAIN = 1500, 6
"""Images that are trained on, and how often the data has each: a round reads no row twice."""

ROUNDS: Final = 2
"""That are run over the links: each is like the others."""

RATES: Final = (0.003, 0.01, 0.03, 0.1)
CHURN_PER_S: Final = 0.25 / 60
AWAY_S: Final = 10.0
LINK: Final = (12.5e6, 0.05)


@dataclass(frozen=True)
class Setting:
    """What all runs have."""

    steps: int
    step_s: float
    churn_per_s: float = CHURN_PER_S


@dataclass(frozen=True)
class Figures:
    """What one run came to. `bytes_each`: of its tasks, for each of a contributor's steps;
    `link_bytes_each`: on its link, with TLS, HTTP and asking for work."""

    loss: float
    bytes_each: float
    link_bytes_each: float
    utilisation: float


def squares(weights: Mapping[str, gg.Array], x: gg.Array, y: gg.Array) -> gg.Array:
    """The mean square distance to the digit, as ten numbers."""
    hidden = gg.maximum(gg.astype(x, "float32") @ weights["a"], 0.0)
    gap = hidden @ weights["b"] - gg.astype(y, "float32")
    return (gap * gap).mean()


def digits() -> tuple[Any, Any]:
    """1,797 images as int8 from 0 to 16, and ten times a 0 or 1."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return found.data.astype(np.int8), np.eye(10, dtype=np.int8)[found.target]


def first_weights(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((64, HIDDEN)).astype(np.float32) * np.float32(0.02)
    return {"a": a, "b": rng.standard_normal((HIDDEN, 10)).astype(np.float32) * np.float32(0.02)}


def held_out(weights: Mapping[str, Any], x: Any, y: Any) -> float:
    gap = np.maximum(x.astype(np.float64) @ weights["a"], 0) @ weights["b"] - y
    with np.errstate(over="ignore"):  # of a rate that is too high
        return float((gap * gap).mean())


def tuned(steps: int, batch: int) -> float:
    """The best of `RATES` for plain descent with this batch, by NumPy, on the held-out part."""
    x, y = digits()
    found = {}
    for rate in RATES:
        weights = {name: one.astype(np.float64) for name, one in first_weights(0).items()}
        rng = np.random.default_rng(0)
        for _ in range(steps):
            if not np.isfinite(weights["b"]).all():
                break
            rows = rng.integers(0, TRAINED, batch)
            inside = np.maximum(x[rows].astype(np.float64) @ weights["a"], 0)
            with np.errstate(over="ignore", invalid="ignore"):
                gap = 2 * (inside @ weights["b"] - y[rows]) / (10 * batch)
                back = (gap @ weights["b"].T) * (inside > 0)
                weights["b"] -= rate * inside.T @ gap
                weights["a"] -= rate * x[rows].astype(np.float64).T @ back
        loss = held_out(weights, x[TRAINED:], y[TRAINED:])
        found[rate] = loss if np.isfinite(loss) else np.inf
    return min(found, key=lambda rate: found[rate])


def is_shard(graph: bytes) -> bool:
    """Whether a task reads images: sums and steps do not."""
    return any(spec.dtype == "int8" and spec.shape[1:] == (64,) for spec in decode(graph).inputs)


class Contributor(threading.Thread):
    """A device behind its link, until it is told to end."""

    def __init__(self, device: Device, setting: Setting, local: int, seed: int) -> None:
        super().__init__(name="contributor")
        self.device = device
        self.busy_s = 0.0
        self._setting, self._local = setting, local
        self._random = random.Random(seed)
        self.ending = threading.Event()
        self._look_s = time.monotonic()

    def run(self) -> None:
        while not self.ending.is_set():
            leases = self.device.exchange(want=1).leases
            for lease in leases:
                began_s = time.monotonic()
                outputs = self.device.compute(lease)
                if is_shard(lease.task.graph):
                    self.ending.wait(self._setting.step_s * max(1, self._local))
                self.busy_s += time.monotonic() - began_s
                if self._vanishes():
                    self.ending.wait(AWAY_S)
                    continue
                committed = self.device.exchange(
                    commits=(self.device.result(lease.lease, outputs),)
                )
                if lease.lease in committed.uploads:
                    self.device.upload(lease.lease, outputs)
            if not leases:
                self.ending.wait(0.02)

    def _vanishes(self) -> bool:
        now_s = time.monotonic()
        since_s, self._look_s = now_s - self._look_s, now_s
        stays: float = (1 - self._setting.churn_per_s) ** since_s
        return self._random.random() > stays


def trained(
    session: Session, setting: Setting, local: int, steps: int, seed: int, rate: float, where: str
) -> Run:
    """A run of so many steps, done. Its bits do not depend on who computes."""
    x, y = digits()
    seen = tuple(np.tile(one[:TRAINED], (AGAIN, 1)) for one in (x, y))
    options: dict[str, Any] = {"batch": BATCH * CONTRIBUTORS, "micro_batch": BATCH}
    if local:
        options = {"batch": BATCH, "local_steps": local, "shards": CONTRIBUTORS}
    if where == "grid":
        options["where"] = gg.where(sandbox="none")
    return gg.train(
        squares, parameters=first_weights(seed), data=seen,
        optimizer=gg.SGD(rate), steps=steps, seed=seed, numeric_class="exact", executor=where,
        session=session, name=f"{where}-{local}-{seed}", **options,
    ).wait()  # fmt: skip


def over_links(setting: Setting, local: int, seed: int, rate: float) -> tuple[float, float, float]:
    """Some rounds over the links: bytes of tasks and bytes on the links, a step of a contributor,
    and the share of the time in which contributors compute."""
    steps = ROUNDS * max(1, local)
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gg-")))
        node = stack.enter_context(LabNode(place, **grid_settings()))
        assert node.service.tls is not None
        people = []
        for number in range(CONTRIBUTORS):
            link = stack.enter_context(ShapedLink(node.service.port, *LINK))
            device = Device(link.port, node.service.tls.sha256, COORDINATOR, LAB, time.time)
            stack.callback(device.session.close)
            people.append((link, Contributor(device, setting, local, 100 * seed + number)))
        session = stack.enter_context(gg.connect(f"unix:{node.settings.socket_path}"))
        for _, one in people:
            one.start()
        try:
            began_s = time.monotonic()
            run = trained(session, setting, local, steps, seed, rate, "grid")
            took_s = time.monotonic() - began_s
            moved = sum(one.bytes_in + one.bytes_out for one in run.rounds())
        finally:
            for _, one in people:
                one.ending.set()
            for _, one in people:
                one.join()
        each = CONTRIBUTORS * steps
        carried = sum(link.carried for link, _ in people)
        return (
            moved / each, carried / each,
            sum(one.busy_s for _, one in people) / (CONTRIBUTORS * took_s),
        )  # fmt: skip


def one_run(session: Session, setting: Setting, local: int, seed: int, rate: float) -> Figures:
    """The loss of a whole run, and what its rounds cost over slow links."""
    x, y = digits()
    run = trained(session, setting, local, setting.steps, seed, rate, "local")
    loss = held_out(run.weights().named(), x[TRAINED:], y[TRAINED:])
    return Figures(loss, *over_links(setting, local, seed, rate))


def curve(setting: Setting, locals_: tuple[int, ...], seeds: int) -> list[Row]:
    """The rows: for each number of local steps the bytes, the loss and the utilisation, beside the
    first of them, which is 0."""
    rate = tuned(min(setting.steps, 300), BATCH * CONTRIBUTORS)
    rows: list[Row] = []
    base: list[Figures] = []
    with tempfile.TemporaryDirectory(prefix="gg-") as directory:
        session = gg.connect("local", state_dir=Path(directory) / "state")
        try:
            for local in locals_:
                what = f"training, {local} local steps" if local else "training, synchronous"
                if local and setting.steps % local:
                    reason = f"{setting.steps} steps are no whole rounds"
                    rows.append(not_run(what, "B", "", reason))
                    continue
                found = [one_run(session, setting, local, seed, rate) for seed in range(seeds)]
                base = base or found
                note = (
                    f"{setting.steps} steps, {seeds} seeds, rate {rate:g}; bytes and time of "
                    f"{ROUNDS} rounds, emulated card of {setting.step_s:g} s a step"
                )
                rows += _rows(what, found, base, note)
        finally:
            session.stop_node()
            session.close()
    return rows


def _rows(what: str, found: list[Figures], base: list[Figures], note: str) -> list[Row]:
    def middle(name: str, of: list[Figures]) -> float:
        return float(statistics.median(getattr(one, name) for one in of))

    losses = "losses " + ", ".join(f"{one.loss:.4g}" for one in found)
    own, theirs = middle("bytes_each", found), middle("bytes_each", base)
    link, link_base = middle("link_bytes_each", found), middle("link_bytes_each", base)
    return [
        row(f"{what}: bytes of tasks, a contributor's step", own, "B", better="lower",
            peer="synchronous", peer_value=theirs, note=f"{note}; {theirs / own:.1f} times fewer"),
        row(f"{what}: bytes on the link, a contributor's step", link, "B", better="lower",
            peer="synchronous", peer_value=link_base, note="with TLS, HTTP and asking for work"),
        row(f"{what}: loss on held-out digits", middle("loss", found), "", better="lower",
            peer="synchronous", peer_value=middle("loss", base), note=losses),
        row(f"{what}: contributors at work", middle("utilisation", found), "", bar=0.85,
            note=note),
    ]  # fmt: skip


def measure() -> list[Row]:
    """The rows of the record."""
    return curve(Setting(steps=1000, step_s=0.02), LOCAL, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--step-s", type=float, default=0.02)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--churn-per-minute", type=float, default=0.25)
    parser.add_argument("--local", type=int, nargs="+", default=list(LOCAL))
    given = parser.parse_args()
    if given.local[0]:
        parser.error("--local begins with 0, the peer of all others")
    setting = Setting(given.steps, given.step_s, given.churn_per_minute / 60)
    for one in curve(setting, tuple(given.local), given.seeds):
        print(f"{one.what}: {one.value} {one.unit} (peer {one.peer_value}); {one.note}")


if __name__ == "__main__":
    main()
