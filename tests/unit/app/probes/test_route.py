"""The kind of network of the default route."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.probes.route import route_kind

HEAD = "Iface\tDestination\tGateway\n"


@pytest.mark.parametrize(
    ("routes", "folders", "kind"),
    [
        ("", [], "untold"),
        (HEAD + "eth0\t00000000\t0101\n", ["eth0/device"], "wired"),
        (HEAD + "wlan0\t00000000\t0101\n", ["wlan0/wireless", "wlan0/device"], "wireless"),
        (HEAD + "tun0\t00000000\t0101\n", [], "other"),
        (HEAD + "eth0\t0000A8C0\t0101\n", ["eth0/device"], "untold"),
        (HEAD + "../x\t00000000\t0101\n", [], "untold"),
    ],
)
def test_kinds(tmp_path: Path, routes: str, folders: list[str], kind: str) -> None:
    (tmp_path / "route").write_text(routes)
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    assert route_kind(tmp_path / "route", tmp_path) == kind
