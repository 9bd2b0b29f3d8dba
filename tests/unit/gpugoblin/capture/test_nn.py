"""Layers: what they mean, and that each is one operator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.capture.lower import lower
from gpugoblin.errors import CaptureError
from tests.helpers.lazy import agree

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(4, 6)).astype(np.float32)
SCALE, SHIFT = RANDOM.normal(size=(2, 6)).astype(np.float32)


def soft(x: np.ndarray[Any, Any], axis: int = -1) -> np.ndarray[Any, Any]:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def operators(array: gg.Array) -> list[str]:
    return [node.operator for node in lower([array.value]).graph.nodes]


def test_softmax() -> None:
    agree(gg.softmax(X * 1000, axis=0), soft(X * 1000, 0))
    agree(gg.nn.log_softmax(X), np.log(soft(X)))
    assert operators(gg.nn.softmax(X)) == ["softmax"]
    agree(gg.nn.logsumexp(X * 100, axis=1), np.logaddexp.reduce(X * 100, axis=1))
    agree(gg.nn.logsumexp(X), np.logaddexp.reduce(X, axis=None))
    nothing = np.full(3, -np.inf, np.float32)
    agree(gg.nn.logsumexp(nothing, keepdims=True), [-np.inf])


def test_activations() -> None:
    positive = X > 0
    agree(gg.nn.relu(X), np.where(positive, X, 0))
    agree(gg.nn.leaky_relu(X, 0.2), np.where(positive, X, 0.2 * X))
    agree(gg.nn.elu(X, 2.0), np.where(positive, X, 2 * np.expm1(X)))
    agree(gg.nn.softplus(X * 100), np.logaddexp(0, X * 100))
    agree(gg.nn.silu(X), X / (1 + np.exp(-X)))
    erf = np.vectorize(math.erf)
    agree(gg.nn.gelu(X), X * (1 + erf(X / np.sqrt(2))) / 2)
    inner = np.sqrt(2 / np.pi) * (X + 0.044715 * X**3)
    agree(gg.nn.gelu(X, approximation="tanh"), X * (1 + np.tanh(inner)) / 2)


def test_norms() -> None:
    centered = X - X.mean(-1, keepdims=True)
    normal = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
    agree(gg.nn.layer_norm(X), normal)
    agree(gg.nn.layer_norm(X, scale=SCALE, shift=SHIFT), normal * SCALE + SHIFT)
    unit = X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-3)
    agree(gg.nn.rms_norm(X, scale=SCALE, epsilon=1e-3), unit * SCALE)
    mean, variance = X.mean(0), X.var(0)
    agree(gg.nn.batch_norm(X, mean, variance, scale=SCALE, shift=SHIFT),
          (X - mean) / np.sqrt(variance + 1e-5) * SCALE + SHIFT)  # fmt: skip
    grouped = X.reshape(4, 2, 3)
    expected = (grouped - grouped.mean(2, keepdims=True)) / np.sqrt(
        grouped.var(2, keepdims=True) + 1e-5
    )
    agree(gg.nn.group_norm(X, 2), expected.reshape(4, 6))
    with pytest.raises(CaptureError, match="without a scale"):
        gg.nn.layer_norm(X, shift=SHIFT)


def test_attention() -> None:
    q, k, v = RANDOM.normal(size=(3, 2, 5, 4)).astype(np.float32)
    scores = q @ k.transpose(0, 2, 1) / 2
    agree(gg.nn.attention(q, k, v), soft(scores) @ v)
    seen = np.tril(np.ones((5, 5), bool))
    hidden = np.where(seen, scores, -np.inf)
    agree(gg.nn.attention(q, k, v, causal=True), soft(hidden) @ v)
    agree(gg.nn.attention(q, k, v, mask=seen), soft(hidden) @ v)
    agree(gg.nn.attention(q, k, v, scale=1.0), soft(scores * 2) @ v)


def test_losses() -> None:
    labels = np.array([0, 5, 2, -100])
    expected = -np.log(soft(X))[np.arange(4), labels.clip(0)] * (labels >= 0)
    agree(gg.nn.cross_entropy(X, labels), expected)
    agree(gg.nn.mse(X, X * 2), (X**2).mean())
    agree(gg.nn.one_hot(labels[:3], 6), np.eye(6)[labels[:3]])
    agree(gg.nn.linear(X, X, np.ones(4, np.float32)), X @ X.T + 1)


def test_windows() -> None:
    image = RANDOM.normal(size=(1, 2, 4, 4)).astype(np.float32)
    kernel = RANDOM.normal(size=(3, 2, 1, 1)).astype(np.float32)
    bias = np.array([1, 2, 3], np.float32)
    expected = np.einsum("nchw,oc->nohw", image, kernel[..., 0, 0]) + bias[:, None, None]
    agree(gg.nn.conv(image, kernel, bias=bias), expected)
    tiles = image.reshape(1, 2, 2, 2, 2, 2)
    agree(gg.nn.max_pool(image, (2, 2)), tiles.max((3, 5)))
    agree(gg.nn.average_pool(image, (2, 2)), tiles.mean((3, 5)))
    assert gg.nn.conv(image, kernel, stride=2, padding=[(0, 1), (1, 0)]).shape == (1, 3, 3, 3)
    assert gg.nn.max_pool(image, (3, 3), stride=1, padding=1).shape == (1, 2, 4, 4)
    with pytest.raises(CaptureError, match="argument_refused"):
        gg.nn.conv(image[0, 0], kernel)
