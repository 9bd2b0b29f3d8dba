"""The units of systemd: they parse, start what is there, and are closed where they can be."""

from __future__ import annotations

import configparser
import shlex
from pathlib import Path

import pytest

from app import main

UNITS = Path(__file__).parents[3] / "packaging" / "systemd"
NAMES = ("gpugoblin-agent.service", "gpugoblin-agent.user.service")


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNITS / name)
    return parser


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_starts_the_program_and_reads_its_file_again(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = unit(name)["Service"]
    words = shlex.split(service["ExecStart"])
    assert words[:4] == ["/opt/gpugoblin/bin/python", "-I", "-m", "app.main"]
    seen: list[object] = []
    monkeypatch.setattr(main, "_run", lambda options: seen.append(options) or 0)
    assert main.main(words[4:]) == 0
    # A server's file has to be there; that of a desktop is in its usual place, if anywhere.
    config = None if ".user." in name else Path("/etc/gpugoblin/agent.toml")
    assert getattr(seen[0], "config", "none of its own") == config
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_is_closed_where_engines_do_not_need_it_open(name: str) -> None:
    service = unit(name)["Service"]
    for option in ("LockPersonality", "RestrictRealtime", "RestrictSUIDSGID"):
        assert service[option] == "yes"
    assert "AF_PACKET" not in service["RestrictAddressFamilies"]
    assert "@mount" not in service["SystemCallFilter"]  # the engine's walls are mounts
    assert "RestrictNamespaces" not in service
