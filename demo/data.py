"""The data of the demonstration: scikit-learn's digits and its two photographs.

Owns: turning them into float32 files. Both sets lie inside the scikit-learn package; nothing is
downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["PATCH", "Digits", "digits", "write_patches"]

PATCH = 8
"""Side of an image patch in pixels; a patch is one row of 8 * 8 * 3 = 192 numbers."""


@dataclass(frozen=True, slots=True)
class Digits:
    """1,797 digits of 8 x 8 pixels: `images` float32[1797, 64], `labels` int64[1797]."""

    images: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]


def digits() -> Digits:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return Digits(bunch.data.astype(np.float32), bunch.target.astype(np.int64))


def write_patches(path: Path, rows: int) -> Path:
    """Writes `rows` patches, half of each photograph, as float32[rows, 192], unit length each.

    Each patch has its mean removed and is scaled to length 1, so that the product of two patches
    is their correlation. Patches lie on an even grid over the photograph.
    """
    from sklearn.datasets import load_sample_images

    halves: list[npt.NDArray[np.float32]] = []
    for photograph in load_sample_images().images:
        count = rows // 2 if not halves else rows - rows // 2
        halves.append(_patches(photograph.astype(np.float32), count))
    np.save(path, np.concatenate(halves))
    return path


def _patches(image: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.float32]:
    windows = np.lib.stride_tricks.sliding_window_view(image, (PATCH, PATCH), axis=(0, 1))
    flat = windows.reshape(-1, 3 * PATCH * PATCH)
    chosen = flat[np.linspace(0, len(flat) - 1, count).astype(np.int64)]
    centered = chosen - chosen.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(centered, axis=1, keepdims=True)
    scaled: npt.NDArray[np.float32] = (centered / np.maximum(lengths, 1e-6)).astype(np.float32)
    return scaled
