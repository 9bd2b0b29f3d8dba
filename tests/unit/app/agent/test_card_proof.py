"""How much a fresh engine is asked, and what is remembered of it."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest

from app.agent.answers import cases
from app.agent.card_proof import SUSPICION_S, CardProof, WarmUp, warm_graphs
from app.agent.card_record import CardRecords, record_key
from app.agent.kernel_store import KernelStore
from app.agent.own_task import go_on
from app.agent.settings import read_settings
from app.host.engine import Engine
from app.host.spec import HostSpec
from app.sandbox.plain import installed_runtime
from gpugoblin.errors import EngineError
from gpugoblin.units import GIB, MIB
from tests.helpers.cards import missing_card
from tests.helpers.stub_engine import READY, StubEngine

KEY = record_key(READY)


def stub() -> StubEngine:
    engine = StubEngine(read_settings(None), deque())
    engine.wait_ready()
    return engine


def asked(proof: CardProof) -> int:
    engine = stub()
    proof(engine, go_on)  # type: ignore[arg-type]
    engine.close()
    return engine.proofs


def test_everything_once_and_then_the_first(tmp_path: Path) -> None:
    assert asked(CardProof("gpu", CardRecords(tmp_path))) == len(cases())
    proof = CardProof("gpu", CardRecords(tmp_path))
    assert [asked(proof), asked(proof)] == [1, 1]
    assert CardRecords(tmp_path).known("gpu", KEY).proven_s > 0


def test_after_a_lie_everything_again_and_the_fault_is_known(tmp_path: Path) -> None:
    records = CardRecords(tmp_path)
    proof = CardProof("gpu", records)
    asked(proof)
    engine = stub()
    engine.is_lying = True
    with pytest.raises(EngineError) as raised:
        proof(engine, go_on)  # type: ignore[arg-type]
    engine.close()
    assert raised.value.code == "card_lied"
    known = CardRecords(tmp_path).known("gpu", KEY)
    assert known.proven_s == 0
    assert "stub-1" in known.fault
    assert "overclocking" in known.fix
    assert asked(proof) == len(cases())
    assert CardRecords(tmp_path).known("gpu", KEY).fault == ""


def test_an_engine_that_dies_says_nothing_about_its_answers(tmp_path: Path) -> None:
    records = CardRecords(tmp_path)
    engine = stub()

    def look() -> None:
        engine.end(EngineError("engine_died", status=9, doing="dying", stderr="none"))

    with pytest.raises(EngineError):
        CardProof("gpu", records)(engine, look)  # type: ignore[arg-type]
    engine.close()
    assert records.of("gpu").fault == ""


# -- kernels that lose the card ------------------------------------------------------------------

ONE, TWO = "1" * 16, "2" * 16


def lost(*kernels: str) -> EngineError:
    return EngineError("card_lost", doing="computing task 1", kernels=kernels)


def told(proof: CardProof) -> tuple[tuple[str, ...], tuple[str, ...], bytes | None]:
    """What the next engine of a card is told before its first task."""
    engine = stub()
    proof(engine, go_on)  # type: ignore[arg-type]
    engine.close()
    return engine.prepared[0] if engine.prepared else ((), (), None)


def test_a_kernel_that_loses_the_card_twice_is_not_used_any_more(tmp_path: Path) -> None:
    proof = CardProof("gpu", CardRecords(tmp_path))
    assert told(proof) == ((), (), None)
    proof.failed(lost(ONE, TWO))
    assert told(proof) == ((), (ONE, TWO), None)
    proof.failed(lost(TWO))
    assert told(CardProof("gpu", CardRecords(tmp_path))) == ((TWO,), (), None)


def test_once_is_a_suspicion_only(tmp_path: Path) -> None:
    proof = CardProof("gpu", CardRecords(tmp_path))
    asked(proof)
    proof.failed(lost(ONE))
    proof.failed(lost(TWO))  # another one: the first is no longer the likeliest
    assert told(proof) == ((), (TWO,), None)
    proof.failed(lost())  # while nothing was known to run
    assert told(proof) == ((), (TWO,), None)


class Clock:
    """Days pass when they are told to."""

    now_s = 1.8e9

    def wall_s(self) -> float:
        return self.now_s

    def monotonic_s(self) -> float:
        return self.now_s


def test_a_suspicion_does_not_last_for_ever(tmp_path: Path) -> None:
    """A game loses the card in March, a sleep in May: the kernel that ran both times is none."""
    clock = Clock()
    proof = CardProof("gpu", CardRecords(tmp_path), clock)
    asked(proof)
    proof.failed(lost(ONE))
    clock.now_s += SUSPICION_S + 1
    assert told(proof) == ((), (), None)
    proof.failed(lost(ONE))
    assert told(proof) == ((), (ONE,), None)
    clock.now_s += SUSPICION_S - 1
    proof.failed(lost(ONE))
    assert told(proof) == ((ONE,), (), None)


def test_with_another_driver_refused_kernels_are_tried_again(tmp_path: Path) -> None:
    proof = CardProof("gpu", CardRecords(tmp_path))
    asked(proof)
    proof.failed(lost(ONE))
    proof.failed(lost(ONE))
    assert CardRecords(tmp_path).known("gpu", KEY).refused == (ONE,)
    assert CardRecords(tmp_path).known("gpu", KEY + " newer").refused == ()


# -- the warm-up ---------------------------------------------------------------------------------


class Warm:
    """A card with a warm-up over stubs."""

    def __init__(self, directory: Path, driver: str = "driver 1") -> None:
        self.made: list[StubEngine] = []
        self.ends = ""
        self.hosted: list[bool] = []
        plan = WarmUp(
            driver,
            self._start,  # type: ignore[arg-type]
            KernelStore(directory),
            self._host,  # type: ignore[arg-type]
        )
        self.proof = CardProof("gpu", CardRecords(directory), warm_up=plan)

    def _start(self) -> StubEngine:
        self.made.append(StubEngine(read_settings(None), deque()))
        self.made[-1].ends_over_kernels = self.ends
        return self.made[-1]

    def _host(self, engine: StubEngine | None) -> None:
        self.hosted.append(engine is not None)
        # Whose card it is stays known until its process is gone.
        assert engine is not None or self.made[-1].fileno() < 0

    def warm(self) -> int:
        """How many engines have warmed up for this start."""
        before = len(self.made)
        self.proof.warm(go_on)
        return len(self.made) - before


def compiled(directory: Path) -> Path:
    (path,) = directory.glob("kernels-*.bin")
    return path


def test_a_card_is_warmed_up_once_for_a_driver(tmp_path: Path) -> None:
    card = Warm(tmp_path)
    assert card.warm() == 1
    assert card.hosted == [True, False]
    assert card.made[0].proofs == len(cases())
    assert card.warm() == 0
    assert told(card.proof)[2] == b"compiled by a stub"
    assert Warm(tmp_path).warm() == 0
    assert Warm(tmp_path, "driver 2").warm() == 1


def test_a_corrupt_file_is_never_given_to_an_engine_and_made_again(tmp_path: Path) -> None:
    card = Warm(tmp_path)
    card.warm()
    compiled(tmp_path).write_bytes(b"compiled by an enemy")
    assert told(card.proof) == ((), (), None)
    assert card.warm() == 1
    assert told(card.proof)[2] == b"compiled by a stub"


def test_what_the_driver_does_not_take_is_made_again(tmp_path: Path) -> None:
    card = Warm(tmp_path)
    card.warm()
    engine = stub()
    engine.compiled = b"another driver's"
    card.proof(engine, go_on)  # type: ignore[arg-type]
    engine.close()
    assert card.warm() == 1


def test_a_driver_that_never_takes_its_own_kernels_is_warmed_up_twice_and_no_more(
    tmp_path: Path,
) -> None:
    card = Warm(tmp_path)
    warmed = []
    for _ in range(4):
        warmed.append(card.warm())
        engine = stub()
        engine.compiled = b"another driver's"
        card.proof(engine, go_on)  # type: ignore[arg-type]
        engine.close()
    assert warmed == [1, 1, 0, 0]
    assert Warm(tmp_path, "driver 2").warm() == 1


@pytest.mark.parametrize("code", ["engine_died", "engine_silent"])
def test_a_driver_that_ends_over_its_own_kernels_is_lent_without_them(
    tmp_path: Path, code: str
) -> None:
    card = Warm(tmp_path)
    for _ in range(2):
        assert card.warm() == 1
        engine = stub()
        engine.ends_over_kernels = code
        with pytest.raises(EngineError) as raised:
            card.proof(engine, go_on)  # type: ignore[arg-type]
        assert raised.value.code == code
        engine.close()
    assert card.warm() == 0
    assert told(card.proof) == ((), (), None)


def test_a_driver_that_ends_over_an_export_is_lent_cold(tmp_path: Path) -> None:
    card = Warm(tmp_path)
    card.ends = "engine_died"
    assert card.warm() == 1
    assert told(card.proof) == ((), (), None)
    assert card.warm() == 0


def test_a_warm_up_that_is_called_off_leaves_nothing(tmp_path: Path) -> None:
    card = Warm(tmp_path)

    def look() -> None:
        if card.made:
            raise EngineError("engine_stopped", doing="starting")

    with pytest.raises(EngineError):
        card.proof.warm(look)
    assert card.hosted == [True, False]
    assert list(tmp_path.glob("kernels-*")) == []


def test_an_engine_that_computes_never_writes_what_a_later_one_loads(tmp_path: Path) -> None:
    """It takes tasks and proofs, and lies about its kernels: the kept file stays as it was."""
    card = Warm(tmp_path)
    card.warm()
    before = compiled(tmp_path).read_bytes()
    engine = stub()
    engine.compiled = b"what an enemy compiled"
    card.proof(engine, go_on)  # type: ignore[arg-type]
    engine.close()
    card.proof.failed(lost(ONE))
    assert compiled(tmp_path).read_bytes() == before
    assert b"enemy" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.slow
def test_real_kernels_are_exported_and_taken_back(tmp_path: Path) -> None:
    if missing_card():
        pytest.skip(missing_card())
    spec = HostSpec(
        runtime=installed_runtime(), input_bytes=64 * MIB, output_bytes=64 * MIB,
        memory_bytes=GIB, backend="vulkan", level="none", warms=warm_graphs(),
    )  # fmt: skip
    records = CardRecords(tmp_path)
    plan = WarmUp("d", lambda: Engine.start(spec), KernelStore(tmp_path), lambda engine: None)
    proof = CardProof("gpu", records, warm_up=plan)
    proof.warm(go_on)
    assert len(records.of("gpu").compiled) == 64
    with Engine.start(spec) as engine:
        engine.wait_ready()
        proof(engine, go_on)
    assert len(records.of("gpu").compiled) == 64, "the driver did not take its own export"
