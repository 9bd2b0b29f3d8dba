"""From a code to the file that says so, and what no longer counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.agent.enrolment import coordinator_peer, enrol_device, is_enrolled
from app.agent.link import Link
from app.agent.settings import read_settings
from app.agent.state import State
from gpugoblin.clock import SystemClock
from gpugoblin.errors import AgentError
from tests.helpers.agent_network import FakeCoordinator, settings_text


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[FakeCoordinator]:
    made = FakeCoordinator(tmp_path)
    yield made
    made.close()


def test_an_enrolment_is_kept(tmp_path: Path, coordinator: FakeCoordinator) -> None:
    path = tmp_path / "a.toml"
    path.write_text(settings_text(tmp_path / "state", coordinator))
    settings = read_settings(path)
    state = State(settings.state_directory)
    key = state.device_key()
    assert not is_enrolled(settings, state, key)
    link = Link(coordinator_peer(settings), key, SystemClock())
    shown: list[str] = []
    enrol_device(link, state, key, lambda each: shown.append(each.fingerprint), lambda _: None)
    link.close()
    assert is_enrolled(settings, state, key)
    state.close()
    assert len(shown) == 1
    assert coordinator.requests["POST /v1/enrol/poll"] == 2


def test_no_coordinator_no_enrolment() -> None:
    with pytest.raises(AgentError) as caught:
        coordinator_peer(read_settings(None))
    assert caught.value.code == "coordinator_missing"
