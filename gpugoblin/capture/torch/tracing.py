"""The rungs of the ladder: ways to get a functional graph of ATen operators from a program.

Owns: the calls into torch.export and make_fx, and what the placeholders of their graphs are. Must
not: lower anything, or run outside the child process: a trace that fails leaves torch spoiled.
"""

from __future__ import annotations

import contextlib
import operator as python_operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gpugoblin.capture.torch.families import lookup
from gpugoblin.capture.torch.functions import Calls, watched
from gpugoblin.capture.torch.library import load_torch
from gpugoblin.capture.torch.lines import every_frame
from gpugoblin.capture.torch.wrapping import Program

__all__ = ["RUNGS", "Apart", "Slot", "Traced", "has_decomposition", "replaced"]


Apart = frozenset[str]
"""Names of ATen operators, as `cross_entropy_loss.default`."""


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
        calls: of autograd.Functions.
    """

    graph: Any
    slots: tuple[Slot, ...]
    outputs: tuple[str, ...]
    module: Any
    calls: Calls = field(default_factory=list)


def _op_name(target: Any) -> str:
    """`add.Tensor` for torch.ops.aten.add.Tensor; other namespaces keep theirs."""
    name = str(target)
    return name.removeprefix("aten.")


def _kept(operator: Any, apart: Apart) -> bool:
    """Whether the lowering table takes an operator as it is."""
    name = _op_name(operator)
    return lookup(name) is not None and name not in apart


def has_decomposition(name: str) -> bool:
    """Whether torch can say an ATen operator, as `mse_loss.default`, by others."""
    torch = load_torch()
    base, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, base, None)
    operator = getattr(packet, overload or "default", None)
    if operator is None:
        return False
    return (
        operator in torch._decomp.decomposition_table
        or operator in torch.export.default_decompositions()
    )


def _table(apart: Apart) -> Any:
    """torch's decompositions, without what the lowering table says."""
    torch = load_torch()
    table = torch.export.default_decompositions()
    for operator in list(table):
        if _kept(operator, apart) and "backward" not in str(operator):
            table.pop(operator, None)
    return table


def _more(graph: Any, apart: Apart) -> dict[Any, Callable[..., Any]]:
    """Decompositions for operators that are left, where torch has one outside the default."""
    torch = load_torch()
    known = torch._decomp.decomposition_table
    left = {node.target for node in graph.nodes if node.op == "call_function"}
    return {
        target: known[target] for target in left if target in known and not _kept(target, apart)
    }


def _is_said(graph: Any, apart: Apart) -> bool:
    """Whether the lowering table takes every operator of a trace as it is, and none writes to an
    operand: then decompositions would trace it a second time, to the same graph."""
    torch = load_torch()
    for node in graph.nodes:
        if node.op == "call_function" and node.target is not python_operator.getitem:
            plain = isinstance(node.target, torch._ops.OpOverload)
            if not plain or node.target.namespace != "aten" or node.target._schema.is_mutable:
                return False
            if not _kept(node.target, apart):
                return False
        elif node.op not in ("call_function", "placeholder", "output"):
            return False
    return True


def _export(program: Program, apart: Apart, *, strict: bool) -> Traced:
    torch = load_torch()
    with _as_eager_knows():
        exported = _exported(program, strict)
    _without_gradients(exported)
    if _is_said(exported.graph, apart):
        return _of_export(program, exported)
    with torch.no_grad():
        exported = exported.run_decompositions(_table(apart))
        for _ in range(3):
            more = _more(exported.graph, apart)
            if not more:
                break
            exported = exported.run_decompositions(more)
    return _of_export(program, exported)


def _exported(program: Program, strict: bool) -> Any:
    """With gradients wanted, so that regions without are seen; programs that write to what wants
    gradients are traced without."""
    torch = load_torch()
    given = (program.module, program.args, program.kwargs)
    try:
        with torch.enable_grad():
            return torch.export.export(*given, strict=strict)
    except RuntimeError as error:
        if "grad" not in str(error):
            raise
        with torch.no_grad():
            return torch.export.export(*given, strict=strict)


def _without_gradients(exported: Any) -> None:
    """What a region under `torch.no_grad` gives is detached, before decompositions dissolve it."""
    torch = load_torch()
    graph = exported.graph
    for node in list(graph.nodes):
        if str(node.target) != "wrap_with_set_grad_enabled" or node.args[0] is not False:
            continue
        for part in list(node.users):
            tensor = part.meta.get("val")
            if tensor is None or not getattr(tensor, "is_floating_point", bool)():
                continue
            with graph.inserting_after(part):
                stopped = graph.call_function(torch.ops.aten.detach.default, (part,))
            stopped.meta.update(part.meta)
            part.replace_all_uses_with(stopped, lambda user, own=stopped: user is not own)
            for spec in exported.graph_signature.output_specs:
                if getattr(spec.arg, "name", None) == part.name:
                    spec.arg.name = stopped.name
    exported.graph_module.recompile()


@contextlib.contextmanager
def _unchecked_distributions() -> Iterator[None]:
    """torch.distributions looks at its arguments' numbers, which a trace has none of. The program
    has run before with the same ones, so they are admissible."""
    torch = load_torch()
    kind = torch.distributions.Distribution
    kept = kind._validate_args
    kind.set_default_validate_args(False)
    try:
        yield
    finally:
        kind.set_default_validate_args(kept)


@contextlib.contextmanager
def _plain_checkpoints() -> Iterator[None]:
    """A reentrant checkpoint hides its operators from the gradient; here it just calls."""
    from torch.utils.checkpoint import CheckpointFunction

    def called(function: Callable[..., Any], keeps_state: bool, *given: Any) -> Any:
        return function(*given)

    CheckpointFunction.apply = staticmethod(called)
    try:
        yield
    finally:
        del CheckpointFunction.apply


@contextlib.contextmanager
def _as_eager_knows() -> Iterator[None]:
    with every_frame(), _unchecked_distributions(), _plain_checkpoints():
        yield


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


def _make_fx(program: Program, apart: Apart, *, mode: Any) -> Traced:
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
        if not _kept(operator, apart)
    }
    leaves = [tensor.detach() for tensor in (state[name] for name in names)]
    with _math_attention(), torch.no_grad(), _as_eager_knows():
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


def _rung(trace: Callable[[Program, Apart], Traced]) -> Callable[[Program, Apart], Traced]:
    """With the calls of autograd.Functions written down."""

    def watching(program: Program, apart: Apart) -> Traced:
        calls: Calls = []
        with watched(calls):
            found = trace(program, apart)
        return replace(found, calls=calls)

    return watching


RUNGS: Final[tuple[tuple[str, Callable[[Program, Apart], Traced]], ...]] = (
    ("export", _rung(lambda program, apart: _export(program, apart, strict=False))),
    ("export strict", _rung(lambda program, apart: _export(program, apart, strict=True))),
    ("make_fx", _rung(lambda program, apart: _make_fx(program, apart, mode="fake"))),
    ("make_fx real", _rung(lambda program, apart: _make_fx(program, apart, mode="real"))),
)
"""From the best to the last resort. The second argument names the operators to be taken apart by
torch although there is a rule for them, as that rule refused what this program asks of them."""
