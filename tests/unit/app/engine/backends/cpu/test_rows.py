"""The compiled loops, and that the kernels give the same with and without them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from app.engine.backends.cpu import activating, attending, normalizing
from app.engine.backends.cpu.rows import ROWS, Rows, ready
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import Array, Attributes

UNIT = 2.0**-24


@pytest.fixture
def rows() -> Rows:
    if ROWS is None:
        pytest.skip("the loops were not compiled: there was no C compiler")
    return ROWS


def drawn(*shape: int, seed: int = 1, scale: float = 1.0) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


@pytest.mark.parametrize("count", [1, 5, 16, 100, 4096, 4097, 9000])
def test_powers_of_a_row(rows: Rows, count: int) -> None:
    scores = drawn(3, count, scale=5.0)
    wide = scores.astype(np.float64) * 0.5
    wanted = np.exp(wide - wide.max(axis=1, keepdims=True))
    sums = np.empty(3, np.float32)
    rows.powers(scores, 0.5, sums)
    np.testing.assert_allclose(scores, wanted, rtol=6e-6, atol=2.0**-126)
    np.testing.assert_allclose(sums, wanted.sum(axis=1), rtol=6e-6)


def test_powers_are_those_of_exp(rows: Rows) -> None:
    line = np.linspace(-87.3, 0.0, 100_001).astype(np.float32)
    found, sums = line.reshape(1, -1).copy(), np.empty(1, np.float32)
    rows.powers(found, 1.0, sums)
    wanted = np.exp(line.astype(np.float64))
    assert float(np.max(np.abs(found[0] - wanted) / (wanted * UNIT))) < 4.0


def test_edges_of_powers(rows: Rows) -> None:
    lines = np.array(
        [[0.0, -1e30, -math.inf, -200.0], [math.nan, 0.0, 1.0, 2.0], [-math.inf] * 4,
         [math.inf, 0.0, 0.0, 0.0]], np.float32,
    )  # fmt: skip
    sums = np.empty(4, np.float32)
    rows.powers(lines, 1.0, sums)
    assert lines[0].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert sums[0] == 1.0
    assert np.isnan(sums[1:]).all()


@pytest.mark.parametrize("count", [1, 7, 1024, 5000])
@pytest.mark.parametrize("given", [0, 1, 2])
def test_layer_norm(rows: Rows, count: int, given: int) -> None:
    source = drawn(4, count, scale=3.0) + np.float32(100.0)
    lines = [drawn(count, seed=seed) for seed in (2, 3)][:given]
    out = np.empty_like(source)
    rows.layer_norm(source, out, 1e-3, *[*lines, None, None][:2])
    wide = source.astype(np.float64)
    centered = wide - wide.mean(axis=1, keepdims=True)
    wanted = centered / np.sqrt((centered**2).mean(axis=1, keepdims=True) + 1e-3)
    wanted = wanted * lines[0] if lines else wanted
    wanted = wanted + lines[1] if given == 2 else wanted
    np.testing.assert_allclose(out, wanted, rtol=3e-4, atol=3e-4)


@pytest.fixture(params=["compiled", "numpy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "compiled" and ROWS is None:
        pytest.skip("the loops were not compiled: there was no C compiler")
    if request.param == "numpy":
        for module in (activating, attending, normalizing):
            monkeypatch.setattr(module, "ROWS", None)


def evaluated(kernel: object, key: str, reads: list[Array], given: dict[str, object]) -> Array:
    attributes: Attributes = given  # type: ignore[assignment]
    wanted = get(key).reference([one.astype(np.float64) for one in reads], attributes)[0]
    out = np.full(wanted.shape, np.nan, np.float32)
    pool = Pool(2)
    try:
        with np.errstate(all="ignore"):  # as the engine has it
            kernel(reads, [out], attributes, Context(pool))  # type: ignore[operator]
    finally:
        pool.close()
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=2e-6)
    return out


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("approximation", ["none", "tanh"])
def test_gelu_either_way(approximation: str) -> None:
    lines = [np.linspace(-12, 12, 70_001), [0.0, -0.0, 1e30, -1e30, 1e-40, 300.0, -300.0]]
    source = np.concatenate(lines).astype(np.float32)
    out = evaluated(activating.gelu, "gelu", [source], {"approximation": approximation})
    np.testing.assert_array_equal(out[-6:-4], np.array([-0.0, 1e30], np.float32))
    edges = np.array([math.nan, math.inf], np.float32)
    found = evaluated(activating.gelu, "gelu", [edges], {"approximation": approximation})
    assert np.isnan(found[0])
    assert found[1] == math.inf


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("axes", "shapes"),
    [
        ((2,), [(7,), (7,)]), ((1, 2), [(5, 7), (7,)]), ((1,), [(1, 5, 1), (5, 1)]),
        ((2,), [(3, 1, 7)]), ((0, 1, 2), []),
    ],
)  # fmt: skip
def test_layer_norm_either_way(axes: tuple[int, ...], shapes: list[tuple[int, ...]]) -> None:
    rest = [drawn(*shape, seed=place) for place, shape in enumerate(shapes)]
    reads = [drawn(3, 5, 7, scale=2.0), np.array(1e-3, np.float32), *rest]
    evaluated(normalizing.layer_norm, "layer_norm", reads, {"axes": axes})


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", [None, "bool", "float32"])
def test_attention_either_way(causal: bool, mask: str | None) -> None:
    reads = [drawn(2, 6, 4), drawn(2, 9, 4, seed=2), drawn(2, 9, 3, seed=3)]
    reads.append(np.array(0.5, np.float32))
    if mask == "bool":
        reads.append(np.tri(6, 9, 2) > 0)
    elif mask == "float32":
        reads.append(drawn(6, 9, seed=4))
    query, key, value, scale, *masks = reads
    attributes: Attributes = {"causal": causal}
    wide = [one.astype(np.float64) for one in (query, key, value, scale)]
    more = [one if one.dtype == np.bool_ else one.astype(np.float64) for one in masks]
    wanted = get("attention").reference([*wide, *more], attributes)[0]
    out = np.full(wanted.shape, np.nan, np.float32)
    pool = Pool(1)
    try:
        attending.attention(reads, [out], attributes, Context(pool))
    finally:
        pool.close()
    np.testing.assert_allclose(out, wanted, rtol=2e-6, atol=1e-6)


def test_what_the_loops_can_read() -> None:
    plain = drawn(4, 6)
    assert ready(plain, plain[1:])
    assert not ready(plain[:, 1:])
    assert not ready(plain.astype(np.float64))
    assert not ready(np.zeros(9, np.uint8)[1:].view(np.float32))
