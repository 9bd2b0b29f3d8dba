"""`gpugoblin certificate check FILE`: is it genuine? Asks nobody.

Owns: the reading of what people keep: a certificate of credits, all of them in the data that an
owner took along, or the certificate of a job. Must not: trust a key for standing in the file when
another one is given.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from gpugoblin.client.certificate import JobCertificate
from gpugoblin.errors import ClientError, GoblinError, WireError
from gpugoblin.wire import credits
from gpugoblin.wire.credits import SealedCertificate

__all__ = ["certificate"]

MAX_BYTES: Final = 64 * 1024 * 1024
"""Of a file: the data of an account with every day of many years is smaller."""

_KEY: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


class _Taken(msgspec.Struct, frozen=True):
    """Of the data that an owner took along, only the certificates."""

    certificates: tuple[SealedCertificate, ...]


def certificate(words: Sequence[str]) -> int:
    """Checks a certificate that was kept as a file; 1 when it is not genuine."""
    parser = argparse.ArgumentParser(
        prog="gpugoblin certificate", description="Certificates that were kept as files (JSON)."
    )
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    text = "is it genuine? works without network"
    check = verbs.add_parser("check", help=text, description=text)
    check.add_argument("file", type=Path, help="JSON of a coordinator's page, or of a job")
    check.add_argument(
        "--key", default="",
        help="public key of the coordinator or of the node, 64 hexadecimal digits, as you know it",
    )  # fmt: skip
    check.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(words)
    try:
        return _check(given)
    except GoblinError as error:
        words = _line(error.what), _line(error.next_step)
        print(f"{words[0]}\n{words[1]} [{error.code}]", file=sys.stderr)
        return 1


def _check(given: argparse.Namespace) -> int:
    key = given.key.strip().lower()
    if key and _KEY.fullmatch(key) is None:
        raise _invalid(given.file, "--key is no key: 64 hexadecimal digits are wanted")
    data = _read(given.file)
    keys = _keys(data, given.file)
    if "body" in keys:
        try:
            text = data.decode()
        except UnicodeDecodeError as cause:
            raise _invalid(given.file, f"it is no certificate: {cause}") from cause
        shown = [dict(JobCertificate.from_json(text, node_key=key).rows())]
    elif "certificates" in keys:
        taken = _decoded(data, _Taken, given.file).certificates
        if not taken:
            raise _invalid(given.file, "there is no certificate in it")
        shown = [_genuine(one, key, given.file) for one in taken]
    else:
        shown = [_genuine(_decoded(data, SealedCertificate, given.file), key, given.file)]
    if given.json:
        print(json.dumps(shown))
        return 0
    for one in shown:
        print("\n".join(f"{name}: {_line(fact)}" for name, fact in one.items()), end="\n\n")
    print("Genuine." if key else _UNKNOWN_KEY)
    return 0


_UNKNOWN_KEY: Final = (
    "Nothing was changed since it was signed by the key above. Anybody can make a key: compare it"
    " with the one\nthat the coordinator's page of a certificate, or the lab, shows, or give that"
    " one as --key."
)


def _line(text: str) -> str:
    """A stranger's words on one line: none ends it, moves a cursor or hides what follows."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def _genuine(one: SealedCertificate, key: str, file: Path) -> dict[str, str]:
    try:
        credits.check(one, key)
    except WireError as cause:
        raise _invalid(file, f"the seal of {one.certificate.code} is wrong") from cause
    facts = one.certificate
    return {
        "code": facts.code,
        "contributor": facts.name,
        "lab": facts.lab,
        "from": _iso(facts.since_day),
        "to": _iso(facts.until_day),
        "units": f"{facts.micro_units // credits.MICRO}.{facts.micro_units % credits.MICRO:06d}",
        "tasks": str(facts.receipts),
        "issued": _iso(facts.issued_day),
        "sealed by": key or one.coordinator_key,
    }


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as source:
            data = source.read(MAX_BYTES + 1)
    except OSError as cause:
        raise _invalid(file, cause.strerror or str(cause)) from cause
    if len(data) > MAX_BYTES:
        raise _invalid(file, f"it is larger than {MAX_BYTES} bytes")
    return data


def _keys(data: bytes, file: Path) -> set[str]:
    found: dict[str, Any] = _decoded(data, dict[str, msgspec.Raw], file)
    return set(found)


def _decoded(data: bytes, kind: Any, file: Path) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise _invalid(file, f"it is no certificate: {str(cause)[:200]}") from cause


def _invalid(file: Path, reason: str) -> ClientError:
    return ClientError("kept_certificate_invalid", file=file, reason=reason)


def _iso(day: int) -> str:
    """As text; a day after the year 9999 is none that a calendar here knows."""
    try:
        return datetime.fromtimestamp(day * 86_400, tz=UTC).strftime("%Y-%m-%d")
    except (OverflowError, ValueError):
        return f"day {day} since 1970"
