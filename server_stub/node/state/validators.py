"""Validators: machines of the lab or of a partner that may judge results (decision 099).

Owns: the rows of `meta` that begin with `validator:`, one for each, by name. A validator is known
by the key that signs its requests; nobody enrols one but the administrator. Must not: judge.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from gpugoblin.errors import NodeError
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Tx

__all__ = ["Validator", "add", "by_key", "caught", "listed", "remove"]

PREFIX: Final = "validator:"
NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)

_Word = Annotated[str, Meta(min_length=1, max_length=200)]


class Validator(Struct, frozen=True, forbid_unknown_fields=True):
    """One validator.

    Args:
        key: its public key, 64 hexadecimal digits.
        owners, buckets: contributors' pseudonyms and network buckets of this lab with which it has
            to do: it judges no result of theirs.
        ours: it is the lab's own; else a partner's, whose acceptances are repeated at random.
        caught_s: when one of its acceptances turned out wrong; it is not asked since.
    """

    name: Annotated[str, Meta(pattern=f"^{NAME.pattern}$")]
    key: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    owners: Annotated[tuple[_Word, ...], Meta(max_length=64)] = ()
    buckets: Annotated[tuple[_Word, ...], Meta(max_length=64)] = ()
    ours: bool = False
    caught_s: float | None = None


def listed(tx: Tx) -> list[Validator]:
    """All of them, by name."""
    rows = tx.rows(
        "select value from meta where key >= ? and key < ? order by key", (PREFIX, PREFIX + "~")
    )
    return [msgspec.json.decode(value, type=Validator) for (value,) in rows]


def add(tx: Tx, validator: Validator) -> None:
    """Makes a validator known, or changes what is known of it: one that was caught is asked again.

    Raises:
        NodeError: `parameter_invalid` for a name or a key that has no such form, or whose key
            belongs to another one.
    """
    try:
        msgspec.convert(msgspec.to_builtins(validator), Validator)
    except msgspec.ValidationError as cause:
        raise NodeError(
            "parameter_invalid", name="validator", value=validator.name, reason=str(cause)
        ) from cause
    for known in listed(tx):
        if known.key == validator.key and known.name != validator.name:
            raise NodeError(
                "parameter_invalid", name="key", value=validator.key,
                reason=f"it is the key of {known.name}",
            )  # fmt: skip
    _write(tx, validator)


def _write(tx: Tx, validator: Validator) -> None:
    tx.change(
        "insert into meta values(?, ?) on conflict(key) do update set value = excluded.value",
        (PREFIX + validator.name, msgspec.json.encode(validator).decode()),
    )


def remove(tx: Tx, name: str) -> None:
    """Forgets a validator. Raises NodeError `validator_unknown`."""
    if tx.change("delete from meta where key = ?", (PREFIX + name,)) == 0:
        raise NodeError("validator_unknown", key=name)


def by_key(tx: Tx, key: str) -> Validator:
    """The validator of a key that may be asked.

    Raises:
        NodeError: `validator_unknown`; `validator_caught` for one that was.
    """
    for known in listed(tx):
        if known.key == key:
            if known.caught_s is not None:
                raise NodeError("validator_caught", name=known.name)
            return known
    raise NodeError("validator_unknown", key=key)


def caught(step: Step, name: str) -> None:
    """An acceptance of this validator turned out wrong."""
    for known in listed(step.tx):
        if known.name == name:
            _write(step.tx, msgspec.structs.replace(known, caught_s=step.now_s))
