"""The rungs of the ladder: ways to get a functional graph of ATen operators from a program.

Owns: the calls into torch.export and make_fx, and what the placeholders of their graphs are. Must
not: lower anything, or run outside the child process: a trace that fails leaves torch spoiled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from gpugoblin.capture.torch.families import lookup
from gpugoblin.capture.torch.library import load_torch
from gpugoblin.capture.torch.lines import every_frame
from gpugoblin.capture.torch.wrapping import Program

__all__ = ["RUNGS", "Slot", "Traced", "replaced"]


@dataclass(frozen=True, slots=True)
class Slot:
    """One placeholder: its kind (`argument`, `parameter`, `buffer`, `constant`, `none`), the name
    of what it stands for, and that tensor."""

    kind: str
    name: str
    tensor: Any


@dataclass(frozen=True, slots=True)
class Traced:
    """A graph of ATen operators.

    Args:
        graph: torch.fx; its placeholders are `slots`, in order.
        outputs: what its outputs are: "" for a result, else the name of the buffer that gets it.
        module: the graph's own module, which holds what `get_attr` reads.
    """

    graph: Any
    slots: tuple[Slot, ...]
    outputs: tuple[str, ...]
    module: Any


def _op_name(target: Any) -> str:
    """`add.Tensor` for torch.ops.aten.add.Tensor; other namespaces keep theirs."""
    name = str(target)
    return name.removeprefix("aten.")


def _table() -> Any:
    """torch's decompositions, without what the lowering table says."""
    torch = load_torch()
    table = torch.export.default_decompositions()
    for operator in list(table):
        if lookup(_op_name(operator)) is not None and "backward" not in str(operator):
            table.pop(operator, None)
    return table


def _more(graph: Any) -> dict[Any, Callable[..., Any]]:
    """Decompositions for operators that are left, where torch has one outside the default."""
    torch = load_torch()
    known = torch._decomp.decomposition_table
    left = {node.target for node in graph.nodes if node.op == "call_function"}
    return {
        target: known[target]
        for target in left
        if target in known and lookup(_op_name(target)) is None
    }


def _export(program: Program, *, strict: bool) -> Traced:
    torch = load_torch()
    with torch.no_grad():
        with every_frame():
            exported = torch.export.export(
                program.module, program.args, program.kwargs, strict=strict
            )
        exported = exported.run_decompositions(_table())
        for _ in range(3):
            more = _more(exported.graph)
            if not more:
                break
            exported = exported.run_decompositions(more)
    return _of_export(program, exported)


def _of_export(program: Program, exported: Any) -> Traced:
    signature = exported.graph_signature
    state = {**dict(exported.state_dict), **dict(exported.constants)}
    tensors = iter(program.tensors)
    slots = []
    for spec in signature.input_specs:
        kind = spec.kind.name
        if kind == "USER_INPUT":
            is_tensor = type(spec.arg).__name__ == "TensorArgument"
            name, tensor = next(tensors) if is_tensor else ("", None)
            slots.append(Slot("argument" if is_tensor else "none", name, tensor))
            continue
        tensor = state.get(spec.target)
        name = str(spec.target).removeprefix(program.prefix)
        kinds = {"PARAMETER": "parameter", "BUFFER": "buffer"}
        slots.append(Slot(kinds.get(kind, "constant"), name, tensor))
    outputs = tuple(
        str(spec.target).removeprefix(program.prefix) if spec.kind.name == "BUFFER_MUTATION" else ""
        for spec in signature.output_specs
        if spec.kind.name in ("USER_OUTPUT", "BUFFER_MUTATION", "LOSS_OUTPUT")
    )
    return Traced(exported.graph, tuple(slots), outputs, exported.graph_module)


def _make_fx(program: Program, *, mode: Any) -> Traced:
    """Runs the program on tensors that write down what is done to them; gradients that are taken
    inside it are written down too."""
    torch = load_torch()
    from torch.fx.experimental.proxy_tensor import make_fx

    state = {program.prefix + name: tensor for name, tensor in program.state().items()}
    distinct = {id(tensor): name for name, tensor in state.items()}
    names = list(distinct.values())
    arguments = [tensor for _, tensor in program.tensors]

    def call(state_list: list[Any], given: list[Any]) -> tuple[Any, ...]:
        args, kwargs = replaced((program.args, program.kwargs), iter(given))
        found = dict(zip(names, state_list, strict=True))
        return tuple(
            torch.func.functional_call(program.module, found, args, kwargs, tie_weights=True)
        )

    table = {
        operator: rule
        for operator, rule in torch._decomp.decomposition_table.items()
        if lookup(_op_name(operator)) is None
    }
    leaves = [tensor.detach() for tensor in (state[name] for name in names)]
    with _math_attention(), torch.no_grad(), every_frame():
        functional = torch.func.functionalize(call, remove="mutations_and_views")
        module = make_fx(
            functional,
            decomposition_table=table,
            tracing_mode=mode,
            _allow_non_fake_inputs=True,
            record_stack_traces=True,
        )(leaves, arguments)
    module.graph.eliminate_dead_code()
    parameters = dict(program.module.named_parameters(remove_duplicate=False))
    slots = [
        Slot(
            "parameter" if name in parameters else "buffer",
            name[len(program.prefix) :],
            state[name],
        )
        for name in names
    ]
    slots.extend(Slot("argument", name, tensor) for name, tensor in program.tensors)
    count = len(list(module.graph.output_node().all_input_nodes))
    return Traced(module.graph, tuple(slots), ("",) * count, module)


def replaced(given: Any, tensors: Iterator[Any]) -> Any:
    """The same nest of containers with the tensors exchanged, in the order of `named_tensors`."""
    torch = load_torch()
    if isinstance(given, torch.Tensor):
        return next(tensors)
    if isinstance(given, dict):
        return {key: replaced(value, tensors) for key, value in given.items()}
    if isinstance(given, tuple) and hasattr(given, "_fields"):
        return type(given)(*(replaced(value, tensors) for value in given))
    if isinstance(given, list | tuple):
        return type(given)(replaced(value, tensors) for value in given)
    return given


@contextlib.contextmanager
def _math_attention() -> Iterator[None]:
    """The fused attention's backward is fed what its decomposed forward no longer makes: torch
    then gives wrong gradients without an error. The plain one is right."""
    torch = load_torch()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        yield


RUNGS: Final[tuple[tuple[str, Callable[[Program], Traced]], ...]] = (
    ("export", lambda program: _export(program, strict=False)),
    ("export strict", lambda program: _export(program, strict=True)),
    ("make_fx", lambda program: _make_fx(program, mode="fake")),
    ("make_fx real", lambda program: _make_fx(program, mode="real")),
)
"""From the best to the last resort."""
