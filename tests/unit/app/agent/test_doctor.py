"""The doctor says what is well, and the fix for what is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from app.agent.doctor import about_cards, about_host, as_found, examine_alone, on_trial
from app.agent.locks import take_card
from app.agent.settings import Settings, read_settings
from app.agent.state import Enrolment, State
from app.control.messages import Finding
from app.host.cards import Discovery, FoundCard
from app.probes.gpus.drm import DrmCard
from app.sandbox.host import read_host
from app.sandbox.host_fixes import fix
from gpugoblin.clock import SystemClock
from gpugoblin.errors import AgentError, EngineError, WireError
from gpugoblin.ids import DeviceId
from gpugoblin.wire.signing import fingerprint, public_key_bytes
from tests.helpers.agent_network import FakeCoordinator, Reply, refusal, settings_text
from tests.helpers.fake_hosts import made
from tests.helpers.software_card import only_software
from tests.helpers.stub_engine import StubMaker
from tests.unit.app.host.test_cards import CARD


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
        "host": True, "state": True, "coordinator": True, "clock": True, "disk": True,
        "enrolment": False, "sandbox": True,
    }  # fmt: skip


def test_nothing_is_written_where_nothing_is(
    tmp_path: Path, coordinator: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = settings(tmp_path, coordinator)
    before = sorted(tmp_path.rglob("*"))
    seen: list[Path] = []

    def make(settings: Settings, directory: Path) -> Any:
        seen.append(directory)
        return StubMaker()(settings, directory)

    findings = examine_alone(chosen, make)
    assert "holds no key yet" in findings[1].what
    assert sorted(tmp_path.rglob("*")) == before
    assert not seen[0].exists()


def test_a_state_directory_is_left_as_it_is(tmp_path: Path, coordinator: FakeCoordinator) -> None:
    chosen = settings(tmp_path, coordinator)
    state = State(chosen.state_directory)
    key = public_key_bytes(state.device_key())
    state.keep_enrolment(Enrolment(coordinator.address, DeviceId("device_a"), key.hex()))
    state.close()
    before = {path: path.stat().st_mtime_ns for path in chosen.state_directory.rglob("*")}
    findings = examine_alone(chosen, StubMaker())
    assert found(findings)["enrolment"]
    assert fingerprint(key) in findings[1].what
    after = {path: path.stat().st_mtime_ns for path in chosen.state_directory.rglob("*")}
    assert after == before


def test_a_wrong_clock_is_found_and_named(tmp_path: Path, coordinator: FakeCoordinator) -> None:
    class Late(SystemClock):
        def wall_s(self) -> float:
            return super().wall_s() - 7200.0

    answer = coordinator.answer

    def strict(method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        try:
            return answer(method, path, headers, body)
        except WireError as error:
            return refusal(401, error.code, error.what)

    coordinator.answer = strict  # type: ignore[method-assign]
    findings = examine_alone(settings(tmp_path, coordinator), StubMaker(), Late())
    (clock,) = [finding for finding in findings if finding.subject == "clock"]
    assert not clock.is_well
    assert "signature_clock_wrong" in clock.what


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


IN_DOCKER = "docker run --security-opt seccomp=unconfined"


@pytest.mark.parametrize("kind", ["debian13", "ubuntu24.04", "docker", "wsl2"])
def test_a_machine_on_which_walls_stand_is_named_and_no_more(tmp_path: Path, kind: str) -> None:
    host = read_host(made(tmp_path, kind), lambda: 6)
    (named,) = about_host(host, [Finding("sandbox", True, "An engine starts.")])
    assert (named.subject, named.is_well) == ("host", True)
    assert named.what == f"This machine is {host.name}."
    assert about_host(host, []) == (named,)


def test_where_they_do_not_stand_what_is_in_the_way_has_its_fix(tmp_path: Path) -> None:
    host = read_host(made(tmp_path, "docker", usr__bin__bwrap=None), lambda: 6)
    refused = Finding("sandbox", False, "bubblewrap is missing.", fix(host, "bwrap_missing"))
    named, container = about_host(host, [refused])
    assert named.is_well
    assert not container.is_well
    assert container.what == (
        "This machine is Debian GNU/Linux 12 (bookworm), in a container of Docker: the container"
        " keeps programs from making namespaces."
    )
    assert IN_DOCKER in container.next_step
    other = Finding("sandbox", False, "It ended.", "Report this line.")
    assert [each.next_step for each in about_host(host, [other])[1:]] == [
        container.next_step, refused.next_step
    ]  # fmt: skip


def lines(discovery: Discovery, *kernels: DrmCard, **values: Any) -> list[Finding]:
    chosen = Settings({**read_settings(None).values, **values})
    return about_cards(chosen, discovery, as_found, lambda: kernels)


def test_each_card_has_a_line() -> None:
    able = FoundCard(**CARD)
    unsuited = replace(able, address="0000:02:00.0", unsuited="The card Y lacks shaderInt64.")
    software = replace(able, kind="software", address="")
    trouble = EngineError("card_listing_failed", driver="x.json", reason="it crashed")
    found = lines(
        Discovery((able, unsuited, software), (trouble,)),
        DrmCard("0000:01:00.0", 0x1002, None, None),
        DrmCard("0000:03:00.0", 0x10DE, None, None),
        DrmCard("0000:04:00.0", 0x1002, None, None),
        DrmCard("0000:05:00.0", 0x1234, None, None),
    )
    assert {finding.subject for finding in found} == {"card"}
    assert [finding.is_well for finding in found] == [False, True, False, True, False, False]
    assert "it crashed" in found[0].what
    assert "Some card (discrete) through Vulkan with radv: 1 operators, float32" in found[1].what
    assert "shaderInt64" in found[2].what
    assert "`cards.software` is false" in found[3].what
    assert "0000:03:00.0" in found[4].what
    assert "libGLX_nvidia" in found[4].next_step
    assert "mesa-vulkan-drivers" in found[5].next_step


@pytest.mark.slow
def test_a_software_card_is_tried_in_its_walls() -> None:
    card = only_software().cards[0]
    more = {"cards.software": True, "processor.share": True}
    chosen = Settings({**read_settings(None).values, **more})
    told = on_trial(chosen, card)
    assert told.is_well, told
    assert "walled in at the level full" in told.what
    ill = on_trial(chosen, replace(card, driver_file="/nowhere.json"))
    assert not ill.is_well
    assert "mesa-vulkan-drivers" in ill.next_step
