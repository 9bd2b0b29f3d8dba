"""A trace becomes a graph of the catalog, or it is said which operator of it has no rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpugoblin.capture.torch.compare import difference, run_graph
from gpugoblin.capture.torch.lowering import lower_trace
from gpugoblin.capture.torch.tracing import Slot, Traced
from gpugoblin.errors import CaptureError
from tests.helpers.torch_programs import numbers, torch_or_skip

torch = torch_or_skip()


def traced(given: list[Any], *calls: tuple[Any, tuple[Any, ...]]) -> Traced:
    """A trace that calls one operator after the other; an int is the number of an earlier value,
    those of `given` first."""
    graph = torch.fx.Graph()
    values = [graph.placeholder(f"x{place}") for place in range(len(given))]
    for target, args in calls:
        read = tuple(values[one] if isinstance(one, int) else one for one in args)
        values.append(graph.call_function(target, read))
        values[-1].meta["val"] = None
    graph.output((values[-1],))
    slots = tuple(Slot("argument", f"x{place}", one) for place, one in enumerate(given))
    return Traced(graph, slots, ("",), torch.fx.GraphModule({}, graph))


def test_an_operator_that_writes_to_a_value_of_the_trace_gives_it_anew() -> None:
    aten = torch.ops.aten
    x, y = numbers(3, 4), numbers(4)
    found = lower_trace(traced(
        [x, y],
        (aten.exp.default, (0,)),  # 2
        (aten.copy_.default, (2, 1)),  # 3: what 2 is from here on
        (aten.add.Tensor, (2, 0)),
    ))  # fmt: skip
    (result,) = run_graph(found, {("argument", "x0"): x, ("argument", "x1"): y})
    np.testing.assert_array_equal(np.asarray(result), (y.expand(3, 4) + x).numpy())


def test_a_shape_that_is_changed_in_place() -> None:
    aten = torch.ops.aten
    x = numbers(1, 5)
    found = lower_trace(traced(
        [x], (aten.neg.default, (0,)), (aten.squeeze_.dims, (1, [0])), (aten.exp.default, (1,))
    ))  # fmt: skip
    (result,) = run_graph(found, {("argument", "x0"): x})
    np.testing.assert_allclose(np.asarray(result), (-x).exp().squeeze(0).numpy(), rtol=1e-6)


def test_what_neither_form_has_a_rule_for_is_named() -> None:
    with pytest.raises(CaptureError) as caught:
        lower_trace(traced([numbers(4, 4)], (torch.ops.aten.nextafter_.default, (0, 0))))
    assert caught.value.code == "operator_missing"
    assert caught.value.fields["operator"] == "aten.nextafter_.default"


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_a_quick_run_gives_what_the_reference_gives(dtype: str) -> None:
    aten = torch.ops.aten
    kind = getattr(torch, dtype)
    x, y = (10 * numbers(5, 7)).to(kind), (10 * numbers(5, 7, seed=1)).to(kind)
    found = lower_trace(traced(
        [x, y],
        (aten.permute.default, (0, (1, 0))),  # 2
        (aten.mm.default, (2, 1)),  # 3
        (aten.permute.default, (3, (1, 0))),
    ))  # fmt: skip
    tensors = {("argument", f"x{place}"): one for place, one in enumerate((x, y))}
    (plain,), (quick,) = (run_graph(found, tensors, quick=one) for one in (False, True))
    assert (quick.dtype, quick.shape) == (plain.dtype, plain.shape)
    gap = difference(quick, plain)
    assert gap < 1e-6 if dtype == "float32" else gap == 0
    assert difference(plain, (x.T @ y).T.contiguous().numpy()) < 1e-6
