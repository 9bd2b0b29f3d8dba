"""`scripts/demo`: the main job on real data, on a whole network on this machine.

Owns: arguments, the order of the jobs, and what is printed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

import gpugoblin as gg
from demo import data, jobs, picture, report
from demo.network import CONTRIBUTORS, Network
from demo.story import disturb

FREE_BYTES = 8 * 2**30


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument(
        "--picture", type=Path, metavar="PNG", default=Path("demo.png"), help="where it goes"
    )
    parser.add_argument(
        "--rows", type=int, default=jobs.PATCH_ROWS, help="patches (default: %(default)s)"
    )
    parser.add_argument("--keep", action="store_true", help="keep the state and the logs")
    options = parser.parse_args(arguments)
    console = Console()
    root = Path(tempfile.mkdtemp(prefix="gpugoblin-demo-"))
    if shutil.disk_usage(root).free < FREE_BYTES:
        console.print(f"demo: {root} needs 8 GiB of free disk; set TMPDIR to a larger one")
        return 1
    try:
        return _run(root, options, console)
    finally:
        if options.keep:
            console.print(f"state and logs: {root}")
        else:
            shutil.rmtree(root, ignore_errors=True)


def _run(root: Path, options: argparse.Namespace, console: Console) -> int:
    start_s = time.perf_counter()
    digits = data.digits()
    source = data.write_patches(root / "patches.npy", options.rows)
    target = root / "correlations.npy"
    console.print("Starting a coordinator, a lab node and four contributors of three owners ...")
    with Network(root) as network:
        for contributor in CONTRIBUTORS:
            console.print(f"  {contributor.name} of {contributor.owner}: {contributor.fate}")
        with gg.connect(f"unix:{network.node_socket}"):
            console.rule("1. Gram matrix of the digits")
            plane = jobs.gram(digits)
            console.rule("2. Nearest neighbors of the digits")
            near = jobs.neighbors(digits)
            console.rule("3. Correlations of image patches, out of core")
            begun_s = time.perf_counter()
            job = jobs.submit_patches(source, target)
            console.print(job.plan())
            disturb(network, job, lambda line: console.print(f"[yellow]{line}[/yellow]"))
            job.wait(timeout=300)
            large = jobs.patches(job, source, target, begun_s)
            figures = (plane.figures, near.figures, large)
            network.await_credits()
            made = report.make(figures, near, network.credits(), time.perf_counter() - start_s)
    console.rule("Result")
    report.show(made, console)
    picture.draw(options.picture, digits, plane, near, made)
    console.print(f"picture: {options.picture}")
    if options.json:
        report.write(made, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
