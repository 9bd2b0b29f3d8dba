"""What is shown of plans and jobs."""

from __future__ import annotations

import msgspec
import pytest

import gpugoblin as gg
from gpugoblin.client.session import Session
from gpugoblin.client.views import PlanView, StatusView, html_table, jobs_table, plain
from gpugoblin.wire.messages.job import JobInfo, LostWork
from tests.helpers.fake_node import FakeNode


@pytest.fixture
def info(lab: Session, node: FakeNode) -> JobInfo:
    return gg.array([1, 2, 3]).sum().save(name="<b>sum</b>").info  # type: ignore[attr-defined,no-any-return]


def test_a_notebook_shows_escaped_html(info: JobInfo) -> None:
    for view in (PlanView.of(info.plan), StatusView(info)):
        html = view._repr_html_()
        assert html.count("<table>") == 1
        assert "<b>" not in html
    assert "&lt;b&gt;sum&lt;/b&gt;" in StatusView(info)._repr_html_()
    assert "&amp;" in html_table("a", [("b", "&")])


def test_progress_ends_at_one_only_when_done(info: JobInfo) -> None:
    assert StatusView(info).fraction == 1.0
    running = msgspec.structs.replace(info, state="running")
    assert StatusView(running).fraction == 0.999
    assert StatusView(msgspec.structs.replace(running, verified=1)).fraction == 0.25
    assert StatusView(msgspec.structs.replace(running, tasks=0, verified=0)).fraction == 0.0


def test_a_status_says_what_was_refused_and_lost(info: JobInfo) -> None:
    lost = msgspec.structs.replace(
        info,
        lost=LostWork(expired=1, rejected=2),
        credits=1.5,
        state="failed",
        error_text="Full.",
    )
    rows = dict(StatusView(lost).rows())
    assert rows["done again"] == "3 (2 refused by the check)"
    assert rows["state"] == "failed: Full."
    assert rows["how"] == "4 product check"
    assert StatusView(lost).line().endswith("Full.")


def test_the_list_of_jobs(info: JobInfo) -> None:
    text = plain(jobs_table([info]))
    assert "done" in text
    assert "local" in text
