"""Makes the picture of the lab node's pages that the docs show, from a small lab that runs here.

    .venv/bin/python scripts/node_pictures.py [FOLDER] [--all]

Owns: which jobs are in it: one of three volunteers, of whom one lies, and a training. With
`--all`, every page is drawn: light and dark, phone and desktop. It needs Chromium and the extra
`browser`.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from tests.helpers.browser import Reader, the_chromium
from tests.helpers.lab import Lab, grid_settings, on_grid, product
from tests.helpers.node import LabNode
from tests.helpers.node_pages import give_job, make_user
from tests.helpers.trainings import Linear, submit

DOCS = Path(__file__).resolve().parent.parent / "docs" / "lab"
OWNERS = ("owner_mossy", "owner_quartz", "owner_amber")
STEPS = 120
TURNS = 14


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=DOCS)
    parser.add_argument("--all", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        with LabNode(root, **grid_settings()) as node, Lab(node, root) as lab:
            _draw(lab, given.folder, _jobs(lab), whole=given.all)
    return 0


def _jobs(lab: Lab) -> dict[str, str]:
    """The paths of the pages."""
    training = lab.wait(submit(lab, Linear(), steps=STEPS, executor="local"), 60.0)
    a, b, graph = product(9000, 64, 600)
    gram = on_grid(lab, graph, lab.file(a, "a.npy"), lab.file(b, "b.npy"), name="gram")
    for job in (training, gram):
        give_job(lab, "ann", job.job)
    with contextlib.ExitStack() as stack:
        honest, other, liar = (
            stack.enter_context(lab.device(owner_pseudonym=owner)) for owner in OWNERS
        )
        liar.spoil = lambda arrays: [array + np.float32(1) for array in arrays]
        for turn in range(TURNS):
            for device in (honest, other, *((liar,) if turn == TURNS // 2 else ())):
                device.work(1)
        honest.exchange(want=2)
    return {"job": f"/jobs/{gram.job}", "training": f"/jobs/{training.job}", "jobs": "/jobs",
            "node": "/node"}  # fmt: skip


def _draw(lab: Lab, folder: Path, paths: dict[str, str], *, whole: bool) -> None:
    token = make_user(lab, "ann")
    service = lab.node.service
    for chromium in the_chromium():
        for scheme in ("light", "dark") if whole else ("light",):
            for width in (390, 1200) if whole else (900,):
                screen: Any = {"width": width, "height": 800}
                base = f"https://127.0.0.1:{service.port}"
                reader = Reader(chromium, base, color_scheme=scheme, viewport=screen)
                reader.open("/signin")
                reader.page.fill("#secret", token)
                reader.page.click("main button")
                reader.page.wait_for_url("**/jobs")
                for name, path in paths.items() if whole else [("job", paths["job"])]:
                    reader.open(path)
                    target = f"page-{name}-{scheme}-{width}.png" if whole else f"page-{name}.png"
                    reader.page.screenshot(path=str(folder / target), full_page=whole)
                    print(target)
                reader.close()


if __name__ == "__main__":
    sys.exit(main())
