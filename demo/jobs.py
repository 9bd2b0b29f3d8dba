"""The three jobs of the demonstration, written as a researcher would write them.

Owns: what is computed and how its result is judged against NumPy alone. The gains and losses of
contributors happen in `story.py`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import gpugoblin as gg
from demo.data import Digits

__all__ = [
    "PATCH_ROWS",
    "Figures",
    "Neighbors",
    "Principal",
    "gram",
    "neighbors",
    "patches",
    "submit_patches",
]

PATCH_ROWS = 23_296
"""Patches of the two photographs: their correlations take 23,296^2 * 4 bytes = 2.02 GiB."""


SUBSPACE = 16
ROUNDS = 12
BLOCK_ROWS = 1024
COMPARED_EVERY = 4
"""Of the large result every fourth block of rows is compared with NumPy's."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One job: the network against NumPy alone on this machine, in memory.

    Attributes:
        error: largest absolute difference to NumPy's result (over a sample for the large one).
    """

    what: str
    job: gg.Job
    network_s: float
    numpy_s: float
    error: float


@dataclass(frozen=True, slots=True)
class Principal:
    """The digits in the plane of their two largest principal components: float32[1797, 2]."""

    figures: Figures
    points: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Neighbors:
    """Each digit's nearest other digit: int64[1797], and how often it has the same label."""

    figures: Figures
    nearest: npt.NDArray[np.int64]
    accuracy: float


def gram(digits: Digits) -> Principal:
    """The Gram matrix of the centered digits on the network; its eigenvectors by NumPy, here.

    The eigenproblem of 1797 x 1797 is small: it is solved in this process.
    """
    centered = digits.images - digits.images.mean(axis=0)
    x = gg.array(centered)
    start_s = time.perf_counter()
    (x @ x.T).save(name="demo-gram", executor="grid", force=True)
    job = gg.get("demo-gram")
    job.wait(timeout=120)
    network_s = time.perf_counter() - start_s
    start_s = time.perf_counter()
    alone = centered @ centered.T
    numpy_s = time.perf_counter() - start_s
    matrix = job.array[:, :]
    points = _principal_plane(matrix)
    error = float(np.abs(matrix - alone).max())
    return Principal(Figures("Gram matrix of the digits", job, network_s, numpy_s, error), points)


def _principal_plane(gram: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The coordinates along the two largest eigenvectors: float32[n, 2].

    Subspace iteration (Golub and Van Loan, Matrix Computations, section 8.2.4) instead of all 1,797
    eigenvectors: with 16 vectors the error shrinks about tenfold a round here.
    """
    matrix = gram.astype(np.float64)
    basis = np.random.default_rng(0).standard_normal((len(matrix), SUBSPACE))
    for _ in range(ROUNDS):
        basis, _ = np.linalg.qr(matrix @ basis)
    values, turns = np.linalg.eigh(basis.T @ matrix @ basis)
    vectors = basis @ turns[:, :-3:-1]
    # An eigenvector's sign is free; fixed, so that the picture looks the same every time.
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), [0, 1]])
    points: npt.NDArray[np.float32] = (vectors * signs * np.sqrt(values[:-3:-1])).astype(np.float32)
    return points


def neighbors(digits: Digits) -> Neighbors:
    """The nearest neighbor of each digit among the others, by Euclidean distance."""
    x = gg.array(digits.images)
    squares = (x * x).sum(axis=1)
    distances = squares.reshape((-1, 1)) + squares.reshape((1, -1)) - 2.0 * (x @ x.T)
    start_s = time.perf_counter()
    # The nearest of all is the digit itself, at distance 0.
    _, indices = gg.topk(distances, 2, axis=1, largest=False)
    indices.save(name="demo-neighbors", executor="grid", force=True)
    job = gg.get("demo-neighbors")
    job.wait(timeout=120)
    network_s = time.perf_counter() - start_s
    found = job.array[:, :]
    start_s = time.perf_counter()
    alone = _neighbors_alone(digits.images)
    numpy_s = time.perf_counter() - start_s
    own = np.arange(len(found))
    nearest = np.where(found[:, 0] == own, found[:, 1], found[:, 0])
    accuracy = float((digits.labels[nearest] == digits.labels).mean())
    differing = float((nearest != alone).mean())
    return Neighbors(
        Figures("Nearest neighbors of the digits", job, network_s, numpy_s, differing),
        nearest,
        accuracy,
    )


def _neighbors_alone(images: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    squares = (images * images).sum(axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * images @ images.T
    np.fill_diagonal(distances, np.inf)
    nearest: npt.NDArray[np.int64] = distances.argmin(axis=1)
    return nearest


def submit_patches(source: Path, target: Path) -> gg.Job:
    """All correlations of the patches, out of core: the result is larger than 2 GiB, on disk."""
    patches = gg.open(source)
    (patches @ patches.T).save(target, name="demo-patches", executor="grid", force=True)
    return gg.get("demo-patches")


def patches(job: gg.Job, source: Path, target: Path, start_s: float) -> Figures:
    """The figures of the finished job. NumPy's own time is without writing its result to disk."""
    network_s = time.perf_counter() - start_s
    rows = np.load(source)
    start_s = time.perf_counter()
    product = rows @ rows.T
    numpy_s = time.perf_counter() - start_s
    ours = np.load(target, mmap_mode="r")
    error = max(
        float(np.abs(ours[at : at + BLOCK_ROWS] - product[at : at + BLOCK_ROWS]).max())
        for at in range(0, len(rows), COMPARED_EVERY * BLOCK_ROWS)
    )
    return Figures("Correlations of image patches", job, network_s, numpy_s, error)
