"""Makes the pictures of the window that the docs show, before a real agent that computes.

    .venv/bin/python scripts/pictures.py [FOLDER]

Owns: which pages are shown. A coordinator, a lab and an agent run on this machine, and the lab's
work is computed while the pictures are taken; only the page History is shown before a recording,
since two weeks cannot be waited for. They are drawn without a screen, light and dark.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication

import gpugoblin as gg
from app.control.messages import CardItem
from app.main import listens_at
from app.ui.firstrun.progress import DONE, Progress
from app.ui.notify import Budget
from app.ui.program import Program, Setup
from gpugoblin.units import MIB
from tests.helpers.looks import dark_palette, settle
from tests.helpers.network import Network
from tests.helpers.served_agent import ServedAgent

DOCS = Path(__file__).resolve().parent.parent / "docs" / "contributor"
PICTURES = (("now", "light"), ("when", "light"))
RECORDED = (("history", "dark"),)
SIDE = 6000
SMALL = {"grid_slot_bytes": 16 * MIB}
"""Tasks that are done in a second, so that the pictures show some."""
WORK_S = 60.0
LEAST_DONE = 3
STEP = 2
WIDTH, HEIGHT = 900, 640


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS
    folder.mkdir(parents=True, exist_ok=True)
    application = QApplication([])
    application.setStyle("Fusion")
    with tempfile.TemporaryDirectory(prefix="gg-") as base:
        root = Path(base)
        with Network(root / "network", {"desk": "ann"}, node=SMALL, lab_name="tides") as network:
            directory = listens_at(network.root / "desk.toml")
            with working(network):
                take(application, directory, root, folder, PICTURES, LEAST_DONE)
        with ServedAgent("desktop", root / "control") as served:
            for number in range(1, STEP + 1):
                served.step(number)
            take(application, served.directory, root, folder, RECORDED)
    return 0


def take(
    application: QApplication,
    directory: Path,
    base: Path,
    folder: Path,
    pictures: tuple[tuple[str, str], ...],
    least_done: int = 0,
) -> None:
    """Takes pictures of the window before the agent of a control directory, once a card of it
    computes and has done so many tasks."""
    progress = Progress(base / "first-run")
    progress.keep(DONE)
    setup = Setup(directory, None, False, "gpugoblin app", progress, Budget(base / "told"))
    program = Program(application, setup)
    program.begin()
    window = program.open()
    window.resize(WIDTH, HEIGHT)
    end_s = time.monotonic() + WORK_S
    while not any(
        isinstance(one, CardItem) and one.done >= least_done and one.doing == "computing"
        for one in program.link.items.values()
    ):
        settle(application, 0.05)
        if time.monotonic() > end_s:
            raise TimeoutError("no card computes")
    for page, scheme in pictures:
        application.setPalette(dark_palette() if scheme == "dark" else QPalette())
        window.open_page(page)
        settle(application)
        target = folder / f"window-{page}.png"
        window.grab().save(str(target))
        print(target.name)
    window.hide()
    program._end()


@contextlib.contextmanager
def working(network: Network) -> Iterator[None]:
    """A lab whose user wants a large product, which the agent of this machine computes."""
    client = network.root / "client.toml"
    client.write_text(f'node = "unix:{network.node_socket}"\nnode_key = "{network.node_key}"\n')
    draws = np.random.default_rng(7)
    with gg.connect(config=client):
        left, right = (draws.standard_normal((SIDE, SIDE), dtype=np.float32) for _ in range(2))
        job = gg.save([gg.array(left) @ gg.array(right)], name="tides", executor="grid", force=True)
        try:
            yield
        finally:
            job.cancel()


if __name__ == "__main__":
    sys.exit(main())
