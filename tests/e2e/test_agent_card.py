"""A graphics card is lent from end to end: found, walled in, measured, leased, verified.

The card is one that a driver makes of the processor; all but its nodes is as with a real one, which
is lent too where there is one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from app.agent.card_start import CardLook
from app.control.client import ControlClient
from app.control.messages import CardItem, Doctor, Report
from app.probes.gpus.nvml import Nvml, load_nvml
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from tests.helpers.agent_network import eventually, settings_text
from tests.helpers.agent_run import Scene
from tests.helpers.software_card import only_hardware, only_software

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@pytest.fixture(scope="module", autouse=True)
def nvml() -> Iterator[None]:
    """Opened before any test looks for what it leaves behind: the library keeps descriptors, and an
    agent leaves it to the end of its process."""
    library = load_nvml()
    if library is not None:
        library.nvmlInit()
        Nvml(library, lambda: ()).look()
    yield
    if library is not None:
        library.nvmlShutdown()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    only_software()  # skips here, before an agent holds its files
    made = Scene(tmp_path)
    text = settings_text(made.state, made.coordinator)
    path = tmp_path / "cards.toml"
    path.write_text(
        text.replace("share = true", "share = true\nlend = false") + "[cards]\nsoftware = true\n"
    )
    made.fixed_config = path
    yield made
    made.close()
    assert [*made.coordinator.problems, *made.lab.problems] == []


def add_softmax(scene: Scene) -> None:
    """softmax(a @ b) + a row."""
    rng = np.random.default_rng(3)
    arrays = tuple(
        rng.standard_normal(shape, dtype=np.float32) for shape in ((48, 64), (64, 80), (80,))
    )
    builder = GraphBuilder()
    a, b, row = (builder.input(TensorSpec("float32", array.shape)) for array in arrays)
    product = builder.add("matmul", [a, b])
    rows = builder.add("softmax", [product], axis=1)
    total = builder.add("formula", [rows, row], tree=call_formula("add"))
    scene.lab.add_graph(builder.build([total]), arrays)


@pytest.mark.slow
@pytest.mark.parametrize("look", [only_software, only_hardware])
def test_a_card_computes_products_and_a_graph_in_its_sandbox(scene: Scene, look: CardLook) -> None:
    card = look().cards[0]
    scene.lab.add_products(4)
    add_softmax(scene)
    seen: list[CardItem] = []
    doctor: list[Report] = []

    def script() -> None:
        eventually(lambda: scene.lab.verified() == 5, limit_s=90.0)
        with ControlClient(scene.state / "control") as asking:
            items = asking.status()
            assert "card-0" not in items
            item = items["card-1"]
            assert isinstance(item, CardItem)
            seen.append(item)
            answer = asking.ask(Doctor(1))
            assert isinstance(answer, Report)
            doctor.append(answer)

    assert scene.lend(script, look=look) == 0
    assert (seen[0].kind, seen[0].sandbox_level) == ("vulkan", "full")
    assert seen[0].identity == card.identity
    told = next(exchange for exchange in scene.lab.exchanges if exchange.capabilities)
    assert told.capabilities is not None
    assert told.capabilities.driver.startswith("vulkan-")
    assert told.capabilities.operators["matmul"] == 1
    assert "float32" in told.capabilities.classes
    lines = [finding.what for finding in doctor[0].findings if finding.subject == "card"]
    assert any("through Vulkan with" in line and "float32" in line for line in lines)


def test_a_software_card_is_not_lent_unasked(scene: Scene) -> None:
    path = scene.config
    path.write_text(path.read_text().replace("software = true", "software = false"))

    def script() -> None:
        eventually(lambda: (scene.state / "control").exists())
        eventually(lambda: scene.agent is not None and scene.agent.since_s > 0)
        assert scene.agent is not None
        assert dict(scene.agent.fleet.cards) == {}

    scene.lend(script, look=only_software)
