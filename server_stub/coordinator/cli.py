"""The operator's commands: `gpugoblin coordinator ...`.

Owns: arguments and printing. Works on the database directly, beside a running server; the rules
are in `handlers`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from gpugoblin.clock import SystemClock
from gpugoblin.errors import GoblinError
from gpugoblin.ids import DeviceId, GrantId
from gpugoblin.wire.tls import TlsFiles
from server_stub import logs
from server_stub.coordinator import audit, backups, databases, ledger, probing, tables
from server_stub.coordinator.handlers import enrol, operator, signin
from server_stub.coordinator.handlers.hosted import hosted
from server_stub.coordinator.settings import Settings, load_settings
from server_stub.coordinator.state import initialize, open_house, tls_files
from server_stub.coordinator.store_writer import Transaction

__all__ = ["main"]

R = TypeVar("R")
DEFAULT_CONFIG: Final = Path("/etc/gpugoblin/coordinator.toml")
Arguments = argparse.Namespace


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a coordinator: accounts, devices, labs, grants and credits.

    Returns the exit status; errors go to standard error.
    """
    arguments = _parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
    except GoblinError as error:
        print(f"error: {error.what}\n{error.next_step} [{error.code}]", file=sys.stderr)
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpugoblin coordinator", description="Run and operate a coordinator."
    )
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    init = _verb(verbs, "init", "make a configuration, a database and keys", _init)
    init.add_argument("--host", default="127.0.0.1")
    init.add_argument("--port", type=int, default=8440)
    init.add_argument("--state-dir", default="", help="of database and keys; else beside the file")
    init.add_argument("--database", default="", help="postgresql://...; otherwise SQLite")
    init.add_argument("--hostname", action="append", help="name in the self-made certificate")
    _verb(verbs, "serve", "serve until SIGTERM", _serve)
    _verb(verbs, "status", "show counts and keys", _status)
    _verb(verbs, "check", "check the ledger and the audit record", _check)
    _verb(verbs, "backup", "copy the database while it is in use", _backup).add_argument("file")
    _verb(verbs, "restore", "fill an empty database with a copy", _restore).add_argument("file")
    _verb(verbs, "migrate", "bring the database to this program's schema", _migrate)
    for name, run in (("approve", _approve), ("deny", _deny)):
        verb = _verb(verbs, name, f"{name} the device that shows a code", run)
        verb.add_argument("code")
        verb.add_argument("--account", required=True)
        if name == "approve":
            text = "as the device shows it; another device is refused"
            verb.add_argument("--fingerprint", default="", help=text)
    credit = _verb(verbs, "credits", "show verified work", _credits)
    credit.add_argument("--by", choices=("owner", "device", "lab", "day"), default="owner")
    _verb(verbs, "hosted", "show the lab node that this operator runs, and look at it", _hosted)
    _add_groups(verbs)
    return parser


def _add_groups(verbs: Any) -> None:
    account = verbs.add_parser("account", help="accounts of contributors")
    accounts = account.add_subparsers(required=True, metavar="COMMAND")
    _verb(accounts, "add", "make an account", _account_add).add_argument("name")
    _verb(accounts, "list", "list accounts", _account_list)
    signout = _verb(accounts, "signout", "sign an account out of every browser", _account_signout)
    signout.add_argument("name")
    staff = verbs.add_parser("operator", help="who may use the operator's pages")
    staffs = staff.add_subparsers(required=True, metavar="COMMAND")
    promote = _verb(staffs, "add", "give an account the operator's pages", _operator_add)
    promote.add_argument("mailbox", help="mail address of an account that has signed in once")
    demote = _verb(staffs, "remove", "take the operator's pages away", _operator_remove)
    demote.add_argument("mailbox", help="mail address of an operator")
    lab = verbs.add_parser("lab", help="lab nodes")
    labs = lab.add_subparsers(required=True, metavar="COMMAND")
    add = _verb(labs, "add", "register a lab node", _lab_add)
    add.add_argument("name")
    add.add_argument("--key", required=True, help="public key of the node, 64 hexadecimal digits")
    add.add_argument("--address", required=True, help="https://host:port as contributors reach it")
    add.add_argument("--certificate", help="SHA-256 of the node's certificate")
    add.add_argument("--weight", type=float, default=1.0, help="share among labs with demand")
    add.add_argument("--max-cards", type=int, default=operator.MAX_CARDS)
    _verb(labs, "list", "list labs", _lab_list)
    revoke = verbs.add_parser("revoke", help="end a device or a grant")
    revokes = revoke.add_subparsers(required=True, metavar="COMMAND")
    _verb(revokes, "device", "end a device and its grants", _revoke_device).add_argument("device")
    _verb(revokes, "grant", "end one grant", _revoke_grant).add_argument("grant")


def _verb(
    verbs: Any, name: str, text: str, run: Callable[[Arguments], int]
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=text, description=text)
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)
    return parser


def _init(arguments: Arguments) -> int:
    chosen: dict[str, object] = {"host": arguments.host, "port": arguments.port}
    if arguments.state_dir:
        chosen["state_dir"] = str(Path(arguments.state_dir).absolute())
    if arguments.database:
        chosen["database"] = arguments.database
    if arguments.hostname:
        chosen["hostnames"] = tuple(arguments.hostname)
    settings = initialize(arguments.config, **chosen)
    key = open_house(settings).public_key.hex()
    made = {"config": str(arguments.config), "state_dir": str(settings.state_dir), "key": key}
    return _show(arguments, made)


def _serve(arguments: Arguments) -> int:
    from server_stub.coordinator.server import serve

    settings = load_settings(arguments.config)
    logs.configure(settings.log_format)

    def ready(address: str, tls: TlsFiles | None) -> None:
        pin = f" certificate_sha256={tls.sha256}" if tls else ""
        print(f"ready {address}{pin}", flush=True)

    serve(settings, ready)
    return 0


def _status(arguments: Arguments) -> int:
    from server_stub.coordinator.server import VERSION

    house = open_house(load_settings(arguments.config))
    tls = tls_files(house.settings)
    found = _run(
        house.settings, lambda tx, now_s: operator.status(tx, now_s, VERSION, house.public_key)
    )
    shown = {name: getattr(found, name) for name in found.__struct_fields__}
    return _show(arguments, {**shown, "certificate_sha256": tls.sha256 if tls else ""})


def _hosted(arguments: Arguments) -> int:
    house = open_house(load_settings(arguments.config))
    name = house.settings.hosted_lab
    found = _run(house.settings, lambda tx, now_s: hosted(house, tx))
    if not name or found is None:
        missing = "not registered: `lab add` does that; a researcher's lab of that name is not it"
        state = missing if name else "off: `hosted_lab` is empty"
        _show(arguments, {"hosted_lab": name, "state": state})
        return 1 if name else 0
    # The operator looks at an own machine, which may well be in an own network.
    seen = asyncio.run(probing.look(found.address, found.certificate_sha256, "127.0.0.1"))
    shown = {
        "hosted_lab": found.name, "lab": found.lab,
        "state": "suspended" if found.is_suspended else "registered", "seen": seen.outcome,
        "node": found.address, "certificate_sha256": found.certificate_sha256 or "",
    }  # fmt: skip
    _show(arguments, shown)
    return 1 if found.is_suspended or seen.outcome != "reached" else 0


def _check(arguments: Arguments) -> int:
    settings = load_settings(arguments.config)
    faults = _run(settings, lambda tx, now_s: ledger.audit_ledger(tx))
    broken = _run(settings, lambda tx, now_s: audit.verify_chain(tx))
    if arguments.json:
        _show(arguments, {"ledger_faults": len(faults), "audit_broken_at": broken or 0})
    else:
        chain = "whole" if broken is None else f"broken at entry {broken}"
        _show(arguments, {"ledger_faults": len(faults), "audit_record": chain})
    return 1 if faults or broken is not None else 0


def _backup(arguments: Arguments) -> int:
    backups.backup(load_settings(arguments.config), Path(arguments.file))
    return _show(arguments, {"backup": arguments.file})


def _restore(arguments: Arguments) -> int:
    counts = backups.restore(load_settings(arguments.config), Path(arguments.file))
    return _show(arguments, {"restored": arguments.file, **counts})


def _migrate(arguments: Arguments) -> int:
    settings = load_settings(arguments.config)
    databases.check_there(settings)
    before, after = databases.migrate(settings)
    return _show(arguments, {"schema_before": before, "schema": after})


def _approve(arguments: Arguments) -> int:
    return _decide(arguments, partial(enrol.approve, expected=arguments.fingerprint))


def _deny(arguments: Arguments) -> int:
    return _decide(arguments, enrol.deny)


def _decide(arguments: Arguments, decide: Callable[..., enrol.Decision]) -> int:
    house = open_house(load_settings(arguments.config))
    rng = random.SystemRandom()
    decision = _run(
        house.settings,
        lambda tx, now_s: decide(house, tx, now_s, rng, arguments.account, arguments.code),
    )
    if decision.error is not None:
        raise decision.error
    return _show(
        arguments,
        {"device": decision.device or "denied", "fingerprint": decision.fingerprint},
    )


def _account_add(arguments: Arguments) -> int:
    rng = random.SystemRandom()
    account = _run(
        load_settings(arguments.config),
        lambda tx, now_s: operator.add_account(tx, now_s, rng, arguments.name),
    )
    return _show(arguments, {"account": account, "name": arguments.name})


def _account_list(arguments: Arguments) -> int:
    settings = load_settings(arguments.config)
    return _show(arguments, _run(settings, lambda tx, now_s: operator.list_accounts(tx)))


def _account_signout(arguments: Arguments) -> int:
    ended = _run(
        load_settings(arguments.config),
        lambda tx, now_s: operator.end_sessions(tx, now_s, arguments.name),
    )
    return _show(arguments, {"name": arguments.name, "sessions_ended": ended})


def _operator_add(arguments: Arguments) -> int:
    mailbox = signin.mailbox_of(arguments.mailbox)
    account = _run(
        load_settings(arguments.config),
        lambda tx, now_s: operator.make_operator(tx, now_s, mailbox),
    )
    return _show(arguments, {"account": account, "role": "operator"})


def _operator_remove(arguments: Arguments) -> int:
    mailbox = signin.mailbox_of(arguments.mailbox)
    account = _run(
        load_settings(arguments.config),
        lambda tx, now_s: operator.remove_operator(tx, now_s, mailbox),
    )
    return _show(arguments, {"account": account, "role": "contributor"})


def _lab_add(arguments: Arguments) -> int:
    rng = random.SystemRandom()
    new = operator.NewLab(
        name=arguments.name,
        public_key=arguments.key,
        address=arguments.address,
        certificate_sha256=arguments.certificate,
        weight=arguments.weight,
        max_cards=arguments.max_cards,
    )
    house = open_house(load_settings(arguments.config))
    lab = _run(house.settings, lambda tx, now_s: operator.add_lab(tx, now_s, rng, new))
    return _show(arguments, {"lab": lab, "coordinator_key": house.public_key.hex()})


def _lab_list(arguments: Arguments) -> int:
    settings = load_settings(arguments.config)
    return _show(arguments, _run(settings, lambda tx, now_s: operator.list_labs(tx)))


def _revoke_device(arguments: Arguments) -> int:
    grants = _run(
        load_settings(arguments.config),
        lambda tx, now_s: operator.revoke_device(tx, now_s, DeviceId(arguments.device)),
    )
    return _show(arguments, {"device": arguments.device, "grants_revoked": len(grants)})


def _revoke_grant(arguments: Arguments) -> int:
    _run(
        load_settings(arguments.config),
        lambda tx, now_s: operator.revoke_grant(tx, now_s, GrantId(arguments.grant)),
    )
    return _show(arguments, {"grant": arguments.grant, "state": "revoked"})


def _credits(arguments: Arguments) -> int:
    settings = load_settings(arguments.config)
    return _show(arguments, _run(settings, lambda tx, now_s: ledger.credits_by(tx, arguments.by)))


def _run(settings: Settings, work: Callable[[Transaction, float], R]) -> R:
    now_s = SystemClock().wall_s()
    return databases.transact(settings, lambda tx: work(tx, now_s))


def _show(arguments: Arguments, shown: Any) -> int:
    if isinstance(shown, list):
        shown = [
            asdict(row) if is_dataclass(row) and not isinstance(row, type) else row for row in shown
        ]
    if arguments.json:
        print(json.dumps(shown))
        return 0
    print(tables.rows(shown) if isinstance(shown, list) else tables.facts(shown))
    return 0
