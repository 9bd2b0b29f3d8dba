"""Twenty programs, each written for the array front end, for JAX, for ONNX and for PyTorch.

The versions for JAX and PyTorch take their module first, so that this file needs none of the
extras.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import gpugoblin as gg

__all__ = ["PROGRAMS", "Program"]

_RANDOM = np.random.default_rng(7)


def _normal(*shape: int) -> np.ndarray[Any, Any]:
    return _RANDOM.normal(size=shape).astype(np.float32)


X, W, B, V = _normal(4, 6), _normal(6, 5), _normal(5), _normal(5, 3)
Y, SCALE, SHIFT = _normal(7, 6), _normal(6), _normal(6)
IMAGE, KERNEL, BIAS = _normal(2, 3, 8, 8), _normal(4, 3, 3, 3), _normal(4)
MEAN, VARIANCE = _normal(3), np.abs(_normal(3)) + 1
QUERY, KEY, VALUE = _normal(2, 5, 8), _normal(2, 7, 8), _normal(2, 7, 8)
FACTOR = np.float32(0.35355338)
PLACES = np.array([2, 0, 3], np.int32)


@dataclass(frozen=True, slots=True)
class Program:
    """Args:
    inputs: arrays, in the order of all versions.
    array, jax, torch: the program; the last two take the module first.
    onnx: the body of its graph, over a, b, c ... and with the result z.
    """

    inputs: tuple[np.ndarray[Any, Any], ...]
    array: Callable[..., gg.Array]
    jax: Callable[..., Any]
    onnx: str
    torch: Callable[..., Any]


def _heads_array(q: gg.Array, k: gg.Array, v: gg.Array) -> gg.Array:
    q, k, v = (
        gg.permute_dims(gg.reshape(x, (2, x.shape[1], 2, 4)), (0, 2, 1, 3)) for x in (q, k, v)
    )
    found = gg.softmax(q @ gg.permute_dims(k, (0, 1, 3, 2)) * 0.5) @ v
    return gg.reshape(gg.permute_dims(found, (0, 2, 1, 3)), (2, 5, 8))


def _heads_jax(jax: Any, q: Any, k: Any, v: Any) -> Any:
    q, k, v = (x.reshape(2, x.shape[1], 2, 4).transpose(0, 2, 1, 3) for x in (q, k, v))
    found = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) * 0.5) @ v
    return found.transpose(0, 2, 1, 3).reshape(2, 5, 8)


def _heads_torch(torch: Any, q: Any, k: Any, v: Any) -> Any:
    q, k, v = (x.reshape(2, -1, 2, 4).transpose(1, 2) for x in (q, k, v))
    found = torch.softmax(q @ k.mT * 0.5, -1) @ v
    return found.transpose(1, 2).reshape(2, 5, 8)


_HEADS = "".join(
    f"s{n} = Constant<value_ints = [2, {length}, 2, 4]>() r{n} = Reshape({n}, s{n}) "
    f"{n}t = Transpose<perm = [0, 2, 1, 3]>(r{n}) "
    for n, length in (("a", 5), ("b", 7), ("c", 7))
) + (
    "u = Transpose<perm = [0, 1, 3, 2]>(bt) p = MatMul(at, u) f = Constant<value_float = 0.5>() "
    "m = Mul(p, f) e = Softmax(m) o = MatMul(e, ct) y = Transpose<perm = [0, 2, 1, 3]>(o) "
    "w = Constant<value_ints = [2, 5, 8]>() z = Reshape(y, w)"
)


def _centered(jax: Any, x: Any) -> Any:
    away = x - x.mean(-1, keepdims=True)
    return away * jax.lax.rsqrt((away * away).mean(-1, keepdims=True) + 1e-5)


def _conv(jax: Any, x: Any, k: Any, b: Any, stride: int) -> Any:
    found = jax.lax.conv_general_dilated(x, k, (stride, stride), [(1, 1), (1, 1)])
    return found + b.reshape(4, 1, 1)


def _relu(jax: Any, x: Any) -> Any:
    return jax.numpy.where(x <= 0, 0.0, x)


PROGRAMS: dict[str, Program] = {
    "layer": Program(
        (X, W, B), lambda x, w, b: gg.tanh(x @ w + b),
        lambda jax, x, w, b: jax.numpy.tanh(x @ w + b),
        "p = MatMul(a, b) q = Add(p, c) z = Tanh(q)",
        lambda torch, x, w, b: torch.tanh(x @ w + b),
    ),
    "perceptron": Program(
        (X, W, B, V), lambda x, w, b, v: gg.nn.relu(x @ w + b) @ v,
        lambda jax, x, w, b, v: _relu(jax, x @ w + b) @ v,
        "p = Gemm(a, b, c) q = Relu(p) z = MatMul(q, d)",
        lambda torch, x, w, b, v: torch.relu(x @ w + b) @ v,
    ),
    "softmax": Program(
        (X,), lambda x: gg.softmax(x, axis=0), lambda jax, x: jax.nn.softmax(x, axis=0),
        "z = Softmax<axis = 0>(a)",
        lambda torch, x: torch.softmax(x, 0),
    ),
    "log softmax": Program(
        (X,), gg.nn.log_softmax, lambda jax, x: jax.nn.log_softmax(x), "z = LogSoftmax(a)",
        lambda torch, x: torch.log_softmax(x, -1),
    ),
    "layer norm": Program(
        (X, SCALE, SHIFT), lambda x, s, t: gg.nn.layer_norm(x, scale=s, shift=t),
        lambda jax, x, s, t: _centered(jax, x) * s + t, "z = LayerNormalization(a, b, c)",
        lambda torch, x, s, t: torch.nn.functional.layer_norm(x, (6,), s, t),
    ),
    "rms norm": Program(
        (X, SCALE), lambda x, s: gg.nn.rms_norm(x, scale=s),
        lambda jax, x, s: x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * s,
        "z = RMSNormalization(a, b)",
        lambda torch, x, s: torch.nn.functional.rms_norm(x, (6,), s, 1e-5),
    ),
    "attention": Program(
        (QUERY, KEY, VALUE), lambda q, k, v: gg.softmax(q @ k.mT * float(FACTOR)) @ v,
        lambda jax, q, k, v: jax.nn.softmax(q @ k.transpose(0, 2, 1) * FACTOR) @ v,
        "t = Transpose<perm = [0, 2, 1]>(b) p = MatMul(a, t) "
        "f = Constant<value_float = 0.35355338>() m = Mul(p, f) e = Softmax(m) z = MatMul(e, c)",
        lambda torch, q, k, v: torch.softmax(q @ k.mT * float(FACTOR), -1) @ v,
    ),
    "attention in heads": Program(
        (QUERY, KEY, VALUE), _heads_array, _heads_jax, _HEADS, _heads_torch,
    ),
    "convolution": Program(
        (IMAGE, KERNEL, BIAS),
        lambda x, k, b: gg.nn.relu(gg.nn.conv(x, k, bias=b, padding=1)),
        lambda jax, x, k, b: _relu(jax, _conv(jax, x, k, b, 1)),
        "p = Conv<pads = [1, 1, 1, 1]>(a, b, c) z = Relu(p)",
        lambda torch, x, k, b: torch.relu(torch.conv2d(x, k, b, padding=1)),
    ),
    "convolution and mean": Program(
        (IMAGE, KERNEL, BIAS),
        lambda x, k, b: gg.mean(gg.nn.conv(x, k, bias=b, padding=1, stride=2), axis=(2, 3)),
        lambda jax, x, k, b: _conv(jax, x, k, b, 2).mean((2, 3)),
        "p = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(a, b, c) q = GlobalAveragePool(p) "
        "z = Flatten(q)",
        lambda torch, x, k, b: torch.conv2d(x, k, b, 2, 1).mean((2, 3)),
    ),
    "max pool": Program(
        (IMAGE,), lambda x: gg.nn.max_pool(x, (2, 2)),
        lambda jax, x: jax.lax.reduce_window(
            x, -np.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"
        ),
        "z = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(a)",
        lambda torch, x: torch.max_pool2d(x, 2),
    ),
    "batch norm": Program(
        (IMAGE, MEAN, VARIANCE, MEAN, VARIANCE),
        lambda x, s, t, m, v: gg.nn.batch_norm(x, m, v, scale=s, shift=t),
        lambda jax, x, s, t, m, v: (x - m.reshape(3, 1, 1))
        * jax.lax.rsqrt(v.reshape(3, 1, 1) + 1e-5) * s.reshape(3, 1, 1) + t.reshape(3, 1, 1),
        "z = BatchNormalization(a, b, c, d, e)",
        lambda torch, x, s, t, m, v: torch.nn.functional.batch_norm(x, m, v, s, t),
    ),
    "gelu": Program(
        (X,), lambda x: x * 0.5 * (1.0 + gg.erf(x * 0.70710677)),
        lambda jax, x: x * 0.5 * (1.0 + jax.lax.erf(x * 0.70710677)),
        "h = Constant<value_float = 0.5>() g = Constant<value_float = 0.70710677>() "
        "o = Constant<value_float = 1.0>() p = Mul(a, h) q = Mul(a, g) r = Erf(q) s = Add(o, r) "
        "z = Mul(p, s)",
        lambda torch, x: x * 0.5 * (1.0 + torch.erf(x * 0.70710677)),
    ),
    "silu": Program(
        (X,), gg.nn.silu, lambda jax, x: jax.nn.silu(x), "s = Sigmoid(a) z = Mul(a, s)",
        lambda torch, x: torch.nn.functional.silu(x),
    ),
    "unit rows": Program(
        (X,), lambda x: x / gg.sqrt(gg.sum(x * x, axis=1, keepdims=True)),
        lambda jax, x: x / jax.numpy.sqrt((x * x).sum(1, keepdims=True)),
        "n = ReduceL2<axes = [1]>(a) z = Div(a, n)",
        lambda torch, x: x / torch.sqrt((x * x).sum(1, keepdim=True)),
    ),
    "squared error": Program(
        (X, X * 0.5), gg.nn.mse, lambda jax, x, y: ((x - y) * (x - y)).mean(),
        "d = Sub(a, b) s = Mul(d, d) z = ReduceMean<keepdims = 0>(s)",
        lambda torch, x, y: torch.nn.functional.mse_loss(x, y),
    ),
    "distances": Program(
        (X, Y),
        lambda x, y: gg.sum(x * x, axis=1)[:, None] + gg.sum(y * y, axis=1) - x @ y.T * 2.0,
        lambda jax, x, y: (x * x).sum(1)[:, None] + (y * y).sum(1) - x @ y.T * 2.0,
        "s = Mul(a, a) t = Mul(b, b) p = ReduceSumSquare<axes = [1]>(a) u = Mul(b, b) "
        "q = ReduceSumSquare<axes = [1], keepdims = 0>(b) r = Add(p, q) y = Transpose(b) "
        "m = MatMul(a, y) two = Constant<value_float = 2.0>() n = Mul(m, two) z = Sub(r, n)",
        lambda torch, x, y: (x * x).sum(1)[:, None] + (y * y).sum(1) - x @ y.T * 2.0,
    ),
    "residual": Program(
        (X, W, V), lambda x, w, v: x + gg.tanh(x @ w) @ gg.permute_dims(w, (1, 0)),
        lambda jax, x, w, v: x + jax.numpy.tanh(x @ w) @ w.T,
        "p = MatMul(a, b) q = Tanh(p) t = Transpose(b) r = MatMul(q, t) z = Add(a, r)",
        lambda torch, x, w, v: x + torch.tanh(x @ w) @ w.T,
    ),
    "chosen": Program(
        (X,), lambda x: gg.where(x > 0.0, gg.exp(-x), x * x),
        lambda jax, x: jax.numpy.where(x > 0.0, jax.numpy.exp(-x), x * x),
        "o = Constant<value_float = 0.0>() c = Greater(a, o) n = Neg(a) p = Exp(n) q = Mul(a, a) "
        "z = Where(c, p, q)",
        lambda torch, x: torch.where(x > 0.0, torch.exp(-x), x * x),
    ),
    "rows": Program(
        (X, PLACES), lambda x, i: gg.take(x, i, axis=0),
        lambda jax, x, i: x.take(i, axis=0), "z = Gather(a, b)",
        lambda torch, x, i: x[i],
    ),
}  # fmt: skip
