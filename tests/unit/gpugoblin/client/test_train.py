"""`gg.train` against a lab node with real doors; computing is the interpreter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.client.run import Run
from gpugoblin.errors import ClientError
from tests.helpers.node import LabNode
from tests.helpers.torch_programs import torch_or_skip
from tests.helpers.trainings import Linear

MODEL = Linear()
WEIGHTS = {"w": np.zeros(3, np.float32), "c": np.zeros(1, np.float32)}


def squares(weights: Mapping[str, gg.Array], x: gg.Array, y: gg.Array) -> gg.Array:
    gap = (x * weights["w"]).sum(axis=1) + weights["c"] - y
    return (gap * gap).mean()


@pytest.fixture
def lab(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[gg.Session]:
    monkeypatch.setenv("GPUGOBLIN_CONFIG", str(short_path / "none.toml"))
    with (
        LabNode(short_path) as node,
        gg.connect(f"unix:{node.settings.socket_path}") as session,
    ):
        yield session


def trained(steps: int = 6, **fields: Any) -> Run:
    given: dict[str, Any] = {
        "parameters": WEIGHTS, "data": MODEL.data, "optimizer": gg.SGD(MODEL.rate),
        "batch": MODEL.batch, "micro_batch": 4, "seed": MODEL.seed, "name": "line",
    }  # fmt: skip
    return gg.train(squares, steps=steps, **{**given, **fields})


def test_a_run_gives_losses_weights_and_a_table(lab: gg.Session, tmp_path: Path) -> None:
    run = trained(checkpoint_every=3).wait(timeout=60)
    losses, weights = MODEL.run(6)
    np.testing.assert_allclose(run.losses, losses, rtol=1e-5)
    found = run.weights()
    assert found.step == 6
    np.testing.assert_allclose(found.named()["w"], weights[:3], rtol=1e-4)
    np.testing.assert_allclose(run.weights(version=3).named()["c"], MODEL.run(3)[1][3:], rtol=1e-4)
    assert set(run.gradient_norms) == {"w", "c"}
    assert run.gradient_norms["w"].shape == (6,)
    assert run.table().row_count == 6
    assert all(
        word in str(run.table()) for word in ("rounds", "contributors", "recomputed", "took")
    )
    assert "step 6 of 6, loss" in str(run.view())
    assert run.evaluations.shape == (0, 2)


def test_a_run_is_found_again_by_name(lab: gg.Session) -> None:
    first = trained().wait(timeout=60)
    found = gg.get("line")
    assert isinstance(found, Run)
    assert np.array_equal(found.losses, first.losses)
    assert [type(one) for one in gg.jobs()] == [Run]
    assert trained().attached
    other = trained(steps=3, overwrite=True).wait(timeout=60)
    assert other.losses.shape == (3,)


def test_a_checkpoint_goes_on_bit_for_bit(lab: gg.Session, tmp_path: Path) -> None:
    optimizer = gg.AdamW(1e-2)
    whole = trained(8, name="whole", optimizer=optimizer).wait(timeout=60)
    half = trained(5, name="half", optimizer=optimizer).wait(timeout=60)
    path = half.checkpoint(tmp_path / "half.safetensors")
    for number, resume in enumerate((path, half)):
        rest = trained(3, name=f"rest{number}", optimizer=optimizer, resume=resume)
        rest.wait(timeout=60)
        assert np.array_equal(rest.losses, whole.losses[5:])
        for name, array in rest.weights().named().items():
            assert np.array_equal(array, whole.weights().named()[name])
        assert rest.weights().step == 8


ROUNDS: dict[str, Any] = {
    "local_steps": 2, "shards": 3, "batch": 4, "micro_batch": None, "numeric_class": "exact",
}  # fmt: skip


LATE: dict[str, Any] = {"late": 0.5}


def test_a_run_goes_as_the_record_of_another_says(lab: gg.Session) -> None:
    whole = trained(8, name="whole", **ROUNDS).wait(timeout=60)
    masks = ("110", "011", "111", "111")
    run = trained(8, name="late", record=masks, **ROUNDS, **LATE).wait(timeout=60)
    assert run.record() == masks
    assert not np.array_equal(run.losses[1:], whole.losses[1:])
    again = trained(8, name="again", record=run, **ROUNDS, **LATE).wait(timeout=60)
    assert np.array_equal(again.losses, run.losses)
    for name, array in again.weights().named().items():
        assert np.array_equal(array, run.weights().named()[name])
    assert "late" in str(run.table())
    assert whole.record() == ()
    told = dict(run.certificate().rows())["late shards"]
    assert told.startswith("2 rounds ended without some; ")
    assert told == dict(again.certificate().rows())["late shards"]
    assert "late shards" not in dict(whole.certificate().rows())
    free = trained(8, name="free", **ROUNDS, **LATE).wait(timeout=60)
    assert len(free.record()) == 4


def test_rounds_of_local_steps_go_on_bit_for_bit(
    lab: gg.Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = trained(8, name="whole", **ROUNDS).wait(timeout=60)
    assert whole.losses.shape == (4,)
    assert whole.losses[-1] < whole.losses[0]
    assert "round 4 of 4, loss" in str(whole.view())
    half = trained(4, name="half", **ROUNDS).wait(timeout=60)
    path = half.checkpoint(tmp_path / "half.safetensors")
    # The state is the outer step's, whatever the optimizer of the local ones.
    rest = trained(4, name="rest", resume=path, **ROUNDS).wait(timeout=60)
    assert np.array_equal(rest.losses, whole.losses[2:])
    for name, array in rest.weights().named().items():
        assert np.array_equal(array, whole.weights().named()[name])
    assert rest.weights().step == 4
    assert capsys.readouterr().err == ""
    trained(4, name="fewer", resume=path, **{**ROUNDS, "shards": 2}).wait(timeout=60)
    assert "half.safetensors read its data with shards=3." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fields", "told"),
    [({}, ""), ({"seed": 4}, "seed=3"), ({"batch": 4}, "batch=8"), ({"shuffle": False}, "=True")],
)
def test_a_run_that_does_not_read_on_says_so(
    lab: gg.Session, capsys: pytest.CaptureFixture[str], fields: dict[str, Any], told: str
) -> None:
    first = trained(2, name="first").wait(timeout=60)
    trained(1, resume=first, **fields).wait(timeout=60)
    said = capsys.readouterr().err
    assert told in said
    assert bool(said) == bool(told)


def test_the_state_of_another_optimizer_is_refused(lab: gg.Session) -> None:
    first = trained(2, name="first", optimizer=gg.AdamW(1e-2)).wait(timeout=60)
    for other in (gg.SGD(0.1), gg.SGD(0.1, momentum=0.9), gg.Lion(1e-3), gg.Adafactor(1e-3)):
        with pytest.raises(ClientError) as caught:
            trained(1, resume=first, optimizer=other)
        assert caught.value.code == "checkpoint_misfit"
        assert f"AdamW keeps mean and square, {type(other).__name__} as" in caught.value.what
    trained(1, resume=first, optimizer=gg.Adam(1e-3)).wait(timeout=60)


def test_evaluation_and_early_stopping(lab: gg.Session) -> None:
    x, y = MODEL.data
    run = trained(
        40, optimizer=gg.SGD(1e-7), evaluation=(x[:8], y[:8]), evaluate_every=2, patience=2,
        least_gain=1e-3,
    ).wait(timeout=60)  # fmt: skip
    assert "ended early" in str(run.view())
    scores = run.evaluations
    assert scores[:2, 0].tolist() == [2.0, 4.0]
    np.testing.assert_allclose(scores[0, 1], (y[:8] ** 2).mean(), rtol=1e-4)
    assert len(run.losses) < 40


def test_clipping_and_files(lab: gg.Session, tmp_path: Path) -> None:
    x, y = MODEL.data
    np.save(tmp_path / "x.npy", x)
    run = trained(3, data=(gg.open(tmp_path / "x.npy"), y), clip_norm=1e-3).wait(timeout=60)
    step = MODEL.rate * 1e-3
    weights = np.concatenate([one.reshape(-1) for one in run.weights(None).named().values()])
    # Three steps of the longest length, in nearly one direction.
    assert 2.5 * step < np.linalg.norm(weights) < 3.001 * step


def test_cancelling_keeps_the_weights(lab: gg.Session) -> None:
    run = trained(5000)
    while run.training().done < 2:
        pass
    run.cancel()
    with pytest.raises(ClientError) as caught:
        run.wait(timeout=20)
    assert caught.value.code == "job_cancelled"
    done = run.training().done
    np.testing.assert_allclose(run.losses, MODEL.run(done)[0], rtol=1e-4, atol=1e-6)
    assert run.weights().step == done


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"steps": 0}, "training_refused"),
        ({"batch": 41}, "training_refused"),
        ({"micro_batch": 3}, "training_refused"),
        ({"patience": 2}, "training_refused"),
        ({"checkpoint_every": 7}, "training_refused"),
        ({"checkpoint_every": -1}, "option_refused"),
        ({**ROUNDS, "steps": 8, "checkpoint_every": 8}, "training_refused"),
        ({"evaluate_every": 2}, "training_refused"),
        ({"shards": 4}, "training_refused"),
        ({"loss": squares}, "training_refused"),
        ({"least_gain": 0.1, "evaluation": MODEL.data}, "training_refused"),
        ({"where": gg.where(min_memory="1GB"), "executor": "local"}, "training_refused"),
        ({**ROUNDS, "local_steps": 0}, "training_refused"),
        ({**ROUNDS, "local_steps": 2.0}, "training_refused"),
        ({**ROUNDS, "local_steps": 1026, "steps": 1026}, "training_refused"),
        ({**ROUNDS, "shards": 0}, "training_refused"),
        ({**ROUNDS, "shards": 257}, "training_refused"),
        ({**ROUNDS, "shards": 6}, "training_refused"),
        ({**ROUNDS, "steps": 5}, "training_refused"),
        ({**ROUNDS, "micro_batch": 2}, "training_refused"),
        ({**ROUNDS, "numeric_class": "float32"}, "training_refused"),
        ({"late": 0.5}, "training_refused"),
        ({"quorum": 2}, "training_refused"),
        ({**ROUNDS, "quorum": 2}, "training_refused"),
        ({**ROUNDS, "record": ("111",) * 3}, "training_refused"),
        *(({**ROUNDS, "late": late}, "training_refused") for late in (0, 1.5, "often", True)),
        *(({**ROUNDS, **LATE, "quorum": many}, "training_refused") for many in (0, 4, 1.0)),
        ({**ROUNDS, **LATE, "shards": 1}, "training_refused"),
        ({**ROUNDS, **LATE, "record": ()}, "training_refused"),
        ({**ROUNDS, **LATE, "record": ("111",) * 2}, "training_refused"),
        ({**ROUNDS, **LATE, "record": ("111", "11", "111")}, "training_refused"),
        ({**ROUNDS, **LATE, "record": ("111", "112", "111")}, "training_refused"),
        ({"data": (MODEL.data[0], MODEL.data[1][:-1])}, "data_malformed"),
        ({"data": ()}, "data_malformed"),
        ({"data": (MODEL.data[0], np.full(40, np.nan, np.float32))}, "data_not_finite"),
        ({"data": (MODEL.data[0].astype(np.float64), MODEL.data[1].astype(float))}, "loss_refused"),
        ({"parameters": None}, "model_not_trainable"),
        ({"parameters": {"w": np.zeros(3), "c": np.zeros(1)}}, "model_not_trainable"),
        ({"priority": 1000}, "option_refused"),
        ({"resume": "nowhere.safetensors"}, "checkpoint_misfit"),
    ],
)
def test_what_is_refused_before_anything_is_sent(
    lab: gg.Session, fields: dict[str, Any], code: str
) -> None:
    with pytest.raises(gg.errors.GoblinError) as caught:
        trained(**fields)
    assert caught.value.code == code
    assert gg.jobs() == []


def test_a_module_takes_no_parameters_and_a_loop_no_empty_tasks(lab: gg.Session) -> None:
    torch = torch_or_skip()
    module = torch.nn.Linear(3, 1)
    with pytest.raises(ClientError) as caught:
        gg.train(
            module, parameters=WEIGHTS, data=MODEL.data, optimizer=gg.SGD(0.1), steps=2, batch=8
        )
    assert "parameters" in caught.value.what
    for rows in (0, -1, 2.0):
        with pytest.raises(ClientError) as caught:
            gg.prepare(module, torch.optim.SGD(module.parameters()), micro_batch=rows)  # type: ignore[arg-type] # as a notebook might
        assert "micro_batch" in caught.value.what


def test_losses_that_are_none(lab: gg.Session) -> None:
    cases = {
        "loss_refused": lambda weights, x, y: (x * weights["w"]).sum(axis=1) - y,
        "model_not_trainable": lambda weights, x, y: (x * x).mean() + (y * y).mean(),
    }
    for code, loss in cases.items():
        with pytest.raises(ClientError) as caught:
            gg.train(
                loss, parameters=WEIGHTS, data=MODEL.data, optimizer=gg.SGD(0.1), steps=2, batch=8
            )
        assert caught.value.code == code


def test_a_checkpoint_of_another_model(lab: gg.Session, tmp_path: Path) -> None:
    path = trained(2).wait(timeout=60).checkpoint(tmp_path / "a.safetensors")

    def other(weights: Mapping[str, gg.Array], x: gg.Array, y: gg.Array) -> gg.Array:
        gap = (x * weights["other"]).sum(axis=1) - y
        return (gap * gap).mean()

    with pytest.raises(ClientError) as caught:
        gg.train(
            other, parameters={"other": WEIGHTS["w"]}, data=MODEL.data, optimizer=gg.SGD(0.1),
            steps=2, batch=8, resume=path,
        )  # fmt: skip
    assert caught.value.code == "checkpoint_misfit"
    assert "other" in caught.value.what


def test_a_name_is_made_from_the_content(lab: gg.Session) -> None:
    one, two = trained(2, name=None), trained(2, name=None)
    assert one.name == two.name
    assert two.attached
    two.wait(timeout=60)
