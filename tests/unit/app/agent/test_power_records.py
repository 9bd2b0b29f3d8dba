"""Records of power limits: one place for the machine, a lock that dies with its process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.agent.power_records import Changed, PowerRecords
from gpugoblin.errors import AgentError

CARD = "GPU-1f2e3d4c"
CHANGED = Changed(350_000, 200_000)


def code(records: PowerRecords, identity: str = CARD) -> str:
    with pytest.raises(AgentError) as error:
        records.take(identity, 0.0)
    return error.value.code


def test_a_record_is_there_for_every_agent_and_its_lock_for_one(tmp_path: Path) -> None:
    mine, other = PowerRecords(tmp_path / "p"), PowerRecords(tmp_path / "p")
    assert (mine.left(), mine.take(CARD)) == ((), None)
    mine.keep(CARD, CHANGED)
    assert (mine.take(CARD), mine.held()) == (CHANGED, (CARD,))
    assert other.left() == (CARD,)
    assert code(other) == "power_limit_held"
    mine.forget(CARD)
    assert (mine.held(), other.left(), other.take(CARD)) == ((), (), None)
    other.drop()


def test_the_lock_says_whose_it_is(tmp_path: Path) -> None:
    mine = PowerRecords(tmp_path / "p")
    mine.take(CARD)
    with pytest.raises(AgentError, match=f"process {os.getpid()}"):
        PowerRecords(tmp_path / "p").take(CARD, 0.0)
    mine.drop()


def test_what_a_killed_process_held_is_free(tmp_path: Path) -> None:
    place = tmp_path / "p"
    script = (
        "import sys, pathlib, time\n"
        "from app.agent.power_records import Changed, PowerRecords\n"
        f"records = PowerRecords(pathlib.Path({str(place)!r}))\n"
        f"records.take({CARD!r})\nrecords.keep({CARD!r}, Changed(350000, 200000))\n"
        "print('held', flush=True)\ntime.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    records = PowerRecords(place)
    assert code(records) == "power_limit_held"
    child.kill()
    child.wait()
    child.stdout.close()
    assert records.take(CARD) == CHANGED
    records.drop()


def test_names_that_are_no_identities_are_passed_over(tmp_path: Path) -> None:
    for name in ("GPU-1.json", "GPU-2.lock", ".json", "-x.json", "a b.json", "x" * 90 + ".json"):
        (tmp_path / name).touch()
    assert PowerRecords(tmp_path).left() == ("GPU-1",)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
def test_a_place_that_others_may_write_is_not_taken(tmp_path: Path, mode: int) -> None:
    place = tmp_path / "p"
    place.mkdir()
    place.chmod(mode)
    assert code(PowerRecords(place)) == "power_limit_forbidden"


def test_a_place_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    assert code(PowerRecords(tmp_path / "file")) == "state_unwritable"
    assert code(PowerRecords(tmp_path / "link")) == "power_limit_forbidden"
    assert code(PowerRecords(tmp_path / "none/p")) == "state_unwritable"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_place_of_another_user(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir(mode=0o700)
    os.chown(tmp_path / "p", 61845, 61845)
    assert code(PowerRecords(tmp_path / "p")) == "power_limit_forbidden"


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    place = tmp_path / "p"
    place.mkdir(mode=0o700)
    (place / f"{CARD}.lock").symlink_to(tmp_path / "elsewhere")
    assert code(PowerRecords(place)) == "state_unwritable"
    assert not (tmp_path / "elsewhere").exists()
