"""The page of the node: its figures, and whose names are told to whom."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.lab import Lab, row_sums
from tests.helpers.node_pages import Browser, give_job, make_user

__all__: list[str] = []


def done(lab: Lab, owner: str, name: str) -> None:
    array = lab.file(np.ones((4, 4), np.float32), f"{name}.npy")
    job = lab.wait(lab.submit(row_sums((4, 4)), array, name=name, executor="local"))
    assert job.state == "done"
    give_job(lab, owner, job.job)


def test_shares_by_name_are_for_administrators(grid: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name in (("ann", "one"), ("bob", "two"), ("eve", "three")):
        done(grid, owner, name)
    with Browser(grid) as ann:
        ann.sign_in(make_user(grid, "ann"))
        page = ann.get("/node").text
        assert "all others" in page
        assert "bob" not in page
        monkeypatch.setattr("server_stub.node.web.overview.sees_all", lambda user: True)
        page = ann.get("/node").text
        for words in ("bob", "eve", "<svg"):
            assert words in page


def test_the_page_says_what_is_there(grid: Lab) -> None:
    with Browser(grid) as ann:
        ann.sign_in(make_user(grid, "ann"))
        page = ann.get("/node").text
        for words in ("this machine", "volunteers", "checks behind", "always left free"):
            assert words in page
        assert "Nobody has submitted a job yet." in page
