"""The picture of the demonstration: what was computed, and how it was checked.

Owns: `draw`. Two panels of results (digits in their principal plane, a digit beside its nearest
neighbor) and one of the work (tasks per contributor's fate).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from demo.data import Digits
from demo.jobs import Neighbors, Principal
from demo.report import Report

__all__ = ["draw"]

SHOWN = 6


def draw(path: Path, digits: Digits, plane: Principal, near: Neighbors, report: Report) -> None:
    """Writes a PNG of 1500 x 500 pixels."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure, (left, middle, right) = pyplot.subplots(
        1,
        3,
        figsize=(15, 5),
        dpi=100,
        layout=ConstrainedLayoutEngine(wspace=0.06),
        width_ratios=(4, 5, 4),
    )
    colors = pyplot.get_cmap("tab10")
    for label in range(10):
        chosen = plane.points[digits.labels == label]
        left.scatter(chosen[:, 0], chosen[:, 1], s=9, color=colors(label), label=str(label))
    left.legend(
        title="digit", fontsize=8, markerscale=2, loc="center left", bbox_to_anchor=(1, 0.5)
    )
    left.set(title="1,797 digits in their principal plane", xlabel="component 1")
    left.set_ylabel("component 2")

    wrong = np.flatnonzero(digits.labels[near.nearest] != digits.labels)
    right_ones = np.flatnonzero(digits.labels[near.nearest] == digits.labels)
    shown = [*right_ones[:: max(1, len(right_ones) // (SHOWN - 2))][: SHOWN - 2], *wrong[:2]]
    pairs = [
        np.vstack(
            [digits.images[one].reshape(8, 8), digits.images[near.nearest[one]].reshape(8, 8)]
        )
        for one in shown
    ]
    middle.imshow(np.hstack(pairs), cmap="gray_r")
    middle.axhline(7.5, color="tab:blue", linewidth=1)
    middle.set(xticks=[8 * at + 3.5 for at in range(len(shown))], yticks=[3.5, 11.5])
    middle.set_xticklabels(
        [f"{digits.labels[one]} as {digits.labels[near.nearest[one]]}" for one in shown], fontsize=9
    )
    middle.set_yticklabels(["digit", "nearest"])
    middle.set_title(f"Nearest neighbors: {near.accuracy:.1%} have the same label")

    names = ["verified", "wrong, caught", "lost, done again"]
    counts = [report.verified, report.wrong, report.lost]
    bars = right.barh(names, counts, color=["tab:green", "tab:red", "tab:orange"])
    right.bar_label(bars, padding=4)
    right.invert_yaxis()
    right.margins(x=0.15)
    right.set(title="No task is used unverified", xlabel="tasks of the three jobs")
    figure.savefig(path)
    pyplot.close(figure)
