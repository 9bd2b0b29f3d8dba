"""The life of the package on one Debian: installed, lending, its window, removed.

Owns: each step, with its measured time. The coordinator and the lab run beside it on the loopback.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import tomllib
from pathlib import Path

import numpy as np
import psutil

import gpugoblin as gg
from tests.helpers.debian_root import DebianRoot, end
from tests.helpers.lends import LENDS_ALWAYS
from tests.helpers.network import Network

__all__ = ["OWNER", "Installed", "build"]

ROOT = Path(__file__).parents[2]
OWNER = "owner"
BUILD_LIMIT_S = 1500.0


def build(folder: Path, kind: str = "deb") -> Path:
    """Builds a package; its file. `GPUGOBLIN_DEB` names one that is built already."""
    ready = os.environ.get("GPUGOBLIN_DEB")
    if ready and kind == "deb":
        return Path(ready)
    words = [str(ROOT / "packaging" / "build"), kind, str(folder)]
    subprocess.run(words, check=True, timeout=BUILD_LIMIT_S, stderr=subprocess.DEVNULL)
    (made,) = (one for one in folder.iterdir() if not one.name.endswith("-none-any.whl"))
    return made


class Installed:
    """The package on a Debian.

    Args:
        debian: where to install it.
        package: the built file.
        logs: a folder for what programs say.
    """

    def __init__(self, debian: DebianRoot, package: Path, logs: Path) -> None:
        self.debian = debian
        self.logs = logs
        logs.mkdir(parents=True, exist_ok=True)
        shutil.copy(package, debian.root / "root" / "gpugoblin.deb")
        self.agent: subprocess.Popen[bytes] | None = None
        debian.do("apt-get", "update", "-q")
        debian.do("useradd", "--create-home", OWNER)

    def install(self) -> float:
        """Installs it as a person does; how long that took, in seconds."""
        began_s = time.monotonic()
        self.debian.do("apt-get", "install", "-y", "-q", "/root/gpugoblin.deb")
        return time.monotonic() - began_s

    def first_task(self, network: Network) -> float:
        """Enrols, lends, and waits for a verified result; how long that took, in seconds."""
        node = tomllib.loads((network.root / "node.toml").read_text())
        folder = self.debian.root / "home" / OWNER / ".config" / "gpugoblin"
        self.debian.do("mkdir", "-p", f"/home/{OWNER}/.config/gpugoblin", user=OWNER)
        (folder / "agent.toml").write_text(
            "\n".join(LENDS_ALWAYS)
            + f'\n[coordinator]\naddress = "{node["coordinator_address"]}"\n'
            f'certificate_sha256 = "{node["coordinator_certificate_sha256"]}"\n'
            "[processor]\nthreads = 1\nshare = true\n"
        )
        config = ("--config", f"/home/{OWNER}/.config/gpugoblin/agent.toml")
        began_s = time.monotonic()
        enrolling = self.debian.start(
            self.logs / "enrol.log", "gpugoblin", "agent", "enrol", *config, user=OWNER
        )
        self._approve(network, enrolling)
        self.agent = self.debian.start(
            self.logs / "agent.log", "gpugoblin", "app", "--console", *config, user=OWNER
        )
        client = network.root / "client.toml"
        client.write_text(f'node = "unix:{network.node_socket}"\nnode_key = "{network.node_key}"\n')
        left = np.ones((64, 48), np.float32)
        right = np.ones((48, 32), np.float32)
        with gg.connect(config=client):
            array = gg.array(left) @ gg.array(right)
            job = gg.save([array], name="first", executor="grid", force=True).wait(timeout=120)
            taken_s = time.monotonic() - began_s
            by = job.info.verified_by
            assert by.product + by.recompute == job.info.tasks > 0
            assert (job.array[...] == 48).all()
        return taken_s

    def _approve(self, network: Network, enrolling: subprocess.Popen[bytes]) -> None:
        network.operate("account", "add", OWNER)
        until_s = time.monotonic() + 60
        while time.monotonic() < until_s:
            code = re.search(r"\b[A-Z0-9]{4}-[A-Z0-9]{4}\b", (self.logs / "enrol.log").read_text())
            if code is not None:
                network.operate("approve", code[0], "--account", OWNER)
                assert enrolling.wait(60) == 0, (self.logs / "enrol.log").read_text()
                return
            time.sleep(0.05)
        raise AssertionError((self.logs / "enrol.log").read_text())

    def end_agent(self) -> None:
        """Ends it as its owner does, and the hard way if that does not help."""
        if self.agent is None:
            return
        config = f"/home/{OWNER}/.config/gpugoblin/agent.toml"
        try:
            self.debian.do("gpugoblin", "agent", "stop", "--exit", "--config", config, user=OWNER)
            assert self.agent.wait(30) == 0
        finally:
            end(self.agent)

    def show_window(self, display: str) -> str:
        """Starts the window before a running agent; the libraries that its process has loaded."""
        words = ("gpugoblin", "app", "--no-agent", "--config",
                 f"/home/{OWNER}/.config/gpugoblin/agent.toml")  # fmt: skip
        variables = {"DISPLAY": display, "QT_QPA_PLATFORM": "xcb"}
        window = self.debian.start(
            self.logs / "window.log", *words, user=OWNER, variables=variables
        )
        try:
            until_s = time.monotonic() + 60
            while time.monotonic() < until_s:
                assert window.poll() is None, (self.logs / "window.log").read_text()
                # The second start ends at once where a first one has come to the front for it.
                again = self.debian.run(
                    "timeout", "3", *words, user=OWNER, variables={**variables, "DISPLAY": ":nil"}
                )
                if again.returncode == 0:
                    return self._maps(window.pid)
                time.sleep(0.2)
            raise AssertionError((self.logs / "window.log").read_text())
        finally:
            end(window)

    def _maps(self, pid: int) -> str:
        family = psutil.Process(pid).children(recursive=True)
        return "\n".join(Path(f"/proc/{one.pid}/maps").read_text() for one in family)
