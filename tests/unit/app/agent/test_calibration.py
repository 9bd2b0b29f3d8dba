"""The two tiny tasks are still the catalog's, and give plausible rates on a real engine."""

from __future__ import annotations

from pathlib import Path

from app.agent.calibration import (
    PRODUCT_GRAPH,
    PRODUCT_SIDE,
    SUM_COUNT,
    SUM_GRAPH,
    UNKNOWN,
    calibrate,
)
from app.agent.settings import read_settings
from app.host.spec import EngineTask, Refused
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import EngineError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.serialize import encode
from tests.helpers.agent_plain import plain_engine
from tests.helpers.stub_engine import StubEngine, StubMaker


def test_the_product_is_the_catalogs() -> None:
    builder = GraphBuilder()
    inputs = [builder.input(TensorSpec("float32", (PRODUCT_SIDE, PRODUCT_SIDE))) for _ in "ab"]
    assert encode(builder.build([builder.add("matmul", inputs)])) == PRODUCT_GRAPH


def test_the_sum_is_the_catalogs() -> None:
    tree = FormulaBuilder()
    formula = tree.build(tree.call("add", tree.input(0), tree.input(1)))
    builder = GraphBuilder()
    inputs = [builder.input(TensorSpec("float32", (SUM_COUNT,))) for _ in "ab"]
    assert encode(builder.build([builder.add("formula", inputs, tree=formula)])) == SUM_GRAPH


def test_rates_of_a_real_engine() -> None:
    with plain_engine(read_settings(None), Path("/")) as engine:
        engine.wait_ready()
        rates = calibrate(engine)
        assert engine.inputs.used_bytes == engine.outputs.used_bytes == 0
    assert 1e8 < rates.flops_per_s < 1e14
    assert 1e8 < rates.bytes_per_s < 1e13


def test_an_engine_that_refuses_gets_the_cautious_rates(tmp_path: Path) -> None:
    class Refusing(StubEngine):
        def submit(self, task: EngineTask) -> int:
            self._number += 1
            error = EngineError("task_refused", reason="no")
            self._tell(Refused(self._number, "graph_malformed", error))
            return self._number

    engine = Refusing(read_settings(None), StubMaker().behavior)
    assert calibrate(engine) == UNKNOWN  # type: ignore[arg-type]
    engine.close()
