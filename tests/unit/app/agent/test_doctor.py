"""The doctor says what is well, and the fix for what is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.agent.doctor import examine_alone
from app.agent.locks import take_card
from app.agent.settings import Settings, read_settings
from app.agent.state import State
from app.control.messages import Finding
from gpugoblin.errors import AgentError, EngineError
from tests.helpers.agent_network import FakeCoordinator, settings_text
from tests.helpers.stub_engine import StubMaker


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[FakeCoordinator]:
    made = FakeCoordinator(tmp_path)
    yield made
    made.close()


def settings(tmp_path: Path, coordinator: FakeCoordinator, **values: Any) -> Settings:
    path = tmp_path / "a.toml"
    path.write_text(settings_text(tmp_path / "state", coordinator))
    return Settings({**read_settings(path).values, **values})


def found(findings: tuple[Finding, ...]) -> dict[str, bool]:
    return {finding.subject: finding.is_well for finding in findings}


def test_a_healthy_machine_that_is_not_enrolled(
    tmp_path: Path, coordinator: FakeCoordinator
) -> None:
    findings = examine_alone(settings(tmp_path, coordinator), StubMaker())
    assert found(findings) == {
        "state": True, "coordinator": True, "disk": True, "enrolment": False, "sandbox": True,
    }  # fmt: skip


def test_what_is_wrong_has_its_fix(tmp_path: Path, coordinator: FakeCoordinator) -> None:
    coordinator.answer = lambda *_: (503, b"", {})  # type: ignore[method-assign]
    chosen = settings(tmp_path, coordinator, **{"cache.least_free_bytes": 2**60})

    def refuses(*_: Any) -> Any:
        raise EngineError("engine_start_failed", reason="no walls", python="x")

    findings = examine_alone(chosen, refuses)
    ill = {finding.subject for finding in findings if not finding.is_well}
    assert ill == {"coordinator", "disk", "enrolment", "sandbox"}
    assert all(finding.next_step for finding in findings if not finding.is_well)


def test_a_card_that_another_agent_lends(tmp_path: Path, coordinator: FakeCoordinator) -> None:
    chosen = settings(tmp_path, coordinator, **{"processor.share": False})
    try:
        lock = take_card("cpu")
    except AgentError:
        lock = None  # an agent of this machine lends it: all the better
    findings = examine_alone(chosen, StubMaker())
    if lock is not None:
        lock.release()
    assert found(findings)["card"] is False


def test_a_directory_in_use(tmp_path: Path, coordinator: FakeCoordinator) -> None:
    chosen = settings(tmp_path, coordinator)
    state = State(chosen.state_directory)
    findings = examine_alone(chosen, StubMaker())
    state.close()
    assert found(findings) == {"state": False}
