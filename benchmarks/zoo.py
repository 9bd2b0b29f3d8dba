"""Coverage: programs of a zoo that are captured, equal to eager, and differentiated rightly.

The zoo is test data outside the repository: a folder with `zoo.py`, whose dictionary `Z` maps a
name to (group, builder), and the builder gives (module, args, kwargs). Its path is in
GPUGOBLIN_ZOO; GPUGOBLIN_ZOO_ONLY names parts of names to run alone. Each program runs in a process
of its own, with at most GPUGOBLIN_ZOO_GIB (6) GiB of its own memory and GPUGOBLIN_ZOO_SECONDS (900,
more on a busy machine); GPUGOBLIN_ZOO_JOBS (1) of them at a time.

A run can be broken off and goes on where it was: what has been measured in the same state of the
sources is kept, everything else is measured anew. The details of all programs are in
`benchmarks/results/programs/zoo.json`, from which the table in the docs is made.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import multiprocessing
import os
import resource
import sys
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from app.engine.backends.cpu.backend import CpuBackend
from app.engine.compile import compile_graph
from app.engine.context import Context
from app.engine.pool import Pool
from benchmarks.record import RESULTS, Row, not_run, row
from gpugoblin.capture.torch.capturing import run_apart
from gpugoblin.capture.torch.checking import check_climbed, refused
from gpugoblin.capture.torch.compare import TOLERANCE, difference, graph_inputs, joined
from gpugoblin.capture.torch.ladder import Climbed
from gpugoblin.capture.torch.running import eager, tensors_of
from gpugoblin.capture.torch.signs import needs_signs
from gpugoblin.capture.torch.wrapping import Program, make_program
from gpugoblin.catalog.spec import DTYPES, Array
from gpugoblin.errors import CaptureError

__all__ = ["PROGRAMS", "Outcome", "measure"]

PROGRAMS: Final = RESULTS / "programs" / "zoo.json"
_SECONDS: Final = float(os.environ.get("GPUGOBLIN_ZOO_SECONDS", "900"))
_SOURCES: Final = ("gpugoblin/capture", "gpugoblin/catalog", "gpugoblin/graph", "app/engine")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One program.

    Args:
        backend_error: of the CPU backend against eager, over the largest number of the result.
        value_bound: what is admitted; see `CheckReport.value_bound`.
        compared: whether gradients were looked at.
        peak_mib: the most memory that its process held.
        sources: the state of capture, catalog, graph and backend that was measured.
    """

    name: str
    captured: bool
    rung: str = ""
    nodes: int = 0
    seconds: float = 0.0
    code: str = ""
    operator: str = ""
    line: str = ""
    value_error: float | None = None
    value_bound: float = TOLERANCE
    backend_error: float | None = None
    backend_refusal: str = ""
    gradient_error: float | None = None
    gradient_bound: float | None = None
    gradient_refusal: str = ""
    compared: bool = True
    peak_mib: int = 0
    sources: str = ""

    @property
    def equal(self) -> bool:
        """Captured, and the CPU backend agrees with eager or both draw random numbers."""
        return (
            self.captured
            and not self.backend_refusal
            and (self.backend_error is None or self.backend_error <= self.value_bound)
        )

    @property
    def trained(self) -> bool:
        return self.gradient_error is not None or bool(self.gradient_refusal)

    @property
    def right(self) -> bool:
        return (
            self.gradient_error is not None
            and self.gradient_bound is not None
            and self.gradient_error <= self.gradient_bound
        )


def measure() -> list[Row]:
    folder = os.environ.get("GPUGOBLIN_ZOO", "")
    if not folder:
        return [not_run("programs captured", "programs", "none", "GPUGOBLIN_ZOO names no zoo")]
    wanted = [part for part in os.environ.get("GPUGOBLIN_ZOO_ONLY", "").split(",") if part]
    outcomes, sources = _kept(), sources_digest()
    names = [
        name
        for name, known in ((name, outcomes.get(name)) for name in _programs(folder))
        if not wanted or any(part in name for part in wanted)
        if known is None or known.sources != sources or not known.compared
    ]
    jobs = int(os.environ.get("GPUGOBLIN_ZOO_JOBS", "1"))
    # One thread each: threads that wait for each other on a busy machine took 15 minutes for one.
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(threads, "1")
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        for work in as_completed([pool.submit(_outcome, folder, name) for name in names]):
            found = replace(work.result(), sources=sources)
            outcomes[found.name] = found
            print(f"  {_line(found)}", flush=True)
            _keep(outcomes)
    return _rows(list(outcomes.values()), sources)


def sources_digest() -> str:
    """A name for the state of everything that the outcomes depend on."""
    root = Path(__file__).resolve().parents[1]
    files = sorted(path for folder in _SOURCES for path in (root / folder).rglob("*.py"))
    found = hashlib.sha256()
    for path in files:
        found.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:12]


def _rows(outcomes: list[Outcome], sources: str) -> list[Row]:
    trained = [one for one in outcomes if one.trained]
    silent = [one for one in trained if one.gradient_error is not None and not one.right]
    refused = [one for one in outcomes if not one.captured]
    named = ", ".join(one.name for one in refused)
    wrong = ", ".join(one.name for one in silent)
    left = sum(not one.compared for one in outcomes)
    older = sum(one.sources != sources for one in outcomes)
    state = f"; {older} measured in an earlier state" if older else ""
    silence = row(
        "gradients that are silently wrong",
        len(silent),
        "programs",
        bar=0,
        better="lower",
        note=f"{wrong or 'none'} of {len(trained)} compared; not looked at: {left}{state}",
    )
    # What was not looked at may be wrong.
    silence = replace(silence, meets=silence.meets and not left and not older)
    loose = ", ".join(one.name for one in outcomes if one.equal and one.value_bound > TOLERANCE)
    wider = f"; eager itself is farther than 1e-5 from float64: {loose}" if loose else ""
    captured = row(
        "programs captured and equal to eager on the CPU backend",
        sum(one.equal for one in outcomes),
        "programs",
        bar=161,
        note=f"of {len(outcomes)}; refused: {named or 'none'}{wider}{state}",
    )
    return [
        replace(captured, meets=captured.meets and not older),
        row(
            "programs whose gradients are right",
            sum(one.right for one in trained),
            "programs",
            note=f"of {len(trained)} that PyTorch differentiates; not looked at: {left}{state}",
        ),
        silence,
    ]


@cache
def _programs(folder: str) -> dict[str, Any]:
    """Every program's builder by its name."""
    warnings.filterwarnings("ignore")
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True
    if (Path(folder) / "tvstub.py").exists():
        importlib.import_module("tvstub").install()
    for library in ("torch", "timm", "transformers"):
        importlib.import_module(library)
    zoo = importlib.import_module("zoo").Z
    return {name: builder for name, (_, builder) in zoo.items()}


def _outcome(folder: str, name: str) -> Outcome:
    """In a process that measures one program after the other."""
    builder = _programs(folder)[name]
    import torch

    torch.manual_seed(0)
    begin = time.monotonic()
    try:
        program = make_program(*builder())
        data = run_apart(
            program, lambda found: _judged(name, program, found, begin), True, _SECONDS
        )
    except CaptureError as error:
        return Outcome(name, captured=False, code=error.code, line=str(error.fields.get("how", "")))
    return Outcome(**json.loads(data))


def _bounded() -> None:
    """In the child: more memory than it may have is an error there and not the machine's end."""
    most = int(float(os.environ.get("GPUGOBLIN_ZOO_GIB", "6")) * (1 << 30))
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _judged(name: str, program: Program, found: Climbed | CaptureError, begin: float) -> bytes:
    """In the child: the check of values and gradients, and the CPU backend."""
    seconds = time.monotonic() - begin
    if isinstance(found, CaptureError):
        told = refused(found)
        outcome = Outcome(
            name,
            captured=False,
            seconds=seconds,
            code=told.code,
            operator=told.operator,
            line=told.line,
        )
        return json.dumps(asdict(outcome)).encode()
    _bounded()
    pool = Pool(1)
    try:
        report = check_climbed(program, found, lambda graph, arrays: _run(graph, arrays, pool))
        error, refusal = _backend(program, found, pool)
    finally:
        pool.close()
    outcome = Outcome(
        name=name,
        captured=True,
        rung=report.rung,
        nodes=report.nodes,
        seconds=seconds,
        value_error=report.value_error,
        value_bound=report.value_bound,
        backend_error=error,
        backend_refusal=refusal,
        gradient_error=report.gradient_error,
        gradient_bound=report.gradient_bound,
        gradient_refusal=report.gradient_refusal,
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    )
    return json.dumps(asdict(outcome)).encode()


def _backend(program: Program, found: Climbed, pool: Pool) -> tuple[float | None, str]:
    """The difference of the CPU backend from eager, or why it cannot run the graph."""
    lowered = found.lowered
    inputs = graph_inputs(lowered.inputs, lowered.graph.inputs, tensors_of(program))
    try:
        results = joined(_run(lowered.graph, inputs, pool), lowered.outputs)
    except Exception as error:  # one program that fails is a row of the table
        return None, f"{type(error).__name__}: {error}"[:300]
    if found.difference is None:
        return None, ""
    expected = eager(program, signs=needs_signs(lowered.graph))
    gaps = [difference(one, two) for one, two in zip(results, expected, strict=True)]
    return max(gaps, default=0.0), ""


def _run(graph: Any, inputs: Sequence[Array], pool: Pool) -> list[Array]:
    compiled = compile_graph(graph, CpuBackend())
    outputs = [np.empty(spec.shape, DTYPES[spec.dtype]) for spec in compiled.output_specs]
    with np.errstate(all="ignore"):
        compiled.run(
            [np.ascontiguousarray(array).reshape(array.shape) for array in inputs],
            outputs,
            np.empty(compiled.arena_bytes, np.uint8),
            Context(pool),
        )
    return outputs


def _kept() -> dict[str, Outcome]:
    if not PROGRAMS.exists():
        return {}
    known = {one.name for one in fields(Outcome)}
    read = json.loads(PROGRAMS.read_text(encoding="utf-8"))
    return {
        old["name"]: Outcome(**{key: value for key, value in old.items() if key in known})
        for old in read
    }


def _keep(outcomes: dict[str, Outcome]) -> None:
    rows = [asdict(outcomes[name]) for name in sorted(outcomes)]
    for one in rows:
        one["seconds"] = round(one["seconds"], 1)
        one["line"] = one["line"].replace(f"{os.environ['GPUGOBLIN_ZOO'].rstrip('/')}/", "")
    PROGRAMS.parent.mkdir(parents=True, exist_ok=True)
    PROGRAMS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def _line(one: Outcome) -> str:
    if not one.captured:
        return f"{one.name}: refused, {one.code} {one.operator} {one.line}"
    words = [f"{one.name}: {one.rung}", f"{one.nodes} operators", f"{one.seconds:.1f} s"]
    words.append(f"values {one.value_error} backend {one.backend_error} {one.backend_refusal}")
    words.append(f"gradients {one.gradient_error} of {one.gradient_bound} {one.gradient_refusal}")
    return ", ".join(words)
