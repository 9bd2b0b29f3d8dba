"""Power limits: set while a card lends, put back exactly, whatever happens in between."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.agent.fleet import Fleet
from app.agent.locks import CardLock, take_card
from app.agent.power_limits import RETRY_S, PowerLimits
from app.agent.power_records import PowerRecords
from app.control import messages as m
from app.control.client import ControlClient
from app.host.cards import Discovery, FoundCard
from app.policy.snapshot import CardFacts, LoadFacts, PlayFacts, PowerFacts
from app.probes.gather import Machine
from app.probes.idle.source import Input
from gpugoblin.errors import AgentError
from tests.helpers.agent_network import eventually
from tests.helpers.agent_run import Scene
from tests.helpers.fake_nvml import FakeCard, FakeNvml
from tests.helpers.stub_engine import StubMaker
from tests.unit.app.agent.test_sixteen_cards import Look
from tests.unit.app.host.test_cards import CARD

ONE, TWO, THREE = (f"GPU-{os.getpid()}-{number}" for number in (1, 2, 3))
"""Cards are locked for the whole machine, and other tests have some, too."""


class Bench:
    """Two cards and what was refused."""

    def __init__(self, directory: Path) -> None:
        self.place = directory / "records"
        self.one = FakeCard(ONE, "00000000:01:00.0")
        self.two = FakeCard(TWO, "00000000:02:00.0", limit_mw=250_500)
        self.nvml = FakeNvml([self.one, self.two])
        self.refused: list[tuple[str, str]] = []
        self.now_s = 0.0

    def limits(self) -> PowerLimits:
        return PowerLimits(
            PowerRecords(self.place),
            lambda: self.nvml,
            lambda identity, why: self.refused.append((identity, why)),
            lambda: self.now_s,
        )

    def pass_a_minute(self) -> None:
        self.now_s += RETRY_S

    @property
    def now(self) -> tuple[int, int]:
        return self.one.limit_mw, self.two.limit_mw

    def kept(self) -> dict[str, Any]:
        return {path.stem: json.loads(path.read_text()) for path in self.place.glob("*.json")}

    def keep(self, identity: str, data: bytes) -> None:
        self.place.mkdir(mode=0o700, exist_ok=True)
        (self.place / f"{identity}.json").write_bytes(data)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def kill(limits: PowerLimits) -> None:
    """As by kill -9: nothing is put back, and the kernel lets the locks go."""
    limits._lane.end(limits._records.drop)
    limits._lane.join(1.0)
    limits._records.drop()


def run(
    limits: PowerLimits, *steps: Callable[[], None], closes: bool = True, stays: bool = False
) -> None:
    """Each step, and all that follows from it. `stays`: the agent goes on, without a loop."""

    async def script() -> None:
        for step in steps:
            step()
            while limits._calls:
                await asyncio.sleep(0.001)

    asyncio.run(script())
    if stays:
        return
    if closes:
        limits.close()
    else:
        kill(limits)


def test_a_cap_holds_while_it_is_wanted_and_the_old_limit_comes_back(bench: Bench) -> None:
    limits = bench.limits()
    seen: list[tuple[int, int]] = []
    run(
        limits,
        lambda: limits.want({ONE: 200, TWO: 120}), lambda: seen.append(bench.now),
        lambda: limits.want({ONE: 150, TWO: 120}), lambda: seen.append(bench.now),
        lambda: limits.want({TWO: 120}), lambda: seen.append(bench.now),
    )  # fmt: skip
    assert seen == [(200_000, 120_000), (150_000, 120_000), (350_000, 120_000)]
    assert bench.now == (350_000, 250_500)  # the agent has ended
    assert bench.kept() == {}
    assert bench.refused == []


def test_the_old_limit_is_on_disk_before_it_is_changed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[dict[str, Any]] = []
    real = bench.nvml.nvmlDeviceSetPowerManagementLimit

    def noted(card: FakeCard, limit_mw: int) -> None:
        known.append(bench.kept())
        real(card, limit_mw)

    monkeypatch.setattr(bench.nvml, "nvmlDeviceSetPowerManagementLimit", noted)
    limits = bench.limits()
    run(limits, lambda: limits.want({ONE: 200}), closes=False)
    assert known == [{ONE: {"before_mw": 350_000, "set_mw": 200_000}}]


def test_the_next_start_puts_back_what_a_kill_left(bench: Bench) -> None:
    limits = bench.limits()
    run(limits, lambda: limits.want({ONE: 200, TWO: 120}), closes=False)
    assert bench.now == (200_000, 120_000)
    bench.two.limit_mw = 180_000  # somebody else has changed it since: it is theirs
    again = bench.limits()
    run(again, again.begin)
    assert bench.now == (350_000, 180_000)
    assert bench.kept() == {}


def test_killed_between_the_disk_and_the_driver_nothing_is_changed(bench: Bench) -> None:
    bench.keep(ONE, json.dumps({"before_mw": 300_000, "set_mw": 200_000}).encode())
    limits = bench.limits()
    run(limits, limits.begin)
    assert bench.nvml.limits_set == []
    assert bench.kept() == {}


@pytest.mark.parametrize("ends", ["killed", "refused"])
def test_of_two_changes_either_may_hold_and_is_put_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    real = bench.nvml.nvmlDeviceSetPowerManagementLimit

    def dies(card: FakeCard, limit_mw: int) -> None:
        if limit_mw == 200_000:
            raise SystemExit(1) if ends == "killed" else bench.nvml.NVMLError("Unknown Error")
        real(card, limit_mw)

    monkeypatch.setattr(bench.nvml, "nvmlDeviceSetPowerManagementLimit", dies)
    limits = bench.limits()
    run(limits, lambda: limits.want({ONE: 250}), closes=False)
    if ends == "killed":  # between the disk and the driver
        with pytest.raises(SystemExit):
            limits._set(ONE, 200_000)
        kill(limits)
        assert bench.kept()[ONE] == {"before_mw": 350_000, "set_mw": 200_000, "last_mw": 250_000}
        again = bench.limits()
        run(again, again.begin)
    else:
        again = bench.limits()
        run(again, lambda: again.want({ONE: 200}), closes=False)
        assert bench.refused == [(ONE, "Unknown Error")]
    assert bench.now[0] == 350_000
    assert bench.kept() == {}


def test_a_limit_that_somebody_lowered_meanwhile_is_not_raised(bench: Bench) -> None:
    limits = bench.limits()
    run(
        limits,
        lambda: limits.want({ONE: 250}),
        lambda: setattr(bench.one, "limit_mw", 150_000),
        lambda: limits.want({ONE: 240}),
    )
    assert bench.now[0] == 150_000
    assert bench.kept() == {}


def test_what_could_not_be_done_is_tried_again_later(bench: Bench) -> None:
    limits = bench.limits()
    run(limits, lambda: limits.want({ONE: 200}), closes=False)
    limits = bench.limits()
    library, bench.nvml = bench.nvml, None  # type: ignore[assignment] # its driver is loaded late
    seen: list[int] = []

    def want() -> None:
        limits.want({})

    def see() -> None:
        seen.append(bench.one.limit_mw)

    def load() -> None:
        bench.nvml = library
        bench.one.is_lost = True

    def find() -> None:
        bench.one.is_lost = False

    run(
        limits, limits.begin, load, bench.pass_a_minute, want, see, find, want, see,
        bench.pass_a_minute, want, see, closes=False,
    )  # fmt: skip
    assert seen == [200_000, 200_000, 350_000]
    assert bench.kept() == {}


def test_a_driver_that_comes_later_is_told_what_is_wanted(bench: Bench) -> None:
    library, bench.nvml = bench.nvml, None  # type: ignore[assignment] # not loaded yet
    limits = bench.limits()

    def load() -> None:
        bench.nvml = library

    def want() -> None:
        limits.want({ONE: 200})

    run(limits, want, load, want, bench.pass_a_minute, want, closes=False)
    assert bench.now[0] == 200_000
    assert library.limits_set == [(ONE, 200_000)]


def test_a_card_that_was_not_there_is_asked_again_when_it_lends_again(bench: Bench) -> None:
    limits = bench.limits()
    bench.one.is_lost = True
    run(
        limits,
        lambda: limits.want({ONE: 200}), lambda: limits.want({}),
        lambda: limits.want({ONE: 200}), lambda: limits.want({}),
        lambda: setattr(bench.one, "is_lost", False),
        lambda: limits.want({ONE: 200}),
        closes=False,
    )  # fmt: skip
    assert bench.now[0] == 200_000
    assert bench.refused == [(ONE, "Not Found")]  # said once


def test_what_a_driver_rounds_is_still_ours(bench: Bench) -> None:
    limits = bench.limits()
    run(limits, lambda: limits.want({ONE: 200}), closes=False)
    bench.one.limit_mw = 200_400
    again = bench.limits()
    run(again, again.begin)
    assert bench.now[0] == 350_000


def test_a_limit_is_never_raised_and_never_below_what_the_card_takes(bench: Bench) -> None:
    limits = bench.limits()
    run(limits, lambda: limits.want({ONE: 390, TWO: 20}), closes=False)
    assert bench.nvml.limits_set == [(TWO, 100_000)]


def test_without_the_right_it_is_said_once_and_nothing_is_kept(bench: Bench) -> None:
    bench.one.may_set = False
    limits = bench.limits()
    run(
        limits,
        lambda: limits.want({ONE: 200, TWO: 120}),
        lambda: limits.want({ONE: 210, TWO: 120}),
        closes=False,
    )  # fmt: skip
    assert bench.refused == [(ONE, "Insufficient Permissions")]
    assert bench.now == (350_000, 120_000)
    assert list(bench.kept()) == [TWO]


def test_a_lost_card_is_put_back_when_it_is_there_again(bench: Bench) -> None:
    limits = bench.limits()
    run(limits, lambda: limits.want({ONE: 200}), lambda: setattr(bench.one, "is_lost", True))
    assert list(bench.kept()) == [ONE]
    bench.one.is_lost = False
    again = bench.limits()
    run(again, again.begin)
    assert bench.now[0] == 350_000


def test_a_driver_that_does_not_answer_changes_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down() -> None:
        raise bench.nvml.NVMLError("Driver Not Loaded")

    monkeypatch.setattr(bench.nvml, "nvmlInit", down)
    limits = bench.limits()
    run(limits, lambda: limits.want({ONE: 200}))
    assert (bench.nvml.limits_set, bench.refused) == ([], [])


def test_a_disk_that_cannot_be_written_leaves_the_limit(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, value: object) -> None:
        raise AgentError("state_unwritable", path=path, reason="No space left on device")

    monkeypatch.setattr("app.agent.power_records.write_kept", full)
    limits = bench.limits()
    run(limits, lambda: limits.want({ONE: 200}))
    assert bench.nvml.limits_set == []
    assert [identity for identity, _ in bench.refused] == [ONE]
    assert "No space left" in bench.refused[0][1]


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"before_mw": -1, "set_mw": 1}', b'{"before_mw": 1}', b"\xff"]
)
def test_a_damaged_file_is_as_none(bench: Bench, data: bytes) -> None:
    bench.keep(ONE, data)
    limits = bench.limits()
    run(limits, limits.begin, lambda: limits.want({ONE: 200}))
    assert bench.now[0] == 350_000
    assert bench.kept() == {}


def test_without_a_driver_there_is_nothing_to_do(tmp_path: Path) -> None:
    place = tmp_path / "records"
    limits = PowerLimits(PowerRecords(place), lambda: None, lambda *_: None, lambda: 0.0)
    run(limits, limits.begin, lambda: limits.want({ONE: 200}))
    assert not place.exists()


def test_two_agents_leave_no_card_at_the_limit_of_the_other(bench: Bench) -> None:
    """Of one that was killed the other takes over what the limit was at first."""
    killed, other = bench.limits(), bench.limits()
    run(killed, lambda: killed.want({ONE: 200}), closes=False)
    run(other, lambda: other.want({ONE: 150}))
    assert bench.nvml.limits_set == [(ONE, 200_000), (ONE, 150_000), (ONE, 350_000)]
    assert bench.kept() == {}


def test_the_limit_of_an_agent_that_runs_is_left_to_it(bench: Bench) -> None:
    running, other = bench.limits(), bench.limits()
    run(running, lambda: running.want({ONE: 200}), stays=True)
    run(other, other.begin, lambda: other.want({TWO: 120}))
    assert bench.now == (200_000, 250_500)
    assert list(bench.kept()) == [ONE]
    running.close()
    assert bench.now == (350_000, 250_500)


def test_a_card_that_goes_from_one_agent_to_another(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.agent.power_records.WAIT_S", 0.0)
    first, second = bench.limits(), bench.limits()
    run(first, lambda: first.want({ONE: 200}), stays=True)
    run(second, lambda: second.want({ONE: 150}), stays=True)
    assert bench.now[0] == 200_000
    assert bench.refused == []  # it passes by itself
    run(first, lambda: first.want({}), stays=True)
    run(second, bench.pass_a_minute, lambda: second.want({ONE: 150}), stays=True)
    assert bench.now[0] == 150_000
    first.close()
    assert bench.now[0] == 150_000
    second.close()
    assert bench.now[0] == 350_000


@pytest.mark.parametrize("error", [1, 9, 15])
def test_a_driver_that_was_reloaded_is_told_again_what_is_wanted(bench: Bench, error: int) -> None:
    limits = bench.limits()
    seen: list[int] = []
    run(
        limits,
        lambda: limits.want({ONE: 200}), lambda: bench.nvml.reload(error),
        lambda: seen.append(bench.one.limit_mw),
        lambda: limits.want({ONE: 180}), lambda: seen.append(bench.one.limit_mw),
    )  # fmt: skip
    assert seen == [350_000, 180_000]
    assert bench.now[0] == 350_000
    assert (bench.refused, bench.kept()) == ([], {})


def test_the_library_itself_has_what_is_called() -> None:
    import pynvml

    called = {name for name in dir(FakeNvml) if name.lower().startswith("nvml")}
    assert len(called) > 20
    assert called <= set(dir(pynvml))
    values = [name for name in called if name.startswith("NVML_ERROR")]
    assert [getattr(pynvml, name) for name in values] == [getattr(FakeNvml, n) for n in values]


def test_the_agent_caps_a_card_while_it_lends_and_says_which_it_cannot(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(fleet: Fleet, discovery: Discovery) -> None:
        for number, identity in ((1, ONE), (2, TWO)):
            fleet._add(number, "vulkan", identity, None)
        fleet._add(3, "vulkan", THREE, FoundCard(**CARD))

    monkeypatch.setattr(Fleet, "find", find)
    monkeypatch.setattr("app.agent.surroundings.load_nvml", lambda: bench.nvml)
    monkeypatch.setattr("app.agent.surroundings.PowerRecords", lambda: PowerRecords(bench.place))
    bench.two.may_set = False
    bench.nvml.cards.append(FakeCard(THREE, "00000000:03:00.0"))
    asked: list[str] = []

    def take(identity: str, *, is_shared: bool = False) -> CardLock:
        asked.append(identity)
        return take_card(identity, is_shared=is_shared)

    monkeypatch.setattr("app.agent.fleet.take_card", take)
    facts = {ONE: CardFacts(0, "cuda"), TWO: CardFacts(0, "cuda"), THREE: CardFacts(0, "cuda")}
    polled = (Look("cards", facts), Look("terminals", Input(5.0)), Look("play", PlayFacts()),
              Look("power", PowerFacts()), Look("load", LoadFacts(0.0, 2**40, 2**40)))  # fmt: skip

    def adjust(machine: Machine) -> Machine:
        environment = {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nowhere"}
        return replace(machine, polled=polled, environment=lambda: environment)

    def script() -> None:
        directory = scene.state / "control"
        eventually(lambda: (directory / "control.sock").exists())
        with ControlClient(directory) as control:
            # Without a task the engine soon ends by itself, and the limit is put back then.
            eventually(lambda: (ONE, 200_000) in bench.nvml.limits_set)
            eventually(lambda: scene.said("Card 2: its power limit cannot be set"))
            eventually(lambda: THREE in asked)  # another agent lends it: its limit is that one's
            control.ask(m.Pause(1, "first", (1,)))
            eventually(lambda: bench.now == (350_000, 250_500))

    (tmp_path / "scene").mkdir()
    scene = Scene(tmp_path / "scene")
    others = take_card(THREE)
    try:
        text = f"calm.after_s = 0\npower.cap_w = 240\ncards.own = ['{ONE} power.cap_w = 200']\n"
        scene.config.write_text(text + scene.config.read_text())
        scene.fixed_config = scene.directory / "agent.toml"
        scene.lend(script, StubMaker(), adjust)
    finally:
        scene.close()
        others.release()
    assert bench.now == (350_000, 250_500)
    assert set(bench.nvml.limits_set) == {(ONE, 200_000), (ONE, 350_000)}
    assert sum("cannot be set" in line for line in scene.lines) == 1
