"""The units of systemd: they parse, start what is there, and are closed where they can be."""

from __future__ import annotations

import argparse
import configparser
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app import main, session
from server_stub.coordinator.cli import _parser as coordinator_parser
from server_stub.node import commands as node_commands


def _node_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    node_commands.register(parser)
    return parser


SERVERS = {"node": _node_parser, "coordinator": coordinator_parser}
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


def test_the_helper_of_a_session_starts_and_has_no_way_out_but_sockets_of_this_machine() -> None:
    service = unit("gpugoblin-session.user.service")["Service"]
    words = shlex.split(service["ExecStart"])
    assert words == ["/opt/gpugoblin/bin/python", "-I", "-m", "app.session"]
    assert callable(session.main)
    assert service["RestrictAddressFamilies"] == "AF_UNIX AF_NETLINK"
    assert service["RestrictNamespaces"] == service["MemoryDenyWriteExecute"] == "yes"


def test_the_units_of_both_servers_start_them_and_keep_them_apart() -> None:
    node, coordinator = (unit(f"gpugoblin-{one}.service")["Service"] for one in SERVERS)
    for service, (name, parser) in zip((node, coordinator), SERVERS.items(), strict=True):
        words = shlex.split(service["ExecStart"])
        assert words[:4] == ["/opt/gpugoblin/bin/python", "-I", "-m", f"server_stub.{name}"]
        assert parser().parse_args(words[4:]).config.parent == Path(f"/etc/gpugoblin-{name}")
        assert service["StateDirectory"] == f"gpugoblin-{name}"
        assert service["StateDirectoryMode"] == "0700"
    assert node["User"] != coordinator["User"]
    for service, other in ((node, coordinator), (coordinator, node)):
        hidden = service["InaccessiblePaths"].split()
        assert {f"-{place}/{other['StateDirectory']}" for place in ("/var/lib", "/etc")} <= set(
            hidden
        )


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd on this machine")
@pytest.mark.parametrize("path", sorted(UNITS.glob("*.service")), ids=lambda path: path.name)
def test_systemd_takes_the_unit_without_a_word(path: Path, tmp_path: Path) -> None:
    """With a program that is there: whether the package is installed is not the unit's matter."""
    text = path.read_text().replace("/opt/gpugoblin/bin/python", sys.executable)
    name = path.name.replace(".user.service", ".service")
    (tmp_path / name).write_text(text)
    scope = "--user" if ".user." in path.name else "--system"
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", scope]
    done = subprocess.run(
        [*command, str(tmp_path / name)],
        env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_is_closed_where_engines_do_not_need_it_open(name: str) -> None:
    service = unit(name)["Service"]
    for option in ("LockPersonality", "RestrictRealtime", "RestrictSUIDSGID"):
        assert service[option] == "yes"
    assert "AF_PACKET" not in service["RestrictAddressFamilies"]
    assert "@mount" not in service["SystemCallFilter"]  # the engine's walls are mounts
    assert "RestrictNamespaces" not in service
