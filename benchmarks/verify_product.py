"""The product check: what it costs, what it catches, whether it cries wolf.

    python benchmarks/verify_product.py [--tiles 1000] [--json FILE]
    python benchmarks/verify_product.py --calibrate

Cost is CPU time on one thread, best of five, as a share of the product's own CPU time. Honest tiles
are what the local engine computes (one BLAS thread) on data of five kinds. Wrong ones differ from
an honest tile in one element. Honest tiles to which something is carried are summed in six orders
(`tests/helpers/orders.py`), with carries of five kinds, 1e-6 to 1e6 times as large as the product;
in one row data of one sign is added to them term by term, which the check does not promise to
accept. `--calibrate` prints the figures behind
`gpugoblin/verify/calibration.py`: the largest error of the naive float32 sum, over kinds of data.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.record import Row, row
from gpugoblin.catalog.spec import Array
from gpugoblin.units import MIB
from gpugoblin.verify.calibration import UNIT_ROUNDOFF, honest_maximum, threshold
from gpugoblin.verify.forms import ProductForm
from gpugoblin.verify.product import ProductCheck, ProductVerdict, project_right
from tests.helpers.orders import CARRIES, ORDERS, make_carry

KINDS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "normal": lambda random, shape: random.standard_normal(shape),
    "uniform": lambda random, shape: random.random(shape),
    "image": lambda random, shape: np.floor(random.random(shape) * 256),
    "sparse": lambda random, shape: random.standard_normal(shape) * (random.random(shape) < 0.02),
    "uneven": lambda random, shape: (
        random.standard_normal(shape) * np.exp(2 * random.standard_normal(shape[-1:]))
    ),
}


def form_of(rows: int, inner: int, columns: int) -> ProductForm:
    return ProductForm(0, 1, None, False, False, (), rows, inner, columns, "float32")


def operands(random: np.random.Generator, form: ProductForm, kind: str) -> tuple[Array, Array]:
    make = KINDS[kind]
    a = make(random, (form.rows, form.inner)).astype(np.float32)
    return a, make(random, (form.inner, form.columns)).astype(np.float32)


def check(form: ProductForm, a: Array, c: Array, hands: tuple) -> ProductVerdict:  # type: ignore[type-arg]
    """In pieces of 1 MiB, as the node does."""
    made = ProductCheck(form, a, hands)
    band = max(1, MIB // (4 * form.columns))
    for first in range(0, form.rows, band):
        made.take(first, c[first : first + band])
    return made.verdict()


def cpu_s(work: Callable[[], object], runs: int = 5) -> float:
    taken = []
    for _ in range(runs):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)


def costs() -> dict[str, float]:
    found: dict[str, float] = {}
    random = np.random.default_rng(1)
    for rows, inner, columns in ((2048, 2048, 2048), (1024, 16384, 4096)):
        form = form_of(rows, inner, columns)
        a, b = operands(random, form, "normal")
        c = np.empty((rows, columns), np.float32)
        product_s = cpu_s(lambda a=a, b=b, c=c: np.matmul(a, b, out=c), 3)  # type: ignore[misc]
        hands = project_right(form, b)
        shared_s = cpu_s(lambda f=form, a=a, c=c, h=hands: check(f, a, c, h))  # type: ignore[misc]
        draw_s = cpu_s(lambda f=form, b=b: project_right(f, b))  # type: ignore[misc]
        name = f"{rows}x{inner}x{columns}"
        found[f"{name} shared, % of the product"] = 100 * shared_s / product_s
        found[f"{name} fresh, % of the product"] = 100 * (shared_s + draw_s) / product_s
    return found


def alarms(tiles: int) -> dict[str, float]:
    random = np.random.default_rng(2)
    false_alarms, worst = 0, 0.0
    for number in range(tiles):
        form = form_of(128, int(random.choice([64, 500, 2048])), 4096)
        a, b = operands(random, form, list(KINDS)[number % len(KINDS)])
        verdict = check(form, a, np.matmul(a, b), project_right(form, b))
        false_alarms += not verdict.accepted
        worst = max(worst, verdict.error / verdict.threshold)
    return {"false alarms": false_alarms, "honest tiles": tiles, "worst share of threshold": worst}


def carried_alarms(
    tiles: int, order: str, kinds: tuple[str, ...] = ("normal", "sparse", "uneven")
) -> tuple[int, float]:
    """False alarms in honest tiles with a carry, and the largest share of the threshold."""
    random = np.random.default_rng(5)
    refused, worst = 0, 0.0
    for number in range(tiles):
        inner = int(random.choice([16, 100, 256]))
        form = ProductForm(0, 1, 2, False, False, (), 16, inner, 256, "float32")
        a, b = operands(random, form, kinds[number % len(kinds)])
        times = 10.0 ** random.uniform(-6, 6)
        carry = make_carry(random, CARRIES[number % len(CARRIES)], a @ b, times)
        made = ProductCheck(form, a, project_right(form, b), carry)
        made.take(0, ORDERS[order](a, b, carry))
        verdict = made.verdict()
        refused += not verdict.accepted
        worst = max(worst, verdict.error / verdict.threshold)
    return refused, worst


def catches(trials: int) -> dict[str, float]:
    random = np.random.default_rng(3)
    found: dict[str, float] = {}
    for inner in (2048, 16384):
        form = form_of(64, inner, 4096)
        a, b = operands(random, form, "normal")
        honest = np.matmul(a, b)
        rms = math.sqrt(float(np.mean(honest.astype(np.float64) ** 2)))
        for size in (2e-4, 1e-4):
            missed = 0
            for trial in range(trials):
                if trial % 20 == 0:
                    hands = project_right(form, b)
                at = int(random.integers(64)), int(random.integers(4096))
                kept = honest[at]
                honest[at] += np.float32(size * rms * random.choice((-1, 1)))
                missed += check(form, a, honest, hands).accepted
                honest[at] = kept
            found[f"missed at {size:g} of the rms, inner {inner}, of {trials}"] = missed
    return found


def measure() -> list[Row]:
    cost, honest, wrong = costs(), alarms(1000), catches(200)
    rows = [
        row("product check at 2048, vectors shared per panel, share of the product's CPU",
            cost["2048x2048x2048 shared, % of the product"], "%", bar=5, better="lower"),
        row("product check at 2048, fresh vectors, share of the product's CPU",
            cost["2048x2048x2048 fresh, % of the product"], "%", bar=8, better="lower"),
        row("product check of a 1024 x 16384 x 4096 tile, vectors shared",
            cost["1024x16384x4096 shared, % of the product"], "%", bar=5, better="lower"),
        row("false alarms in 1,000 honest tiles of five kinds of data",
            honest["false alarms"], "tiles", bar=0, better="lower",
            note=f"worst honest error {honest['worst share of threshold']:.2f} of the threshold"),
    ]  # fmt: skip
    for order in ORDERS:
        refused, worst = carried_alarms(1000, order)
        rows.append(
            row(f"false alarms in 1,000 honest tiles with a carry, {order}", refused, "tiles",
                bar=0, better="lower", note=f"worst honest error {worst:.2f} of the threshold")
        )  # fmt: skip
    refused, worst = carried_alarms(200, "sequential from the carry", ("uniform",))
    rows.append(
        row("refused of 200 tiles of one sign, added term by term to a carry", refused, "tiles",
            note=f"not promised: up to the whole product is lost; worst {worst:.2f}")
    )  # fmt: skip
    for what, missed in wrong.items():
        goal = "1e-04" in what or "0.0001 " in what
        rows.append(
            row(
                "single wrong elements " + what, missed, "misses",
                bar=None if goal else 0, better="lower",
                note="goal, not bar" if goal else "",
            )
        )  # fmt: skip
    return rows


def naive(a: Array, b: Array) -> Array:
    """One product after the other, multiply and add both rounded."""
    out = np.zeros((a.shape[0], b.shape[1]), np.float32)
    term = np.empty_like(out)
    for k in range(a.shape[1]):
        np.multiply(a[:, k : k + 1], b[k], out=term)
        out += term
    return out


def calibrate() -> None:
    random = np.random.default_rng(4)
    for inner in (1, 16, 256, 2048, 16384):
        form = form_of(64, inner, 4096)
        errors = {}
        for kind in KINDS:
            a, b = operands(random, form, kind)
            hands = project_right(form, b)
            errors[kind] = check(form, a, naive(a, b), hands).error / UNIT_ROUNDOFF
        limits = honest_maximum(inner) / UNIT_ROUNDOFF, threshold(inner) / UNIT_ROUNDOFF
        figures = ", ".join(f"{kind} {error:.1f}" for kind, error in errors.items())
        print(f"inner {inner}: honest {limits[0]:.1f}, threshold {limits[1]:.1f}: {figures}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiles", type=int, default=1000)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--calibrate", action="store_true")
    parser.add_argument("--json", type=Path, default=None)
    given = parser.parse_args()
    if given.calibrate:
        calibrate()
        return
    figures = {**costs(), **alarms(given.tiles), **catches(given.trials)}
    text = json.dumps(figures, indent=2)
    print(text)
    if given.json is not None:
        given.json.write_text(text)


if __name__ == "__main__":
    main()
