"""Cards are found by children: what they say is bounded, and what goes wrong is a line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.host import cards
from app.host.cards import FoundCard, driver_files, find_cards, listing_environment
from tests.helpers.software_card import only_software

CARD: dict[str, Any] = {
    "name": "Some card", "kind": "discrete", "uuid": "ab" * 16, "address": "0000:01:00.0",
    "vendor": 0x1002, "driver": "radv", "memory_bytes": 8 << 30, "unsuited": "",
    "operators": ["matmul@1"], "dtypes": ["float32"], "classes": ["float32"],
    "group_threads": 1024, "shared_bytes": 32768, "allocation_bytes": 1 << 30,
}  # fmt: skip


def says(*answers: object) -> list[str]:
    """A child that prints the answer for its driver: the number in the driver's name."""
    texts = [answer if isinstance(answer, str) else json.dumps(answer) for answer in answers]
    code = (
        "import os, sys; from pathlib import Path;"
        f"texts = {texts!r};"
        "print(texts[int(Path(os.environ['VK_DRIVER_FILES']).stem)])"
    )
    return [sys.executable, "-I", "-c", code]


def found(*answers: object) -> Any:
    drivers = [Path(f"/drivers/{number}.json") for number in range(len(answers))]
    return find_cards(drivers, says(*answers))


def test_cards_of_all_drivers_software_last() -> None:
    software = {**CARD, "kind": "software", "address": "", "uuid": "cd" * 16}
    other = {**CARD, "address": "0000:02:00.0", "uuid": "ef" * 16}
    discovery = found([software], [other, CARD], [])
    assert [card.identity for card in discovery.cards] == [
        "0000:01:00.0", "0000:02:00.0", "software-" + "cd" * 16,
    ]  # fmt: skip
    assert [card.driver_file for card in discovery.cards] == [
        "/drivers/1.json", "/drivers/1.json", "/drivers/0.json",
    ]  # fmt: skip
    assert discovery.troubles == ()


def test_of_two_drivers_the_one_that_can_compute_serves_a_card() -> None:
    unsuited = {**CARD, "driver": "old", "unsuited": "The card lacks shaderInt64."}
    assert [card.driver for card in found([unsuited], [CARD]).cards] == ["radv"]
    assert [card.driver for card in found([CARD], [unsuited]).cards] == ["radv"]


def test_a_driver_of_nvidia_that_shows_no_card_of_a_loaded_module_is_a_line(tmp_path: Path) -> None:
    driver = Path("/drivers/nvidia_icd.json")
    child = [sys.executable, "-I", "-c", "print('[]')"]
    node = tmp_path / "nvidiactl"
    assert find_cards([driver], child, nvidia_node=node).troubles == ()
    node.touch()
    (trouble,) = find_cards([driver], child, nvidia_node=node).troubles
    assert trouble.code == "card_driver_silent"
    assert "libegl1" in trouble.next_step
    assert find_cards([Path("/drivers/radeon.json")], child, nvidia_node=node).troubles == ()


def test_nvidia_is_named_as_its_own_tools_name_it() -> None:
    card = FoundCard(**{**CARD, "vendor": 0x10DE, "uuid": "0123456789abcdef0123456789abcdef"})
    assert card.identity == "GPU-01234567-89ab-cdef-0123-456789abcdef"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("nonsense", "makes no sense"),
        ([{**CARD, "uuid": "../../x"}], "makes no sense"),
        ([{**CARD, "name": "x" * 301}], "makes no sense"),
        ([{**CARD, "memory_bytes": -1}], "makes no sense"),
    ],
)
def test_nonsense_is_a_line_and_the_other_drivers_are_heard(answer: object, said: str) -> None:
    discovery = found(answer, [CARD])
    assert [error.code for error in discovery.troubles] == ["card_listing_failed"]
    assert said in discovery.troubles[0].what
    assert "0.json" in discovery.troubles[0].what
    assert len(discovery.cards) == 1


def test_a_driver_that_never_stops_talking() -> None:
    code = "while True: print('[' * 60_000)"
    discovery = find_cards([Path("/d/0.json")], [sys.executable, "-I", "-c", code])
    assert "makes no sense" in discovery.troubles[0].what


def test_a_reason_is_passed_on() -> None:
    code = 'import sys; print(\'{"reason": "no loader"}\'); sys.exit(1)'
    discovery = find_cards([Path("/d/0.json")], [sys.executable, "-I", "-c", code])
    assert "no loader" in discovery.troubles[0].what


def test_f252_f301_a_driver_that_crashes() -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    discovery = find_cards([Path("/d/0.json")], [sys.executable, "-I", "-c", code])
    assert "crashed with signal 11" in discovery.troubles[0].what


def test_b5183_a_driver_that_hangs() -> None:
    code = "import time; time.sleep(600)"
    discovery = find_cards([Path("/d/0.json")], [sys.executable, "-I", "-c", code], limit_s=0.3)
    assert "did not answer within 0.3 s" in discovery.troubles[0].what


def test_where_no_child_can_be_started_those_before_it_are_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    real = cards._started

    def start(words: list[str], driver: Path) -> subprocess.Popen[bytes]:
        if started:
            raise OSError("Resource temporarily unavailable")
        started.append(real(words, driver))
        return started[0]

    monkeypatch.setattr(cards, "_started", start)
    hangs = [sys.executable, "-I", "-c", "import time; time.sleep(600)"]
    with pytest.raises(OSError, match="temporarily"):
        find_cards([Path("/d/0.json"), Path("/d/1.json")], hangs)
    assert started[0].returncode is not None
    assert started[0].stdout is not None
    assert started[0].stdout.closed


def test_f293_i1328_i1589_without_the_package_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    discovery = find_cards([Path("/d/0.json"), Path("/d/1.json")])
    assert [error.code for error in discovery.troubles] == ["card_package_missing"]
    assert find_cards([]).troubles == ()


def test_the_first_place_wins_and_what_is_no_registration_is_left_out(tmp_path: Path) -> None:
    first, second = tmp_path / "etc", tmp_path / "usr"
    for place, names in ((first, ("a.json",)), (second, ("a.json", "b.json", "c.txt"))):
        place.mkdir()
        for name in names:
            (place / name).touch()
    assert driver_files((first, second, tmp_path / "none")) == (
        first / "a.json",
        second / "b.json",
    )


def test_a_child_gets_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOBLIN_TOKEN", "secret")
    code = "import json, os; print(json.dumps([])); assert 'GOBLIN_TOKEN' not in os.environ"
    words = [sys.executable, "-I", "-c", code]
    assert find_cards([Path("/d/0.json")], words).troubles == ()
    assert "GOBLIN_TOKEN" not in listing_environment(Path("/d/0.json"))


def test_the_software_card_of_this_machine() -> None:
    card = only_software().cards[0]
    assert card.identity == f"software-{card.uuid}"
    assert {"matmul@1", "formula@1"} <= set(card.operators)
    assert {"float32", "exact"} <= set(card.classes)
    assert "float32" in card.dtypes
    assert card.memory_bytes > 0
    assert card.allocation_bytes > 0


def test_finding_loads_neither_a_driver_nor_numpy_here() -> None:
    code = (
        "import sys; from app.host.cards import find_cards; find_cards();"
        "print([name for name in ('numpy', 'vulkan', 'cffi') if name in sys.modules])"
    )
    import subprocess

    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout.strip() == "[]"
