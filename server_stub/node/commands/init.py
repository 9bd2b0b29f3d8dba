"""`gpugoblin node init`: a configuration and the node's key."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gpugoblin.wire.keys import load_or_make_key
from gpugoblin.wire.signing import fingerprint, public_key_bytes
from gpugoblin.wire.tls import make_self_signed
from server_stub.node import settings as node_settings
from server_stub.node.commands.common import Commands, add, need_own_directory, writing

__all__ = ["register", "run"]


def register(commands: Commands) -> None:
    init = add(commands, "init", run, "write a configuration and make the node's key")
    init.add_argument("--state-dir", type=Path, required=True, help="for keys, jobs and results")
    init.add_argument("--lab", default="", help="the lab's id at the coordinator")
    init.add_argument("--port", type=int, default=0, help="of HTTPS; 0: none")
    init.add_argument("--coordinator", default="", help="https://host:port")


def run(arguments: argparse.Namespace) -> int:
    """Writes both once; what is there already stays."""
    config: Path = arguments.config
    if config.exists():
        print(f"{config} is there already; it is left as it is.", file=sys.stderr)
        return 1
    given = {"state_dir": str(arguments.state_dir.absolute())}
    parsed = node_settings.parse({
        **given, "lab": arguments.lab, "listen_port": arguments.port,
        "coordinator_address": arguments.coordinator,
    })  # fmt: skip
    shown = {name: parsed.values[name] for name in
             ("state_dir", "lab", "listen_port", "coordinator_address")}  # fmt: skip
    shown["confirmed_no_confidential_data"] = False
    need_own_directory(parsed.state)
    with writing(parsed.state):
        parsed.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = load_or_make_key(parsed.state / "node.key")
    with writing(config):
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(node_settings.template(shown), encoding="utf-8")
    public = public_key_bytes(key)
    print(f"configuration  {config}")
    print(f"key            {public.hex()}")
    print(f"fingerprint    {fingerprint(public)}")
    if parsed.listen_port:
        tls = make_self_signed(parsed.state, parsed.hostnames.split())
        print(f"certificate    {tls.sha256}")
    print("Before jobs may leave the lab, read confirmed_no_confidential_data in that file.")
    return 0
