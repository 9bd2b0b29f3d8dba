"""The state directory: private, whole files, one agent."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.agent.settings import read_settings
from app.agent.state import Enrolment, State, own_directory, shared_directory
from app.policy.intent import Intent
from gpugoblin.errors import AgentError, SettingsError
from gpugoblin.ids import DeviceId


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    made = State(tmp_path / "state")
    yield made
    made.close()


def test_directory_and_key_are_private(state: State) -> None:
    first = state.device_key().private_bytes_raw()
    assert state.device_key().private_bytes_raw() == first
    assert state.directory.stat().st_mode & 0o777 == 0o700
    assert (state.directory / "device.key").stat().st_mode & 0o777 == 0o600


def test_one_agent_a_directory(state: State) -> None:
    with pytest.raises(AgentError, match=str(os.getpid())) as caught:
        State(state.directory)
    assert caught.value.code == "agent_running"
    state.close()
    State(state.directory).close()


@pytest.mark.parametrize("kind", ["open", "file", "link"])
def test_an_unsafe_directory_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "state"
    if kind == "open":
        path.mkdir(mode=0o755)
    elif kind == "file":
        path.write_text("x")
    else:
        (tmp_path / "else").mkdir(mode=0o700)
        path.symlink_to(tmp_path / "else")
    with pytest.raises(AgentError) as caught:
        own_directory(path)
    assert caught.value.code == "state_unsafe"


def test_somebody_elses_directory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    monkeypatch.setattr("os.geteuid", lambda: 4711)
    with pytest.raises(AgentError, match="another user"):
        own_directory(tmp_path / "state")


def test_an_enrolment_counts_for_its_coordinator_and_key(state: State) -> None:
    assert state.enrolment("https://c", b"k") is None
    state.keep_enrolment(Enrolment("https://c", DeviceId("device_a"), b"k".hex()))
    found = state.enrolment("https://c", b"k")
    assert found is not None
    assert found.device == "device_a"
    assert state.enrolment("https://d", b"k") is None
    assert state.enrolment("https://c", b"j") is None


def test_intents_survive(state: State) -> None:
    assert state.intents() == {}
    intents = {0: Intent("pause", "i1", 99.0), 3: Intent("finish", "i2", drained=True)}
    state.keep_intents(intents)
    assert state.intents() == intents


def test_settings_change_by_revision(state: State) -> None:
    settings = read_settings(None)
    changed, kept = state.change_settings(settings, 0, {"queue.prefetch": 4})
    assert changed.number("queue.prefetch") == 4
    assert kept.revision == 1
    assert state.owner_settings() == kept
    with pytest.raises(AgentError) as caught:
        state.change_settings(settings, 0, {"queue.prefetch": 5})
    assert caught.value.code == "settings_changed_meanwhile"
    with pytest.raises(SettingsError):
        state.change_settings(settings, 1, {"queue.prefetch": -1})
    assert state.owner_settings() == kept


@pytest.mark.parametrize("text", [b"", b"{", b'{"cards": {"x": {}}}', b'{"other": 1}'])
def test_a_damaged_file_is_said(state: State, text: bytes) -> None:
    (state.directory / "intents.json").write_bytes(text)
    with pytest.raises(AgentError) as caught:
        state.intents()
    assert caught.value.code == "state_damaged"


def test_a_disk_that_cannot_be_written_keeps_the_old_file(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.keep_intents({0: Intent("pause", "i1")})

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(AgentError, match="No space left"):
        state.keep_intents({0: Intent("resume", "i2")})
    monkeypatch.undo()
    assert state.intents()[0].intent == "i1"
    assert not list(state.directory.glob(".intents*"))


def test_what_a_kill_left_half_written_goes_and_nothing_else(tmp_path: Path) -> None:
    directory = own_directory(tmp_path / "state")
    half = [directory / ".cards.json.0123abcd", directory / ".kernels-00ff.bin.89abcdef"]
    kept = [directory / ".cards.json", directory / ".cards.json.0123abcg", directory / "cards.json"]
    for path in (*half, *kept):
        path.write_bytes(b"x")
    link = directory / ".link.0123abcd"
    link.symlink_to(kept[0])
    State(directory).close()
    assert not any(path.exists() for path in half)
    assert all(path.exists() for path in (*kept, link))


def test_a_shared_directory_stays_so_over_starts(tmp_path: Path) -> None:
    directory = tmp_path / "control"
    for _ in range(2):
        shared_directory(directory, True)
        assert stat.S_IMODE(directory.stat().st_mode) == 0o755
    with pytest.raises(AgentError, match="others may enter"):
        shared_directory(directory, False)
