"""The strip of a plan: every task is in it, none is drawn outside."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from gpugoblin.wire.messages.job import JobInfo
from gpugoblin.wire.messages.summary import Stretch
from server_stub.node.web.pictures import CELL, COLUMNS, strip
from tests.helpers.messages import example
from tests.helpers.summaries import summary_of


def drawn(*stretches: Stretch) -> str:
    text = str(strip(summary_of(example(JobInfo, bare=True), stretches=stretches)))
    ElementTree.fromstring(text)  # noqa: S314 - our own text
    return text


def test_cells_fill_as_tasks_are_verified() -> None:
    text = drawn(Stretch(4, 4, 0, 0), Stretch(4, 1, 2, 0), Stretch(4, 0, 0, 1), Stretch(1, 0, 0, 0))
    heights = [float(one) for one in re.findall(r'class="full".*?height="([\d.]+)"', text)]
    assert heights[0] == 4 * heights[1]
    assert re.findall(r'<g class="(\w+)">', text) == ["still", "working", "ended", "still"]
    titles = re.findall(r"<title>(.*?)</title>", text)
    assert titles[0] == "tasks 0-3: 4 verified"
    assert titles[-1] == "task 12: 0 verified"


@pytest.mark.parametrize("count", [0, 1, COLUMNS, COLUMNS + 1, 240])
def test_all_is_inside_the_picture(count: int) -> None:
    text = drawn(*[Stretch(1, 1, 0, 0)] * count)
    width, height = map(float, re.findall(r'viewBox="0 0 (\d+) (\d+)"', text)[0])
    places = re.findall(r'class="cell" x="(\d+)" y="(\d+)"', text)
    assert len(places) == len(set(places)) == count
    for x, y in places:
        assert float(x) + CELL <= width
        assert float(y) + CELL <= height
