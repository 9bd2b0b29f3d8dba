"""`gg.from_onnx`: ONNX models as functions of lazy arrays.

Owns: the bounded reading of a model, the walk over its nodes, and the functions that ONNX defines
for operators without a handler. Must not: import `onnx` before it is used, run anything of a model,
or open a file that a model names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import numpy as np

from gpugoblin.capture.array import Array, as_value
from gpugoblin.capture.caller import NOWHERE, Place, caller
from gpugoblin.capture.convert import constant_value, source_value
from gpugoblin.capture.lower import lower
from gpugoblin.capture.onnx.node import Call, Handler
from gpugoblin.capture.onnx.types import NAMES
from gpugoblin.capture.source import NodeSource
from gpugoblin.catalog.spec import DTYPES, TensorSpec
from gpugoblin.errors import CaptureError, ClientError, GoblinError
from gpugoblin.graph.ir import Names, View

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_NODES", "OnnxModel", "from_onnx"]

MAX_BYTES: Final = 2**31 - 1
"""What one protobuf message can hold."""

MAX_NODES: Final = 65_536
MAX_DEPTH: Final = 16
"""Of function bodies and branches inside each other."""

_OPSETS: Final = (1, 28)
_DOMAINS: Final = ("", "ai.onnx")


def from_onnx(model: str | os.PathLike[str] | bytes) -> OnnxModel:
    """A model in ONNX's format as a function of arrays.

    `gg.from_onnx("model.onnx")(x)` is a lazy array, or a tuple where the model has several outputs.
    Weights inside the file become inputs of the job; shapes that the model leaves open are those of
    the arguments.

    Args:
        model: the path of a file, or its bytes. Needs the extra `onnx`.

    Raises:
        ClientError: `extra_missing`, `file_unreadable`.
        CaptureError: `model_malformed`, for bytes that are no model or over a limit.
    """
    place = caller()
    onnx = _onnx()
    name, data = _read(model)
    try:
        loaded = onnx.ModelProto.FromString(data)
    except Exception as cause:  # protobuf raises what its backend likes
        raise _malformed(place, name, str(cause) or "it is no protobuf message") from cause
    if not loaded.HasField("graph") or not loaded.opset_import:
        raise _malformed(place, name, "it holds no graph")
    if len(loaded.graph.node) > MAX_NODES:
        raise _malformed(place, name, f"it has more than {MAX_NODES} nodes")
    versions = {one.domain: one.version for one in loaded.opset_import}
    opset = versions.get("", versions.get("ai.onnx", 0))
    if not _OPSETS[0] <= opset <= _OPSETS[1]:
        known = f"{_OPSETS[0]} to {_OPSETS[1]}"
        raise _malformed(place, name, f"its opset is {opset}, and {known} are known")
    tops = (*loaded.graph.input, *loaded.graph.output, *loaded.graph.initializer)
    _require_text(place, name, [one.name for one in tops])
    return OnnxModel(loaded, name, opset)


@dataclass(frozen=True, slots=True, eq=False)
class OnnxModel:
    """A model, to be called with arrays in the order of its inputs, or by their names."""

    proto: Any
    name: str
    opset: int

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs without a value in the file, in order."""
        known = {one.name for one in self.proto.graph.initializer}
        return tuple(one.name for one in self.proto.graph.input if one.name not in known)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs, in order."""
        return tuple(one.name for one in self.proto.graph.output)

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """The outputs for these inputs: a lazy array, or a tuple of them.

        Raises:
            CaptureError: `model_refused`, naming the node that cannot be said; `model_malformed`;
                `argument_refused`.
        """
        place = caller()
        names = self.inputs
        given = dict(zip(names, arrays, strict=False)) | named
        if len(arrays) > len(names) or set(given) - {one.name for one in self.proto.graph.input}:
            raise _malformed(place, self.name, f"its inputs are {', '.join(names)}")
        missing = [name for name in names if name not in given]
        if missing:
            raise _malformed(place, self.name, f"the input {missing[0]} is not given")
        values = {key: Array(as_value(array, place)) for key, array in given.items()}
        found = _Walk(self, place).graph(self.proto.graph, values)
        return found[0] if len(found) == 1 else found

    def graph(self) -> View:
        """The graph of the model, with 1 for extents that it leaves open."""
        arrays = []
        for one in self.proto.graph.input:
            if one.name in self.inputs:
                arrays.append(_stand_in(one, self.name))
        found = self(*arrays)
        outputs = found if isinstance(found, tuple) else (found,)
        made = lower([array.value for array in outputs])
        return View(made.graph, Names(made.names.inputs, self.outputs, made.names.lines))


class _Walk:
    """One evaluation of a model on lazy arrays."""

    def __init__(self, model: OnnxModel, place: Place) -> None:
        self._model = model
        self._place = place
        self._depth = 0
        self._functions = {(one.domain, one.name): one for one in model.proto.functions}

    def graph(self, graph: Any, values: dict[str, Array]) -> tuple[Array, ...]:
        """The outputs of a graph; `values` may hold what surrounds it."""
        for tensor in graph.initializer:
            if tensor.name not in values:
                values[tensor.name] = self._weight(tensor)
        self._nodes(graph.node, values)
        return tuple(self._value(one.name, values) for one in graph.output)

    def _nodes(self, nodes: Any, values: dict[str, Array]) -> None:
        for node in nodes:
            words = (node.op_type, node.domain, node.name, *node.input, *node.output)
            _require_text(self._place, self._model.name, words)
            call = self._call(node, values)
            found = self._run(node, call)
            outputs = found if isinstance(found, tuple) else (found,)
            for name, array in zip(node.output, outputs, strict=False):
                if name and array is not None:
                    values[name] = array
            if any(name and name not in values for name in node.output):
                raise call.refused(
                    f"it has {len(node.output)} outputs, of which {len(outputs)} are said",
                    "Remove the others from the model.",
                )

    def _call(self, node: Any, values: Mapping[str, Array]) -> Call:
        inputs = [self._value(name, values) if name else None for name in node.input]
        attributes = {one.name: self._attribute(one) for one in node.attribute}
        used = max((n for n, name in enumerate(node.output, 1) if name), default=0)
        label = f"{node.op_type} {node.name!r}" if node.name else node.op_type

        def run(body: Any) -> tuple[Array, ...]:
            return self._inside(lambda: self.graph(body, dict(values)))

        return Call(
            node.op_type, inputs, attributes, self._model.opset, used, label, self._place, run
        )

    def _run(self, node: Any, call: Call) -> Any:
        from gpugoblin.capture.onnx.registry import HANDLERS

        own = self._functions.get((node.domain, node.op_type))
        if own is not None:
            return self._inside(lambda: self._function(own, call))
        handler = HANDLERS.get(node.op_type) if node.domain in _DOMAINS else None
        if node.op_type == "If" and node.domain in _DOMAINS:
            chosen = "then_branch" if bool(call.numbers(0).item()) else "else_branch"
            return call.run(call.get(chosen))
        found = None if handler is None else self._handled(handler, call)
        if found is not None:
            return found
        body = self._defined(node, call)
        if body is None:
            raise call.refused(
                "the catalog cannot say it", "Replace it in the model, or ask for it."
            )
        return self._inside(lambda: self._function(body, call))

    def _handled(self, handler: Handler, call: Call) -> Any:
        try:
            return handler(call)
        except CaptureError:
            raise
        except (GoblinError, ArithmeticError, LookupError, TypeError, ValueError) as cause:
            raise call.refused(
                f"it does not fit its inputs ({cause})", "Check the model with onnx.checker."
            ) from cause

    def _inside(self, work: Any) -> tuple[Any, ...]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _malformed(self._place, self._model.name, "its functions are too deep")
        try:
            found: tuple[Any, ...] = work()
        finally:
            self._depth -= 1
        return found

    def _function(self, body: Any, call: Call) -> tuple[Array | None, ...]:
        """The body of a function, with the node's attributes for those that it refers to; None for
        an output that it does not make here."""
        values = {
            name: array for name, array in zip(body.input, call.inputs, strict=False)
            if array is not None
        }  # fmt: skip
        missing = {name for name in body.input if name not in values}
        walk = _Bound(self._model, self._place, self._depth, call.attributes, missing)
        walk._functions = self._functions
        for one in body.attribute_proto:
            walk.attributes.setdefault(one.name, self._attribute(one))
        walk._nodes(body.node, values)
        return tuple(values.get(name) for name in body.output)

    def _defined(self, node: Any, call: Call) -> Any:
        """The function that ONNX defines an operator by; None where there is none."""
        onnx = _onnx()
        if node.domain not in _DOMAINS or not onnx.defs.has(node.op_type, node.domain):
            return None
        schema = onnx.defs.get_schema(node.op_type, self._model.opset, node.domain)
        try:
            if schema.has_function:
                return schema.function_body
            if schema.has_context_dependent_function:
                types = [self._type(array) for array in call.inputs]
                text = schema.get_context_dependent_function(node.SerializeToString(), types)
                return onnx.FunctionProto.FromString(text)
        except Exception as cause:  # onnx raises what its compiled half likes
            raise call.refused(f"ONNX has no body for it here ({cause})", "Replace it.") from cause
        return None

    def _type(self, array: Array | None) -> bytes:
        helper = import_module("onnx.helper")
        if array is None:
            return b""
        kind = next(number for number, name in NAMES.items() if name == str(array.dtype))
        made: bytes = helper.make_tensor_type_proto(kind, array.shape).SerializeToString()
        return made

    def _value(self, name: str, values: Mapping[str, Array]) -> Array:
        if name not in values:
            raise _malformed(self._place, self._model.name, f"nothing makes the value {name!r}")
        return values[name]

    def _weight(self, tensor: Any) -> Array:
        array = self._tensor(tensor)
        if array.size == 1:
            return Array(constant_value(array, self._place))
        return Array(as_value(array, self._place))

    def _tensor(self, tensor: Any) -> np.ndarray[Any, Any]:
        if tensor.data_location == 1 or tensor.external_data:
            raise _malformed(
                self._place, self._model.name, f"the numbers of {tensor.name!r} are in another file"
            )
        try:
            found: np.ndarray[Any, Any] = import_module("onnx.numpy_helper").to_array(tensor)
        except Exception as cause:  # onnx and NumPy raise what they like on wrong bytes
            reason = f"the numbers of {tensor.name!r} cannot be read ({cause})"
            raise _malformed(self._place, self._model.name, reason) from cause
        return found

    def _attribute(self, attribute: Any) -> Any:
        if attribute.type == 4:  # a tensor
            return self._tensor(attribute.t)
        value = import_module("onnx.helper").get_attribute_value(attribute)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


class _Bound(_Walk):
    """A walk inside of a function: attributes may refer to those of the node that calls it, and
    inputs may have been left out."""

    def __init__(
        self,
        model: OnnxModel,
        place: Place,
        depth: int,
        attributes: Mapping[str, Any],
        missing: set[str],
    ) -> None:
        super().__init__(model, place)
        self._depth = depth
        self.attributes = dict(attributes)
        self._missing = missing

    def _call(self, node: Any, values: Mapping[str, Array]) -> Call:
        clean = type(node)()
        clean.CopyFrom(node)
        kept = [one for one in node.attribute if not one.ref_attr_name]
        del clean.attribute[:]
        clean.attribute.extend(kept)
        for place, name in enumerate(node.input):
            if name in self._missing and name not in values:
                clean.input[place] = ""
        call = super()._call(clean, values)
        bound = {
            one.name: self.attributes[one.ref_attr_name]
            for one in node.attribute
            if one.ref_attr_name in self.attributes and one.ref_attr_name
        }
        return Call(
            call.operator, call.inputs, {**call.attributes, **bound}, call.opset, call.outputs,
            call.name, call.place, call.run,
        )  # fmt: skip


def _stand_in(value: Any, name: str) -> Array:
    kind = value.type.tensor_type
    dtype = NAMES.get(kind.elem_type, "")
    if dtype not in DTYPES:
        raise _malformed(NOWHERE, name, f"the input {value.name} is {dtype or 'no tensor'}")
    shape = tuple(int(one.dim_value) or 1 for one in kind.shape.dim)
    return Array(source_value(NodeSource("", "", TensorSpec(dtype, shape), value.name, value.name)))


def _read(model: str | os.PathLike[str] | bytes) -> tuple[str, bytes]:
    if isinstance(model, bytes):
        return "the model", model
    path = os.fspath(model)
    try:
        size = os.stat(path).st_size
        if size > MAX_BYTES:
            raise ClientError("file_unreadable", path=path, reason=f"it has {size} bytes")
        with open(path, "rb") as file:
            return path, file.read(MAX_BYTES)
    except OSError as cause:
        raise ClientError("file_unreadable", path=path, reason=str(cause)) from cause


def _onnx() -> Any:
    try:
        return import_module("onnx")
    except ImportError as cause:
        raise ClientError("extra_missing", package="onnx", extra="onnx") from cause


def _require_text(place: Place, name: str, words: Sequence[Any]) -> None:
    """protobuf gives what is no UTF-8 as bytes."""
    wrong = next((word for word in words if not isinstance(word, str)), None)
    if wrong is not None:
        raise _malformed(place, name, f"the name {wrong[:40]!r} is no text")


def _malformed(place: Place, name: str, reason: str) -> CaptureError:
    return CaptureError("model_malformed", line=place, name=name, reason=reason)
