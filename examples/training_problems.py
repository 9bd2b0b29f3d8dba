"""Six models on real data that ships in packages, as `gg.train` takes them.

Owns: the models and their data. `python -m examples.training NAME` trains one of them.
"""

from __future__ import annotations

import math
import pydoc_data.topics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import gpugoblin as gg

__all__ = ["LARGE", "LARGE_MEMORY_BYTES", "PROBLEMS", "Problem"]


@dataclass(frozen=True)
class Problem:
    """What a training takes. `batch` examples a step, in tasks of `micro`."""

    model: Any
    loss: Callable[..., Any]
    data: tuple[Any, ...]
    optimizer: Any
    batch: int = 64
    micro: int = 32


def _digits() -> tuple[Any, Any]:
    """1,797 images of 8 x 8, from 0 to 1, and what they show."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return (found.images[:, None] / 16).astype(np.float32), found.target.astype(np.int64)


def convolutional() -> Problem:
    """A convolutional network on the digits."""
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip
    return Problem(model, F.cross_entropy, _digits(), gg.AdamW(2e-3))


class RowTransformer(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """A transformer that reads an image row by row."""

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.place = nn.Parameter(torch.randn(8, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, 4, 64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, images: Any) -> Any:
        rows = self.embed(images.squeeze(1)) + self.place
        return self.head(self.encoder(rows).mean(1))


def transformer(width: int = 32, layers: int = 2) -> Problem:
    """A transformer classifier on the digits."""
    return Problem(RowTransformer(width, layers), F.cross_entropy, _digits(), gg.AdamW(1e-3))


class TextModel(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """A causal transformer over characters; the head is the embedding again."""

    def __init__(self, letters: int, length: int, width: int = 48, layers: int = 2) -> None:
        super().__init__()
        self.letters = nn.Embedding(letters, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.letters.weight, std=0.05)

    def forward(self, text: Any) -> Any:
        hidden = self.letters(text) + self.places(torch.arange(text.shape[1]))
        for block in self.blocks:
            hidden = block(hidden)
        return self.norm(hidden) @ self.letters.weight.T


class Block(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """Attention, then two layers, each beside what came in."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, hidden: Any) -> Any:
        examples, length, width = hidden.shape
        parts = self.attend(self.before(hidden)).view(examples, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.join(seen.transpose(1, 2).reshape(examples, length, width))
        return hidden + self.narrow(F.gelu(self.widen(self.between(hidden))))


def text(width: int = 48, layers: int = 2) -> Problem:
    """A character language model on the documentation that ships with Python."""
    whole = "\n".join(topic for _, topic in sorted(pydoc_data.topics.topics.items()))
    letters = sorted(set(whole))
    numbers = {letter: number for number, letter in enumerate(letters)}
    tokens = np.array([numbers[letter] for letter in whole], np.int64)
    length = 32
    rows = tokens[: len(tokens) // (length + 1) * (length + 1)].reshape(-1, length + 1)

    def loss(model: Any, part: Any) -> Any:
        scores = model(part[:, :-1])
        return F.cross_entropy(scores.reshape(-1, scores.shape[-1]), part[:, 1:].reshape(-1))

    model = TextModel(len(letters), length, width, layers)
    return Problem(model, loss, (rows,), gg.AdamW(1e-3), 32, 16)


def physics() -> Problem:
    """A network that solves y'' + y = 0, y(0) = 0, y'(0) = 1 on [0, 6] (it is the sine).

    The derivatives of a network with one hidden layer are written out.
    """

    class Solution(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self, width: int = 32) -> None:
            super().__init__()
            self.inner, self.outer = nn.Linear(1, width), nn.Linear(width, 1, bias=False)

        def forward(self, t: Any) -> tuple[Any, Any, Any]:
            hidden = torch.tanh(self.inner(t))
            slope = 1 - hidden * hidden
            rate = self.inner.weight[:, 0]
            first = self.outer(slope * rate)
            second = self.outer(-2 * hidden * slope * rate * rate)
            return self.outer(hidden), first, second

    def loss(model: Any, t: Any) -> Any:
        value, _, second = model(t)
        start, speed, _ = model(torch.zeros(1, 1))
        return (
            (second + value).square().mean() + start.square().mean() + (speed - 1).square().mean()
        )

    t = np.linspace(0, 6, 1024, dtype=np.float32)[:, None]
    return Problem(Solution(), loss, (t,), gg.Adam(3e-3), 128, 64)


class SmallUNet(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """Down, across and up again, with the way across joined; it is told the noise's level."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.level = nn.Linear(2, width)
        self.first = nn.Conv2d(1, width, 3, padding=1)
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.middle = nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.last = nn.Conv2d(2 * width, 1, 3, padding=1)
        self.norm = nn.GroupNorm(4, 2 * width)

    def forward(self, image: Any, level: Any) -> Any:
        angle = level[:, None] * (math.pi / 2)
        told = self.level(torch.cat([angle.sin(), angle.cos()], 1))[:, :, None, None]
        wide = F.silu(self.first(image) + told)
        deep = F.silu(self.norm(self.middle(F.silu(self.down(wide)))))
        return self.last(torch.cat([wide, self.up(deep)], 1))


def diffusion(width: int = 16) -> Problem:
    """A diffusion U-Net on the digits: how much noise is in an image? The noise is data, so that
    PyTorch sees the same."""
    images, _ = _digits()
    random = np.random.default_rng(5)
    level = random.random(len(images), dtype=np.float32)
    noise = random.standard_normal(images.shape, dtype=np.float32)

    def loss(model: Any, image: Any, level: Any, noise: Any) -> Any:
        angle = (level * (math.pi / 2))[:, None, None, None]
        mixed = angle.cos() * image + angle.sin() * noise
        return F.mse_loss(model(mixed, level), noise)

    return Problem(SmallUNet(width), loss, (images, level, noise), gg.AdamW(2e-3))


def graph() -> Problem:
    """A graph network: each digit takes part of its six nearest neighbors' features."""
    images, labels = _digits()
    points = images.reshape(len(images), -1)
    squares = (points**2).sum(1)
    gaps = squares[:, None] - 2 * points @ points.T + squares
    near = np.argsort(gaps, axis=1, kind="stable")[:, 1:7]

    class Neighbors(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self, width: int = 48) -> None:
            super().__init__()
            self.register_buffer("points", torch.from_numpy(points))
            self.register_buffer("near", torch.from_numpy(near.astype(np.int64)))
            self.own, self.theirs = nn.Linear(64, width), nn.Linear(64, width, bias=False)
            self.out = nn.Linear(width, 10)

        def forward(self, node: Any) -> Any:
            around = self.points[self.near[node]].mean(1)
            return self.out(F.relu(self.own(self.points[node]) + self.theirs(around)))

    nodes = np.arange(len(images), dtype=np.int64)
    return Problem(Neighbors(), F.cross_entropy, (nodes, labels), gg.AdamW(3e-3))


PROBLEMS: Final[dict[str, Callable[[], Problem]]] = {
    "convolutional": convolutional,
    "transformer": transformer,
    "text": text,
    "physics": physics,
    "diffusion": diffusion,
    "graph": graph,
}

LARGE: Final[dict[str, Callable[[], Problem]]] = {
    "transformer": partial(transformer, 640, 8),
    "text": partial(text, 384, 8),
    "diffusion": partial(diffusion, 288),
}
"""The same, so large that no task of `LARGE_MEMORY_BYTES` can hold a step of them: they are cut
into stages."""

LARGE_MEMORY_BYTES: Final = 64 * 2**20
