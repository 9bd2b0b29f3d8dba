"""The researcher's commands, for people and as JSON."""

from __future__ import annotations

import json

import pytest

import gpugoblin as gg
from gpugoblin.client import commands
from gpugoblin.client.session import Session
from gpugoblin.errors import ClientError
from gpugoblin.wire.remote import RemoteError
from tests.helpers.fake_node import FakeNode


@pytest.fixture(autouse=True)
def job(lab: Session, node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUGOBLIN_NODE", node.address)
    gg.array([1, 2, 3]).sum().save(name="sum")


def test_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.jobs([]) == 0
    out = capsys.readouterr().out
    assert "sum" in out
    assert "done" in out


def test_jobs_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.jobs(["--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["name"], found["state"], found["plan"]["tasks"]) == ("sum", "done", 4)


@pytest.mark.parametrize("verb", ["show", "wait", "certificate"])
def test_one_job(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.job([verb, "sum"]) == 0
    assert "sum" in capsys.readouterr().out
    assert commands.job([verb, "sum", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert ("signature" in shown) == (verb == "certificate")


def test_a_name_alone_is_shown_and_watched(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.job(["sum"]) == 0
    assert "plan" in capsys.readouterr().out
    assert commands.job(["sum", "--watch"]) == 0
    assert capsys.readouterr().out.startswith("sum: done")
    assert commands.job(["--json", "sum"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "sum"


def test_show_has_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.job(["sum"]) == 0
    out = capsys.readouterr().out
    assert "4 product check" in out
    assert "owner_a 4" in out
    assert commands.job(["--json", "sum"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["tasks"]["used"] == 4


def test_retry(node: FakeNode, capsys: pytest.CaptureFixture[str]) -> None:
    node.finish("sum", "cancelled")
    assert commands.job(["retry", "sum"]) == 0
    assert capsys.readouterr().out.startswith("sum: done")


def test_cancel(node: FakeNode, capsys: pytest.CaptureFixture[str]) -> None:
    node.hold = True
    gg.array([4, 5]).sum().save(name="long")
    with pytest.raises(ClientError, match="job_timeout"):
        commands.job(["wait", "long", "--timeout", "0.1"])
    assert commands.job(["cancel", "long"]) == 0
    assert capsys.readouterr().out.startswith("long: cancelled")


def test_delete(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.job(["delete", "sum"]) == 0
    assert capsys.readouterr().out == "sum: deleted\n"
    with pytest.raises(RemoteError, match="unknown_job"):
        commands.job(["show", "sum"])


def test_a_job_that_is_not_there() -> None:
    with pytest.raises(RemoteError, match="unknown_job"):
        commands.job(["show", "other"])


def test_the_node_can_be_named(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUGOBLIN_NODE")
    with pytest.raises(ClientError, match="not_connected"):
        commands.jobs([])
    assert commands.jobs(["--node", node.address]) == 0


@pytest.mark.parametrize("words", [["shout", "sum"], ["show"], ["show", "sum", "--timeout", "x"]])
def test_wrong_words(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        commands.job(words)
    assert ended.value.code == 2
    assert "usage: gpugoblin job" in capsys.readouterr().err
