"""Every rung of the ladder gives the program, with its weights by name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpugoblin.capture.torch.capturing import quietly
from gpugoblin.capture.torch.compare import difference, run_graph
from gpugoblin.capture.torch.isolation import isolated
from gpugoblin.capture.torch.library import load_tracers
from gpugoblin.capture.torch.lowering import lower_trace
from gpugoblin.capture.torch.running import eager, tensors_of
from gpugoblin.capture.torch.tracing import RUNGS
from gpugoblin.capture.torch.wrapping import make_program
from tests.helpers.torch_programs import numbers, torch_or_skip

torch = torch_or_skip()


class Counted(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A weight, and buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        self.norm = torch.nn.BatchNorm1d(3)

    def forward(self, x: object) -> object:
        return torch.relu(self.norm(self.layer(x)))


@pytest.mark.parametrize("rung", [0, 1, 2, 3], ids=[name for name, _ in RUNGS])
def test_a_rung_gives_the_program(rung: int) -> None:
    torch.manual_seed(0)
    program = make_program(Counted().eval(), (numbers(5, 4),), {})

    def work() -> bytes:
        found = lower_trace(RUNGS[rung][1](program, frozenset()))
        (result,) = run_graph(found, tensors_of(program))
        (expected,) = eager(program)
        names = [one.name for one in found.inputs if one.kind == "parameter"]
        return msgspec.json.encode([sorted(names), difference(result, expected)])

    load_tracers()
    names, gap = msgspec.json.decode(isolated(lambda: quietly(work), "rung", 60.0))
    assert names == ["layer.bias", "layer.weight", "norm.bias", "norm.weight"]
    assert gap < 1e-6


class Plain(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.gelu(self.layer(x)).split(1, dim=1)[0]


class InPlace(Plain):
    def forward(self, x: Any) -> Any:
        found = self.layer(x)
        found[0] *= 2
        return found


@pytest.mark.parametrize(
    ("kind", "apart", "again"),
    [
        (Plain, (), False),
        (Plain, ("gelu.default",), True),
        (InPlace, (), True),
        (Counted, (), True),
    ],
)
def test_what_has_rules_is_traced_once(kind: type, apart: tuple[str, ...], again: bool) -> None:
    """Another trace takes as long as the first one, and gives the same graph."""
    torch.manual_seed(0)
    program = make_program(kind().eval(), (numbers(5, 4),), {})
    exported = torch.export.ExportedProgram
    kept = exported.run_decompositions
    calls: list[object] = []

    def counted(self: object, table: object) -> object:
        calls.append(table)
        return kept(self, table)

    def work() -> bytes:
        exported.run_decompositions = counted
        found = lower_trace(RUNGS[0][1](program, frozenset(apart)))
        (result,) = run_graph(found, tensors_of(program))
        (expected,) = eager(program)
        return msgspec.json.encode([len(calls), difference(result, expected)])

    load_tracers()
    count, gap = msgspec.json.decode(isolated(lambda: quietly(work), "rung", 60.0))
    assert bool(count) == again
    assert gap < 1e-6
