"""A job's summary in words."""

from __future__ import annotations

import msgspec
import pytest

from gpugoblin.shown.summary import SummaryView
from gpugoblin.wire.messages.job import GraphTolerance, JobInfo, LostWork, VerifiedBy
from gpugoblin.wire.messages.summary import Contributor, TaskCounts
from tests.helpers.messages import example
from tests.helpers.summaries import summary_of


@pytest.fixture
def info() -> JobInfo:
    return msgspec.structs.replace(
        example(JobInfo, bare=True), name="<b>gram</b>", state="running", tasks=10, verified=4,
        used=3, verified_by=VerifiedBy(product=3, agreement=1), lost=LostWork(1, 2, 3, 4),
        bytes_sent=2048, bytes_received=1024, credits=0.0,
    )  # fmt: skip


def test_every_figure_has_its_line(info: JobInfo) -> None:
    tasks = TaskCounts(3, 0, 1, 2, 0, 0, 1, 3, 0)
    rows = dict(SummaryView(summary_of(info, tasks=tasks, remaining_s=90.0)).rows())
    assert rows["verified"] == "4 of 10 tasks (40.0 %)"
    assert rows["tasks"] == "3 planned, 1 ready, 2 leased, 1 verified, 3 used"
    assert rows["how"] == "3 product check, 1 agreement"
    assert rows["done again"] == "10 (3 refused by the check)"
    assert rows["by"] == "owner_a 4"
    assert rows["moved"] == "2 KiB out, 1 KiB in"
    assert rows["time"].startswith("2 s, about 1 min 30 s to go (estimate ")
    assert rows["gain"].startswith("1.5 over the node alone (estimate ")
    assert "credits" not in rows
    assert "tolerance" not in rows


def test_the_widest_of_the_measured_tolerances_is_named(info: JobInfo) -> None:
    graph = info.graph
    known = (GraphTolerance(graph, 2e-6, 3e-6), GraphTolerance(graph, 1e-6, 4e-4))
    changed = msgspec.structs.replace(info, tolerances=known)
    rows = dict(SummaryView(summary_of(changed)).rows())
    assert rows["tolerance"] == (
        "2.0e-06 of the root mean square, at most 4.0e-04 (measured, 2 graphs)"
    )


def test_of_many_contributors_the_first_three_are_named(info: JobInfo) -> None:
    many = tuple(Contributor(f"owner_{n}", 1, 9 - n, 0, 0, 0, 1.0) for n in range(5))
    rows = dict(SummaryView(summary_of(info, contributors=many, owners=7)).rows())
    assert rows["by"] == "owner_0 9, owner_1 8, owner_2 7 and 4 more"
    rows = dict(SummaryView(summary_of(info, contributors=(), owners=0)).rows())
    assert rows["by"] == "nobody yet"


def test_only_what_is_done_is_whole(info: JobInfo) -> None:
    def fraction(**changes: object) -> float:
        changed = msgspec.structs.replace(info, **changes)
        return SummaryView(summary_of(changed)).fraction

    assert fraction() == 0.4
    assert fraction(verified=10) == 0.999
    assert fraction(verified=10, state="done") == 1.0
    assert fraction(tasks=0, verified=0) == 0.0


def test_nothing_in_a_name_is_markup(info: JobInfo) -> None:
    view = SummaryView(summary_of(msgspec.structs.replace(info, name="<i>[red]x")))
    assert "<i>[red]x" in str(view)
    assert "<i>" not in view._repr_html_()
