"""Every attack of the table against a fully walled engine, and the control without walls.

An attack counts as stopped only with the very answer that its wall gives, so that one which fails
for another reason is noticed. The control run proves of each attack that can be tried without harm
that it does work where no wall stands.
"""

from __future__ import annotations

import importlib.util
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from app.host.card_access import access_to
from app.sandbox.spec import CardAccess, CardPolicy, Level, Runtime
from gpugoblin.units import MIB
from tests.attacks.report import DOORS, STUDIED
from tests.helpers.software_card import only_hardware

from .conftest import Answer, Subject


def _table() -> ModuleType:
    """The package of attacks as it is called inside, imported for its table alone."""
    top = Path(__file__).parent / "inside"
    specification = importlib.util.spec_from_file_location(
        "attack_inside", top / "__init__.py", submodule_search_locations=[str(top)]
    )
    assert specification is not None
    assert specification.loader is not None
    package = importlib.util.module_from_spec(specification)
    sys.modules["attack_inside"] = package
    specification.loader.exec_module(package)
    importlib.import_module("attack_inside.every").load()
    return importlib.import_module("attack_inside.table")


ROWS = _table().ROWS
HARMLESS_READS = {
    "own_environment",
    "counters_of_the_loopback",
    "mount_table",
    "own_dumpable_flag",
}


@pytest.fixture(scope="module")
def shared(runtime: Runtime, bait: Mapping[str, Any]) -> Iterator[Subject]:
    """An engine with NumPy for all attacks that it survives."""
    with Subject(runtime, bait, "full", numpy=True) as subject:
        yield subject


def _judge(name: str, answer: Answer) -> None:
    row = ROWS[name]
    if row.expected == "killed":
        assert answer.status == -signal.SIGSYS, answer
    elif row.expected == "bounded":
        assert answer.kind == "bounded", answer
        assert answer.figure <= row.limit, answer
        assert not row.answers or answer.answer in row.answers, answer
    elif row.expected == "read":
        assert answer.kind == "read", answer
    else:
        assert answer.kind == "refused", answer
        assert answer.answer in row.answers, answer


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if not row.alone])
def test_attack_is_stopped(shared: Subject, name: str) -> None:
    _judge(name, shared.attack(name))


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.alone])
def test_attack_that_costs_an_engine_is_stopped(
    runtime: Runtime, bait: Mapping[str, Any], name: str
) -> None:
    with Subject(runtime, bait, "full") as subject:
        _judge(name, subject.attack(name))


def test_attacks_work_where_no_wall_stands(runtime: Runtime, bait: Mapping[str, Any]) -> None:
    with Subject(runtime, bait, "none") as subject:
        outcomes = {name: subject.attack(name).kind for name, row in ROWS.items() if row.control}
    assert {name: kind for name, kind in outcomes.items() if kind != "opened"} == {}


def test_table_is_long_and_only_four_harmless_reads_remain() -> None:
    kinds = Counter(row.expected for row in ROWS.values())
    assert len(ROWS) >= 200
    assert kinds["killed"] >= 30
    assert {name for name, row in ROWS.items() if row.expected == "read"} == HARMLESS_READS
    assert sum(row.control for row in ROWS.values()) >= 60


def test_every_line_of_the_study_is_tried_and_a_hundred_attacks_are_our_own() -> None:
    studied = [name for names in STUDIED.values() for name in names.split()]
    assert len(STUDIED) >= 45
    assert len(studied) == len(set(studied)) >= 131
    assert set(studied) <= ROWS.keys()
    assert len(ROWS.keys() - set(studied)) >= 100


def test_harmless_reads_tell_nothing_of_the_host(shared: Subject) -> None:
    allowed = {"PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "PYTHONHASHSEED", "PWD"}
    allowed |= {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "ATTACK_NUMPY"}
    names = set(shared.attack("own_environment").answer.split())
    assert {name for name in names if not name.startswith("GPUGOBLIN_")} <= allowed
    counters = shared.attack("counters_of_the_loopback").answer.splitlines()[2:]
    assert [line.split(":")[0].strip() for line in counters] == ["lo"]
    assert "/home" not in shared.attack("mount_table").answer


def test_descriptors_sent_to_the_parent_do_not_arrive(shared: Subject) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert shared.attack("hundred_descriptors").kind == "bounded"
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_engine_is_proven_before_and_after_the_attacks(shared: Subject) -> None:
    assert shared.process is not None
    assert shared.process.attest().level == "full"


OPEN_FOR_SOFTWARE = frozenset(DOORS["software"])


def test_a_software_card_opens_one_door_and_no_other(
    runtime: Runtime, bait: Mapping[str, Any]
) -> None:
    opened = set()
    with Subject(runtime, bait, "full", numpy=True, card=CardAccess("software")) as subject:
        for name in [name for name, row in ROWS.items() if not row.alone]:
            answer = subject.attack(name)
            if name in OPEN_FOR_SOFTWARE:
                opened.add((name, answer.kind))
            else:
                _judge(name, answer)
        assert subject.process is not None
        assert subject.process.attest().level == "full"
    assert opened == {(name, "opened") for name in OPEN_FOR_SOFTWARE}


def _hardware(policy: CardPolicy) -> CardAccess:
    """Nodes and directories as a hardware driver is given, of stand-ins that every machine has."""
    place = next(
        (str(path.resolve()) for path in sorted(Path("/sys/devices").glob("pci*/*:*:*.*"))),
        "/sys/devices/system/memory",
    )
    return CardAccess(
        policy,
        nodes=("/dev/full",),
        shown=(place, "/proc/driver") if policy == "nvidia" else (place,),
        links=((place, "/sys/bus/pci/devices/0000:01:00.0"), (place, "/sys/dev/char/226:128")),
    )


@pytest.mark.parametrize(
    ("policy", "doors"), [(policy, frozenset(DOORS[policy])) for policy in ("drm", "nvidia")]
)
def test_a_hardware_card_opens_its_own_doors_and_no_other(
    runtime: Runtime, bait: Mapping[str, Any], policy: CardPolicy, doors: frozenset[str]
) -> None:
    wrong, opened, mounts = _opened(runtime, bait, _hardware(policy), doors)
    assert (wrong, opened) == ({}, doors)
    assert mounts.count(" /dev/full ") == 1
    assert "/dev/dri" not in mounts


def test_the_card_of_this_machine_opens_its_own_doors_and_no_other(
    runtime: Runtime, bait: Mapping[str, Any]
) -> None:
    card = access_to(only_hardware().cards[0], 256 * MIB)
    doors = frozenset(DOORS[card.policy])
    wrong, opened, mounts = _opened(runtime, bait, card, doors)
    if "/dev/nvidiactl" in card.nodes:
        wrong.pop("open_nvidia_control", None)  # its own node: the driver answers
    assert (wrong, opened) == ({}, doors)
    shown = {word for word in mounts.split() if word.startswith(("/dev/nvidia", "/dev/dri/"))}
    assert shown == set(card.nodes)


def _opened(
    runtime: Runtime, bait: Mapping[str, Any], card: CardAccess, doors: frozenset[str]
) -> tuple[dict[str, Answer], set[str], str]:
    """What was answered otherwise than by its wall, the doors that opened, and the mounts."""
    wrong: dict[str, Answer] = {}
    opened = set()
    with Subject(runtime, bait, "full", numpy=True, card=card) as subject:
        for name in [name for name, row in ROWS.items() if not row.alone]:
            row, answer = ROWS[name], subject.attack(name)
            # Where NVIDIA's filter lets a file be opened for writing, Landlock refuses it, or the
            # mount does (of a user who owns the runtime), or it is not there at all.
            second = ("EACCES", "EROFS", "ENOENT") if card.policy == "nvidia" else ()
            if name in doors and answer.kind == "opened":
                opened.add(name)
            elif row.expected == "refused" and answer.kind == "refused":
                if answer.answer not in (*row.answers, *second):
                    wrong[name] = answer
            elif answer.kind != row.expected:
                wrong[name] = answer
        assert subject.process is not None
        assert subject.process.attest().level == "full"
        return wrong, opened, subject.attack("mount_table").answer


REDUCED_NEEDS_NAMESPACES = {
    # What only a namespace answers; the filter's or Landlock's answer stands in most rows.
    "learn_user_and_host",
    "counters_of_the_loopback",
    "credentials_of_somebody",
}


@pytest.mark.slow
@pytest.mark.parametrize("level", ["reduced"])
def test_reduced_level_stops_what_needs_no_namespace(
    runtime: Runtime, bait: Mapping[str, Any], level: Level
) -> None:
    wrong: dict[str, Answer] = {}
    with Subject(runtime, bait, level) as subject:
        for name, row in ROWS.items():
            if row.alone or name in REDUCED_NEEDS_NAMESPACES:
                continue
            answer = subject.attack(name)
            if answer.kind in ("opened", "ended"):
                wrong[name] = answer
    assert wrong == {}
