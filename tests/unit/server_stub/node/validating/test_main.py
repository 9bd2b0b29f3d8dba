"""`gpugoblin validator` shows its key; with a node, the program judges for it (a real process)."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from server_stub.node.state import validators
from server_stub.node.state.validators import Validator
from server_stub.node.validating.main import main
from tests.helpers.lab import Lab, grid_settings, on_grid, row_sums, until, work_until
from tests.helpers.node import LabNode

__all__: list[str] = []

NODE = ("--node", "https://lab.example.org:8441")


def test_it_shows_its_key_and_keeps_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for _ in range(2):
        assert main([*NODE, "--show", "--directory", str(tmp_path / "v")]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    key = re.findall(r"[0-9a-f]{64}", shown[0])
    assert len(set(key)) == 1
    assert f"gpugoblin node validator add NAME --key {key[0]}" in shown[0]
    other = ["--node", "https://other.example.org", "--show", "--directory", str(tmp_path / "v")]
    assert main(other) == 0
    assert key[0] not in capsys.readouterr().out


@pytest.mark.parametrize(
    "address", ["http://lab", "lab", "https://", "https://a:99999", "https://[x"]
)
def test_an_address_that_is_none_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    assert main(["--node", address, "--show", "--directory", str(tmp_path / "v")]) == 1
    assert "[parameter_invalid]" in capsys.readouterr().err
    assert not (tmp_path / "v").exists()


def test_a_process_judges_what_a_volunteer_computed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "v"
    with LabNode(tmp_path, **grid_settings()) as node, Lab(node, tmp_path) as lab:
        address = f"https://127.0.0.1:{node.service.port}"
        main(["--node", address, "--show", "--directory", str(place)])
        key = re.findall(r"[0-9a-f]{64}", capsys.readouterr().out)[0]
        known = Validator("one", key, ours=True)
        node.call(node.node.handle(lambda step: validators.add(step.tx, known)))
        assert node.service.tls is not None
        words = [
            sys.executable, "-c",
            "import sys; from server_stub.node.validating.main import main; sys.exit(main())",
            "--node", address, "--level", "none", "--threads", "1",
            "--certificate", node.service.tls.sha256, "--directory", str(place),
        ]  # fmt: skip
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
            try:
                until(lambda: node.node.desk.present(), 60.0)
                array = lab.file(np.ones((6, 5), np.float32), "v.npy")
                with lab.device() as device:
                    job = on_grid(lab, row_sums((6, 5)), array, name="sums")
                    ended = work_until(lab, job, [device])
                assert (ended.state, ended.verified_by.recompute) == ("done", 1)
                assert node.node.desk.done == {"one": 1}
                assert "Recompute" not in node.workers.done
            finally:
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) == 0
