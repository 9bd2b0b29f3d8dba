"""`gg.check`: whether a program can be captured, and how right its values and gradients are.

Owns: that function, its report, and the file about an operator that is missing. The file holds the
operator, shapes and versions, and nothing of the program.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from gpugoblin.capture.torch.capturing import run_apart
from gpugoblin.capture.torch.compare import TOLERANCE, difference, run_graph
from gpugoblin.capture.torch.gradients import GradientErrors, Run, compare_gradients
from gpugoblin.capture.torch.ladder import Climbed
from gpugoblin.capture.torch.library import load_torch
from gpugoblin.capture.torch.refusals import refusal_of
from gpugoblin.capture.torch.running import double_values, tensors_of
from gpugoblin.capture.torch.signs import needs_signs
from gpugoblin.capture.torch.wrapping import Program, make_program
from gpugoblin.catalog.registry import catalog_hash
from gpugoblin.errors import CaptureError, GoblinError
from gpugoblin.graph.grad import located
from gpugoblin.graph.interpret import interpret

__all__ = ["CheckReport", "check", "check_climbed", "refused"]

_FILE: Final = "gpugoblin-missing-operator.json"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What `gg.check` found.

    Args:
        captured: whether there is a graph. rung: the way that led to it. nodes: of the graph.
        refusal: otherwise the error, with line, operator and rewrite; code: its code.
        value_error: of the graph against eager float32, over the largest number of the result;
            None where random numbers are drawn. wide_error: against float64.
        value_bound: what is good enough: 1e-5, or more where eager is itself farther than that from
            float64 and the graph is no farther.
        gradient_error, gradient_bound, gradient_worst: against PyTorch in float64, over the
            largest gradient; what is good enough; the input with the largest error. None where
            there are no gradients.
        gradient_refusal: why the graph has no gradient where PyTorch has one.
        file: the report about a missing operator.
    """

    captured: bool
    rung: str = ""
    nodes: int = 0
    code: str = ""
    refusal: str = ""
    operator: str = ""
    line: str = ""
    operands: str = ""
    value_error: float | None = None
    value_bound: float = TOLERANCE
    wide_error: float | None = None
    gradient_error: float | None = None
    gradient_bound: float | None = None
    gradient_worst: str = ""
    gradient_refusal: str = ""
    file: str = ""

    @property
    def ok(self) -> bool:
        """Captured, with values and gradients within their bounds."""
        values = self.value_error is None or self.value_error <= self.value_bound
        gradients = (
            self.gradient_error is None
            or self.gradient_bound is None
            or self.gradient_error <= self.gradient_bound
        )
        return self.captured and values and gradients and not self.gradient_refusal

    def __str__(self) -> str:
        if not self.captured:
            written = f"\nA report was written to {self.file}." if self.file else ""
            return f"not captured: {self.refusal}{written}"
        rows = [f"captured by {self.rung}: {self.nodes} operators"]
        if self.value_error is None:
            rows.append("values: random, not compared")
        else:
            rows.append(
                f"values: {self.value_error:.1e} from eager (at most {self.value_bound:.0e})"
            )
        if self.wide_error is not None:
            rows.append(f"values: {self.wide_error:.1e} from float64")
        if self.gradient_error is not None and self.gradient_bound is not None:
            rows.append(
                f"gradients: {self.gradient_error:.1e} from PyTorch (at most "
                f"{self.gradient_bound:.1e}), the worst is {self.gradient_worst}"
            )
        elif self.gradient_refusal:
            rows.append(f"gradients: {self.gradient_refusal}")
        else:
            rows.append("gradients: none")
        return "\n".join(rows)


def check(
    subject: Any,
    *args: Any,
    report: str | Path | None = None,
    isolate: bool = True,
    timeout_seconds: float = 900.0,
    **kwargs: Any,
) -> CheckReport:
    """Captures a program and compares values and gradients with PyTorch. Nothing is sent.

    Args:
        subject: a torch.nn.Module, or a function of tensors; args and kwargs: what it is called
            with.
        report: where to write the report about a missing operator; by default
            gpugoblin-missing-operator.json in the working directory.

    Raises:
        CaptureError: `torch_missing`, `capture_needs_fork`, `capture_died`. That a program cannot
            be captured is not an error here but the result.
    """
    load_torch()
    program = make_program(subject, args, kwargs)
    data = run_apart(program, lambda found: _checked(program, found), isolate, timeout_seconds)
    found = msgspec.json.decode(data, type=CheckReport)
    if found.code == "operator_missing":
        path = Path(_FILE if report is None else report)
        path.write_text(json.dumps(_about(found), indent=1) + "\n", encoding="utf-8")
        found = replace(found, file=str(path))
    return found


def _about(found: CheckReport) -> dict[str, object]:
    from importlib.metadata import version

    return {
        "operator": found.operator,
        "operands": found.operands,
        "torch": load_torch().__version__,
        "gpugoblin": version("gpugoblin"),
        "catalog": catalog_hash(),
    }


def _checked(program: Program, found: Climbed | CaptureError) -> bytes:
    report = refused(found) if isinstance(found, CaptureError) else check_climbed(program, found)
    return msgspec.json.encode(report)


def refused(error: CaptureError) -> CheckReport:
    """The report about a program that cannot be captured."""
    fields = {name: str(value) for name, value in error.fields.items()}
    return CheckReport(
        captured=False,
        code=error.code,
        refusal=str(error),
        operator=fields.get("operator", ""),
        line=fields.get("line", ""),
        operands=fields.get("operands", ""),
    )


def check_climbed(
    program: Program, found: Climbed, run: Run = interpret, *, gradients: bool = True
) -> CheckReport:
    """What there is to say about a graph that was found; `run` computes its gradients."""
    errors, refusal = _gradients(program, found, run) if gradients else (None, "")
    return CheckReport(
        captured=True,
        rung=found.rung,
        nodes=len(found.lowered.graph.nodes),
        value_error=found.difference,
        value_bound=found.bound,
        wide_error=_wide_error(program, found),
        gradient_error=None if errors is None else errors.error,
        gradient_bound=None if errors is None else errors.bound,
        gradient_worst="" if errors is None else errors.worst,
        gradient_refusal=refusal,
    )


def _gradients(program: Program, found: Climbed, run: Run) -> tuple[GradientErrors | None, str]:
    if found.difference is None:
        return None, ""
    try:
        return compare_gradients(program, found.lowered, run), ""
    except GoblinError as error:
        told = [str(located(error, found.lowered.lines)), *found.lowered.refused]
        return None, "\n".join(told)
    except Exception as error:  # torch's backward may raise anything; the report then says so
        return None, str(refusal_of(error, program.label))


def _wide_error(program: Program, found: Climbed) -> float | None:
    if found.difference is None:
        return None
    wide = double_values(program, signs=needs_signs(found.lowered.graph))
    if wide is None:
        return None
    values = run_graph(found.lowered, tensors_of(program))
    gaps = [difference(np.asarray(one), two) for one, two in zip(values, wide, strict=True)]
    finite = [gap for gap in gaps if np.isfinite(gap)]
    return max(finite, default=0.0)
