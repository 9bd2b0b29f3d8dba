"""The check of factorizations: whether it cries wolf, what it catches, what it costs.

    python benchmarks/verify_factors.py [--calibrate]

Honest results come from `tests/helpers/factors.py`: LAPACK in float32 where NumPy has it, plain
loops in float32, and float64 rounded once, of 17 kinds of matrices from 1 to 400 columns. Wrong
ones differ from the honest one in a single element of a result. Cost is CPU time on one thread,
beside computing the result a second time, as a validator does. `--calibrate` prints the figures
behind `gpugoblin.verify.residual.CALIBRATED`: the largest honest errors of each operator, as shares
of its limit.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from benchmarks.record import Row, row
from gpugoblin.catalog.spec import Array
from gpugoblin.verify.forms import FactorForm, factor_form
from gpugoblin.verify.residual import check_factors
from tests.helpers.factors import DEVICES, MATRICES, OPERATORS, graph_of, operands_of

SIZES: Final = (1, 2, 3, 5, 17, 64, 150, 400)
WRONG_SIZE: Final = 512
COST_SIZE: Final = 1024
STEPS: Final = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5)


def form_of(operator: str, operands: list[Array]) -> FactorForm:
    form = factor_form(graph_of(operator, operands))
    if form is None:
        raise AssertionError(operator)
    return form


def honest(operator: str, sizes: tuple[int, ...], seeds: int) -> Iterator[tuple[str, float]]:
    """(what it is, error in units of what is allowed) of every honest result."""
    for kind in MATRICES:
        for size in sizes:
            for seed in range(seeds):
                operands = operands_of(operator, kind, size, seed)
                form = form_of(operator, operands)
                for device, run in DEVICES[operator].items():
                    try:
                        with np.errstate(all="ignore"):
                            results = run(*operands)
                    except np.linalg.LinAlgError:
                        continue
                    if all(np.isfinite(one).all() for one in results):
                        found = check_factors(form, operands, results)
                        yield f"{kind}, {device}, {size}", found.error


def smallest_caught(operator: str, trials: int = 40) -> float:
    """The smallest size of a single wrong element, in units of its result's root mean square, of
    which none was missed in any result; infinity where the largest tried was missed."""
    random = np.random.default_rng(1)
    operands = operands_of(operator, "normal", WRONG_SIZE)
    if operator == "triangular_solve":  # else nearly singular
        operands[0] += np.eye(WRONG_SIZE, dtype=np.float32) * np.float32(3 * WRONG_SIZE**0.5)
    form = form_of(operator, operands)
    results = DEVICES[operator]["rounded"](*operands)
    found = float("inf")
    for share in STEPS:
        for result in results:
            if result.dtype.kind != "f":
                continue
            counted = result[result != 0].astype(np.float64)
            size = share * float(np.sqrt(np.mean(np.square(counted))))
            for _ in range(trials):
                places = np.argwhere(result)
                at = tuple(places[random.integers(places.shape[0])])
                kept = result[at]
                result[at] += np.float32(size * random.choice((-1, 1)))
                missed = check_factors(form, operands, results).accepted
                result[at] = kept
                if missed:
                    return found
        found = share
    return found


def cpu_s(work: Callable[[], object], runs: int = 5) -> float:
    taken = []
    for _ in range(runs):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)


def cost(operator: str) -> tuple[float, float]:
    """Seconds of the check and of computing the result once more."""
    operands = operands_of(operator, "normal", COST_SIZE)
    form = form_of(operator, operands)
    again = DEVICES[operator]["rounded"]
    results = again(*operands)
    return (
        cpu_s(lambda: check_factors(form, operands, results)),
        cpu_s(lambda: again(*operands), 1),
    )


def measure() -> list[Row]:
    errors = {one: list(honest(one, SIZES, 2)) for one in OPERATORS}
    refused = sum(error > 1 for found in errors.values() for _, error in found)
    every = sum(map(len, errors.values()))
    worst = max((error, what) for found in errors.values() for what, error in found)
    rows = [
        row("false alarms in honest factorizations of 17 kinds of matrices", refused, "results",
            bar=0, better="lower",
            note=f"of {every}; the worst is {worst[0]:.2f} of what is allowed ({worst[1]})"),
    ]  # fmt: skip
    for operator in OPERATORS:
        caught = smallest_caught(operator)
        rows.append(
            row(f"{operator}: the smallest single wrong element of which none is missed",
                caught, "of the root mean square", bar=1e-2, better="lower",
                note=f"normal, {WRONG_SIZE} columns, every result in turn")
        )  # fmt: skip
    for operator in OPERATORS:
        check, again = cost(operator)
        rows.append(
            row(f"{operator}: the check of {COST_SIZE} columns", round(1000 * check, 1), "ms",
                ratio_bar=1.0, better="lower", peer="computing it once more, as a validator does",
                peer_value=round(1000 * again, 1), note="CPU time of one thread")
        )  # fmt: skip
    return rows


def calibrate() -> None:
    for operator in OPERATORS:
        found = sorted(honest(operator, SIZES, 2), key=lambda pair: -pair[1])
        worst = ", ".join(f"{what}: {error:.2f}" for what, error in found[:4])
        print(f"{operator}, {len(found)} results: {worst}")


if __name__ == "__main__":
    if "--calibrate" in sys.argv:
        calibrate()
    else:
        for one in measure():
            print(one)
