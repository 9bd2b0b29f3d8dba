"""When is looked for a newer version, and what is said of the answer."""

from __future__ import annotations

import asyncio
import random
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from app.agent import updates as module
from app.agent.updates import DAY_S, FIRST_S, PATIENCE_DAYS, Answer, Updates, ask
from gpugoblin.errors import AgentError
from tests.helpers.updates import served

Said = list[tuple[str, dict[str, object]]]


class HandClock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now_s = 1_800_000_000.0

    def advance(self, by_s: float) -> None:
        self.now_s += by_s

    def wall_s(self) -> float:
        return self.now_s

    def monotonic_s(self) -> float:
        return self.now_s


class Scene:
    def __init__(
        self, folder: Path, answer: Callable[[], Answer], *, is_wanted: bool = True
    ) -> None:
        self.clock = HandClock()
        self.said: Said = []
        self.asked = 0
        self.trust = folder / "trust"
        self.trust.mkdir()
        (self.trust / "root.json").write_text("{}")

        async def asks(state: Path, trust: Path) -> Answer:
            self.asked += 1
            return answer()

        self.updates = Updates(
            lambda: is_wanted, folder / "updates", lambda *said: self.said.append(said), self.clock,
            random.Random(1), trust=self.trust, asks=asks, own="1.1.0",
        )  # fmt: skip


def answered(version: str) -> Callable[[], Answer]:
    return lambda: Answer(version, "https://example.org")


def failed(code: str) -> Callable[[], Answer]:
    return lambda: Answer(code=code, address="https://example.org", reason="no")


def test_a_newer_version_is_announced(tmp_path: Path) -> None:
    scene = Scene(tmp_path, answered("1.2.0"))
    asyncio.run(scene.updates.look())
    assert scene.said == [
        ("update_there", {"version": "1.2.0", "own": "1.1.0", "page": "https://example.org"})
    ]
    assert stat.S_IMODE((tmp_path / "updates").stat().st_mode) == 0o700


@pytest.mark.parametrize("version", ["1.1.0", "1.0.9", ""])
def test_what_is_no_newer_is_not_worth_a_word(tmp_path: Path, version: str) -> None:
    scene = Scene(tmp_path, answered(version))
    asyncio.run(scene.updates.look())
    assert scene.said == []


@pytest.mark.parametrize("code", ["update_refused", "update_stale"])
def test_what_may_be_an_attack_is_said(tmp_path: Path, code: str) -> None:
    scene = Scene(tmp_path, failed(code))
    asyncio.run(scene.updates.look())
    ((said, fields),) = scene.said
    assert said == "update_unclear"
    assert "https://example.org" in str(fields["why"])


def test_a_code_of_another_version_is_passed_over(tmp_path: Path) -> None:
    scene = Scene(tmp_path, failed("never_heard"))
    asyncio.run(scene.updates.look())
    assert scene.said == []


def test_an_absence_is_said_when_it_has_lasted(tmp_path: Path) -> None:
    scene = Scene(tmp_path, failed("update_away"))
    asyncio.run(scene.updates.look())
    scene.clock.advance(PATIENCE_DAYS * DAY_S - 1)
    asyncio.run(scene.updates.look())
    assert scene.said == []
    scene.clock.advance(2)
    asyncio.run(scene.updates.look())
    assert [code for code, _fields in scene.said] == ["update_unclear"]


def test_it_is_asked_once_a_day_whatever_starts_anew(tmp_path: Path) -> None:
    scene = Scene(tmp_path, answered("1.1.0"))
    assert FIRST_S <= scene.updates.wait_s() <= FIRST_S + 0.1 * DAY_S
    asyncio.run(scene.updates.look())
    scene.clock.advance(1000)
    assert DAY_S - 1001 <= scene.updates.wait_s() <= 1.1 * DAY_S - 999
    scene.clock.advance(10 * DAY_S)
    assert scene.updates.wait_s() <= FIRST_S + 0.1 * DAY_S


async def follow_a_while(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    real = asyncio.sleep

    async def sleep(duration_s: float) -> None:
        slept.append(duration_s)
        if len(slept) > 4:
            await real(60)
        await real(0)

    monkeypatch.setattr(module.asyncio, "sleep", sleep)
    task = asyncio.create_task(scene.updates.follow())
    while len(slept) < 5 and not task.done():
        await real(0)
    task.cancel()
    await asyncio.wait([task])
    return slept


def test_off_means_that_nothing_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path, answered("1.2.0"), is_wanted=False)
    assert len(asyncio.run(follow_a_while(scene, monkeypatch))) == 5
    assert (scene.asked, scene.said) == (0, [])


def test_on_means_that_it_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path, answered("1.2.0"))
    asyncio.run(follow_a_while(scene, monkeypatch))
    assert scene.asked == len(scene.said) == 4


def test_where_nothing_is_trusted_nothing_waits(tmp_path: Path) -> None:
    scene = Scene(tmp_path, answered("1.2.0"))
    (scene.trust / "root.json").unlink()
    asyncio.run(asyncio.wait_for(scene.updates.follow(), 5))
    assert scene.asked == 0


def test_the_child_answers_for_a_real_repository(tmp_path: Path) -> None:
    with served(tmp_path) as repository:
        repository.repository.announce("1.2.0")
        answer = asyncio.run(ask(tmp_path / "state", repository.trust))
        assert answer == Answer("1.2.0")
        repository.answer = lambda path: (404, b"")
        assert asyncio.run(ask(tmp_path / "state", repository.trust)).code == "update_away"


def test_a_child_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ASK_LIMIT_S", 0.05)
    with pytest.raises(AgentError) as refusal:
        asyncio.run(ask(tmp_path / "state", tmp_path))
    assert refusal.value.code == "update_away"


def test_without_a_process_for_the_child_it_is_as_if_nobody_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(*_: object, **__: object) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(module.asyncio, "create_subprocess_exec", none)
    with pytest.raises(AgentError) as caught:
        asyncio.run(ask(tmp_path, tmp_path))
    assert caught.value.code == "update_away"


def test_a_folder_that_cannot_be_made_does_not_end_the_looking(tmp_path: Path) -> None:
    scene = Scene(tmp_path, answered("1.2.0"))
    (tmp_path / "updates").write_text("in the way")
    asyncio.run(scene.updates.look())
    assert [code for code, _fields in scene.said] == ["update_there"]
