"""What is shown of a run: its line, its tables, its curve, and its loss while it falls.

Owns: those. Must not: fetch anything by itself; callers bring the figures.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TextIO

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gpugoblin.catalog.spec import Array as NumpyArray
from gpugoblin.client.progress import LOG_INTERVAL_S, QUIET_S, Renderer
from gpugoblin.client.views import StatusView, html_table, plain
from gpugoblin.errors import ClientError
from gpugoblin.units import format_bytes, format_seconds
from gpugoblin.wire.messages.training import ChosenSteps, RoundRow, TrainingInfo

if TYPE_CHECKING:
    from gpugoblin.client.run import Run

__all__ = ["RoundsTable", "RunView", "choose_run_renderer", "plot_run", "rounds_table", "spark"]

_BARS: Final = "▁▂▃▄▅▆▇█"
_WIDTH: Final = 24


def spark(values: Sequence[float], width: int = _WIDTH) -> str:
    """A curve in one line of text: means of equal parts, from the lowest bar to the highest."""
    found = np.asarray(values, np.float64)
    found = found[np.isfinite(found)]
    if not found.size:
        return ""
    parts = [part.mean() for part in np.array_split(found, min(width, found.size))]
    low, high = min(parts), max(parts)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((part - low) * scale)] for part in parts)


@dataclass(frozen=True, slots=True)
class RunView:
    """How far a run is, with the losses so far."""

    training: TrainingInfo
    losses: NumpyArray

    @property
    def turn(self) -> str:
        """What is counted: steps, or rounds of local steps."""
        return "round" if self.training.local_steps > 1 else "step"

    def line(self) -> str:
        """One line for a log."""
        found = self.training
        text = f"{found.job.name}: {found.job.state}, {self.turn} {found.done} of {found.steps}"
        if self.losses.size:
            text += f", loss {self.losses[-1]:.6g}"
        if found.ended_early:
            text += f" (ended early: {found.ended_early})"
        return text + (f": {found.job.error_text}" if found.job.error_text else "")

    def rows(self) -> list[tuple[str, str]]:
        """Label and text of each line."""
        found, by = self.training, self.training.job.verified_by
        lost, local = found.job.lost, found.local_steps
        batch = f"{found.batch} examples in tasks of {found.micro * local}"
        if local > 1:
            batch += f", {local} steps of {found.micro} in each"
        rows = [
            ("run", found.job.name),
            ("state", self.line().split(": ", 1)[1]),
            ("loss", spark(self.losses.tolist())),
            ("round" if local > 1 else "batch", batch),
            ("weights", f"after {found.version} {self.turn}s"),
            ("verified", f"{found.job.verified} tasks: {by.recompute} recomputed, "
             f"{by.agreement + by.equality} by agreement"),
            ("done again", f"{lost.expired + lost.abandoned + lost.rejected + lost.late} "
             f"({lost.rejected} refused by the check)"),
            ("moved", f"{format_bytes(found.job.bytes_sent)} out, "
             f"{format_bytes(found.job.bytes_received)} in"),
        ]  # fmt: skip
        if found.chosen is not None:
            rows.insert(4, ("local steps", _why(found.chosen)))
        return rows

    def __rich__(self) -> Table:
        table = Table(title="run", title_justify="left", show_header=False)
        table.add_column(style="bold")
        table.add_column()
        for label, text in self.rows():
            table.add_row(label, escape(text))
        return table

    def __str__(self) -> str:
        return self.line()

    def _repr_html_(self) -> str:
        return html_table("run", self.rows())


def _why(chosen: ChosenSteps) -> str:
    """By what a number of local steps was chosen."""
    whose = f"{chosen.devices} measured" if chosen.devices else "assumed or the lab's own"
    moved_s = chosen.latency_s + chosen.round_bytes / chosen.bytes_per_s
    return (
        f"{chosen.steps}, chosen: {format_seconds(chosen.step_s)} a step, a round's way "
        f"{format_seconds(moved_s)} ({format_bytes(chosen.round_bytes)} at "
        f"{format_bytes(round(chosen.bytes_per_s))}/s and {format_seconds(chosen.latency_s)}, "
        f"{whose}); {chosen.utilisation:.0%} of the time computing"
    )


class RoundsTable(Table):
    """A table that `print` shows, too."""

    def __str__(self) -> str:
        return plain(self)


def rounds_table(rounds: Sequence[RoundRow]) -> RoundsTable:
    """A line for each round."""
    # Without lines between them all columns fit.
    table = RoundsTable(
        title="rounds", title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0)
    )
    local, late = any(row.local_steps > 1 for row in rounds), any(row.in_time for row in rounds)
    columns = ("round", *(["steps"] if local else []), *(["late"] if late else []),
               "contributors", "verified", "recomputed",
               "agreed", "redone", "refused", "to tasks", "results", "took")  # fmt: skip
    for column in columns:
        table.add_column(column, justify="right")
    for row in rounds:
        took = format_seconds(max(0.0, row.ended_s - row.began_s))
        table.add_row(
            *map(str, (row.step, *([row.local_steps] if local else []),
                       *([row.in_time.count("0")] if late else []), row.contributors,
                       row.verified, row.by_recompute, row.by_agreement, row.redone, row.refused)),
            format_bytes(row.bytes_in), format_bytes(row.bytes_out), took,
        )  # fmt: skip
    return table


class _Live:
    """Draws the loss while a run goes on; asks for it at most twice a second."""

    def __init__(self, view: Callable[[], RunView], stream: TextIO) -> None:
        self._view = view
        self._stream = stream
        self._start_s = time.monotonic()
        self._bar: Progress | None = None
        self._task: Any = None

    def update(self, status: StatusView) -> None:
        if self._bar is None:
            if time.monotonic() - self._start_s < QUIET_S:
                return
            self._bar = Progress(
                TextColumn("[bold]{task.description}"), BarColumn(bar_width=20),
                MofNCompleteColumn(), TextColumn("{task.fields[loss]}"), TimeElapsedColumn(),
                console=Console(file=self._stream), auto_refresh=False,
            )  # fmt: skip
            self._task = self._bar.add_task(escape(status.info.name), total=None, loss="")
            self._bar.start()
        found = self._view()
        loss = (
            f"loss {found.losses[-1]:.5g} {spark(found.losses.tolist())}"
            if found.losses.size
            else ""
        )
        self._bar.update(
            self._task, total=found.training.steps, completed=found.training.done, loss=loss
        )
        self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()


class _Log:
    """A line a minute."""

    def __init__(self, view: Callable[[], RunView], stream: TextIO) -> None:
        self._view = view
        self._stream = stream
        self._next_s = time.monotonic() + LOG_INTERVAL_S

    def update(self, status: StatusView) -> None:
        if time.monotonic() >= self._next_s:
            print(f"gpugoblin: {self._view().line()}", file=self._stream, flush=True)
            self._next_s = time.monotonic() + LOG_INTERVAL_S

    def close(self) -> None:
        """Nothing is open."""


class _Notebook:
    """One HTML display that is drawn over."""

    def __init__(self, view: Callable[[], RunView], display: Callable[..., Any]) -> None:
        self._view = view
        self._display = display
        self._handle: Any = None

    def update(self, status: StatusView) -> None:
        found = self._view()
        if self._handle is None:
            self._handle = self._display(found, display_id=True)
        else:
            self._handle.update(found)

    def close(self) -> None:
        self._handle = None


def choose_run_renderer(view: Callable[[], RunView], stream: TextIO | None = None) -> Renderer:
    """The renderer for where this process shows things."""
    stream = sys.stderr if stream is None else stream
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and type(shell).__name__ == "ZMQInteractiveShell":
        return _Notebook(view, sys.modules["IPython.display"].display)
    return _Live(view, stream) if stream.isatty() else _Log(view, stream)


def plot_run(run: Run, what: str, path: Any) -> Any:
    """A figure of the loss or of the norms of gradients by step; see `Run.plot`."""
    if what not in ("loss", "gradients"):
        raise ClientError(
            "training_refused", line="run.plot", name="what", value=what,
            reason="'loss' or 'gradients' is wanted",
        )  # fmt: skip
    try:
        from matplotlib.figure import Figure
    except ImportError as cause:
        raise ClientError(
            "package_missing", purpose="Plotting a run", package="matplotlib"
        ) from cause
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    view = run.view()
    first = view.training.first_step
    if what == "loss":
        losses = run.losses
        axes.plot(first + np.arange(losses.size), losses, label="batch", linewidth=1)
        evaluations = run.evaluations
        if len(evaluations):
            axes.plot(evaluations[:, 0], evaluations[:, 1], "o-", label="evaluation")
        axes.set_ylabel("loss")
    else:
        for name, norms in run.gradient_norms.items():
            axes.plot(first + np.arange(norms.size), norms, label=name, linewidth=1)
        axes.set_yscale("log")
        axes.set_ylabel("norm of the gradient")
    axes.set_xlabel(view.turn)
    axes.set_title(f"{run.name}: every gradient verified")
    axes.legend(fontsize="small")
    if path is not None:
        figure.savefig(path)
    return figure
