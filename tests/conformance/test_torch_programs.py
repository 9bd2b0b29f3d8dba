"""Programs that are none of the zoo's are captured, and their gradients are PyTorch's."""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gpugoblin.capture.torch.checking import check
from tests.helpers.torch_programs import torch_or_skip

torch = torch_or_skip()

MODULES = ("tensors", "layers", "sequences", "science", "training")


def _programs() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        # torch warns of its own ways of old, which are programs too.
        warnings.simplefilter("ignore")
        for name in MODULES:
            import_module(f"tests.helpers.torch_zoo.{name}")
    found: dict[str, tuple[Any, tuple[Any, ...]]] = import_module(
        "tests.helpers.torch_zoo.table"
    ).PROGRAMS
    return found


PROGRAMS = _programs()
RANDOM = {
    *("dropout_train", "dropout2d_train", "random_draws", "attention_dropout_train"),
    "rrelu_train",
}


# Of each kind one that is quick; with the others the tests of every change take too long.
QUICK = frozenset(
    [
        "alibi",
        "autograd_grad_inside",
        "batchnorm1d_notrack",
        "bool_mask_assign",
        "checkpointing",
        "complex_math",
        "convs",
        "dropout_train",
        "index_put_accumulate",
        "inplace_view_write",
        "integer_math",
        "moe_dense_route",
        "pools",
        "rotary_half_and_complex",
        "vmap_jvp",
    ]
)
SOME = [
    pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow])
    for name in sorted(PROGRAMS)
]


@pytest.mark.parametrize("name", SOME)
def test_values_and_gradients(name: str, tmp_path: Path) -> None:
    subject, args = PROGRAMS[name]
    report = check(subject, *args, report=tmp_path / "report.json")
    assert report.ok, str(report)
    assert (report.value_error is None) == (name in RANDOM)
    if name not in RANDOM:
        assert report.gradient_error is not None or "gradients: none" in str(report)


REFUSED: dict[str, tuple[str, str]] = {
    "branch": ("branch_on_data", "torch.where"),
    "loop": ("loop_shares_memory", "torch.diagonal(a).clone()"),
    "mask": ("operator_missing", "torch.where(mask, value, 0)"),
    "missing": ("operator_missing", "report=PATH"),
}


def _branch(x: Any) -> Any:
    if (x > 100).any():
        return x[(x > 100).nonzero()[0, 0]]
    return x[0]


def _loop(x: Any) -> Any:
    square = x[:, :3]
    diagonal = torch.diagonal(square)

    def goes_on(count: Any, found: Any) -> Any:
        return (count < 3) & (found.sum() < 100)

    def body(count: Any, found: Any) -> Any:
        return count + 1, square @ found / diagonal

    loop = import_module("torch._higher_order_ops.while_loop").while_loop
    return loop(goes_on, body, (torch.zeros((), dtype=torch.int64), torch.zeros(3)))


def _mask(x: Any) -> Any:
    return x[(x > 0).nonzero()[:, 0]].sum()


def _missing(x: Any) -> Any:
    return torch.special.bessel_j0(x)


def test_a_check_of_the_data_is_no_branch(tmp_path: Path) -> None:
    def careful(x: Any) -> Any:
        if (x > 100).any():
            raise ValueError("too large")
        assert torch.isfinite(x).all()
        return x * 2

    assert check(careful, torch.ones(3), report=tmp_path / "report.json").ok


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_cannot_be_said_is_refused_with_its_line(name: str, tmp_path: Path) -> None:
    function = {"branch": _branch, "loop": _loop, "mask": _mask, "missing": _missing}[name]
    code, rewrite = REFUSED[name]
    report = check(function, torch.randn(3, 4), report=tmp_path / "report.json")
    assert not report.captured
    assert report.code == code
    assert rewrite in report.refusal
    assert "test_torch_programs.py" in report.refusal
    assert (tmp_path / "report.json").exists() == (code == "operator_missing")
