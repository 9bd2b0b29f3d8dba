"""Models: names, open extents, functions, branches, and bytes that are no model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")

import gpugoblin as gg  # noqa: E402
from gpugoblin.client.graph_command import graph  # noqa: E402
from gpugoblin.errors import CaptureError, ClientError, GoblinError  # noqa: E402
from tests.helpers.onnx_nodes import numbers  # noqa: E402

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(4, 2)).astype(np.float32)


def parsed(text: str) -> Any:
    return onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 21]>\n' + text)


def layer() -> Any:
    model = parsed("layer (float[N, 4] x) => (float[N, 2] y) { p = MatMul(x, w)\n y = Tanh(p) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(W, "w"))
    return model


def test_a_layer(tmp_path: Path) -> None:
    path = tmp_path / "layer.onnx"
    path.write_bytes(layer().SerializeToString())
    model = gg.from_onnx(path)
    assert (model.inputs, model.outputs) == (("x",), ("y",))
    for found in (model(X), model(x=gg.array(X)), gg.from_onnx(path.read_bytes())(X)):
        np.testing.assert_allclose(numbers(found)[0], np.tanh(X @ W), rtol=1e-5)
    assert "matmul(%0, %1" in str(model.graph())


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "layer.onnx"
    path.write_bytes(layer().SerializeToString())
    assert graph([str(path)]) == 0
    assert "float32[1, 4]  # x" in capsys.readouterr().out


def test_functions_of_onnx_and_of_the_model() -> None:
    swish = parsed("m (float[3, 4] x) => (float[3, 4] y) { y = Mish(x) }")
    expected = X * np.tanh(np.log1p(np.exp(X)))
    np.testing.assert_allclose(numbers(gg.from_onnx(swish.SerializeToString())(X))[0], expected,
                               rtol=1e-5)  # fmt: skip
    own = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 21, "own" : 1]>\n'
        "m (float[3, 4] x) => (float[3, 4] y) { y = own.half<factor: float = 0.5>(x) }\n"
        '<domain: "own", opset_import: ["" : 21]>\n'
        "half <factor>(a) => (b) { f = Constant<value_float: float = @factor>()\n b = Mul(a, f) }"
    )
    np.testing.assert_array_equal(numbers(gg.from_onnx(own.SerializeToString())(X))[0], X * 0.5)


def test_a_branch_that_is_known() -> None:
    model = parsed(
        "m (float[3, 4] x, bool c) => (float[3, 4] y) { y = If(c) <"
        "then_branch = t () => (float[3, 4] a) { a = Neg(x) },"
        "else_branch = e () => (float[3, 4] b) { b = Abs(x) }> }"
    )
    run = gg.from_onnx(model.SerializeToString())
    np.testing.assert_array_equal(numbers(run(X, np.array(True)))[0], -X)
    np.testing.assert_array_equal(numbers(run(X, np.array(False)))[0], np.abs(X))


def test_what_cannot_be_said_names_the_node_and_the_line() -> None:
    model = parsed("m (float[3] x) => (int64[N] y) { [find] y = NonZero(x) }")
    with pytest.raises(CaptureError, match=r"test_model.py.*NonZero.*depends on numbers") as caught:
        gg.from_onnx(model.SerializeToString())(X[0, :3])
    assert caught.value.code == "model_refused"
    unknown = parsed("m (float[3] x) => (float[3] y) { y = Nonsense(x) }")
    with pytest.raises(CaptureError, match="cannot say it"):
        gg.from_onnx(unknown.SerializeToString())(X[0, :3])


def test_wrong_arguments() -> None:
    model = gg.from_onnx(layer().SerializeToString())
    for wrong in (lambda: model(), lambda: model(X, X), lambda: model(z=X)):
        with pytest.raises(CaptureError, match="model_malformed"):
            wrong()
    with pytest.raises(CaptureError, match="shapes_differ"):
        model(X[:, :2])


def test_files_that_are_no_model(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="file_unreadable"):
        gg.from_onnx(tmp_path / "absent.onnx")
    outside = layer()
    tensor = outside.graph.initializer[0]
    tensor.data_location = 1
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "/etc/hostname"
    with pytest.raises(CaptureError, match="in another file"):
        gg.from_onnx(outside.SerializeToString())(X)
    short = layer()
    short.graph.initializer[0].raw_data = b"123"
    with pytest.raises(CaptureError, match="cannot be read"):
        gg.from_onnx(short.SerializeToString())(X)
    dangling = parsed("m (float[3] x) => (float[3] y) { y = Add(x, z) }")
    with pytest.raises(CaptureError, match="nothing makes the value 'z'"):
        gg.from_onnx(dangling.SerializeToString())(X[0, :3])
    old = layer()
    old.opset_import[0].version = 99
    with pytest.raises(CaptureError, match="opset is 99"):
        gg.from_onnx(old.SerializeToString())


@settings(max_examples=60, deadline=None)
@given(place=st.integers(0, 400), byte=st.integers(0, 255), cut=st.booleans())
def test_bytes_that_were_changed_never_do_worse_than_an_error(
    place: int, byte: int, cut: bool
) -> None:
    data = bytearray(layer().SerializeToString())
    place %= len(data)
    data[place] = byte
    try:
        gg.from_onnx(bytes(data[:place] if cut else data))(X)
    except GoblinError as error:
        code = error.code
    else:
        code = ""
    assert code in ("", "model_malformed", "model_refused", "shapes_differ", "argument_refused",
                    "dtype_refused", "dtypes_mixed")  # fmt: skip
