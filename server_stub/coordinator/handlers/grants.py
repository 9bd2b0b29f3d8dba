"""The grants of devices that come together, and the labs' counts of cards: read, changed, written.

Owns: the statements of a batch of contacts, and `cards_held`. Must not: choose a lab.

`cards_held` of a lab is the number of its (device, card) pairs with a grant that counts: one that
is valid, that its device holds or was just offered, of a device that was not silent for too long.
One grant of each pair carries the moment until which it counts (`counted_until_s`); the first batch
after that moment takes it out. So no contact counts the grants of all devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple

from gpugoblin.ids import GrantId
from server_stub.coordinator.fairness import Choice, LabShare
from server_stub.coordinator.store import Transaction, Value

__all__ = ["Books", "CardGrant", "Comer", "Place", "padded", "uncount"]

_SWEEP: Final = 256
"""Counts that ended and are taken out with each batch: more than a batch adds."""

_HISTORY_S: Final = 7 * 86_400
"""How long it is remembered which lab a card worked for last."""

_MANY: Final = 64

_FIELDS: Final = (
    "card_grant, lab, card, card_class, engine_build, catalog_hash, owner_age_days,"
    " network_bucket, max_leases, issued_s, expires_s"
)
_ALL: Final = _FIELDS + ", device, seen_s, counted_until_s"
_INSERT: Final = f"INSERT INTO card_grant ({_ALL}) VALUES "  # noqa: S608 - our words
_ROW: Final = f"({', '.join(14 * '?')})"


@dataclass(frozen=True, slots=True)
class CardGrant:
    """One valid grant, or a new one. `counts` when it is the one of its card that counts."""

    card_grant: str
    lab: str
    card: int
    card_class: Literal["cpu", "vulkan", "cuda"]
    engine_build: str
    catalog_hash: str
    owner_age_days: int
    network_bucket: str
    max_leases: int
    issued_s: int
    expires_s: int
    revoked_s: float | None = None
    released_s: float | None = None
    counts: bool = False

    @property
    def engine(self) -> tuple[str, str, str]:
        return self.card_class, self.engine_build, self.catalog_hash


@dataclass(slots=True)
class Comer:
    """A device that came. `grants` are its valid ones, the newest first; `kept` those that it holds
    or is offered now, by lab and card."""

    device: str
    account: str
    created_s: float
    revoked_s: float | None
    grants: list[CardGrant] = field(default_factory=list)
    kept: dict[tuple[str, int], list[CardGrant]] = field(default_factory=dict)
    fresh: list[CardGrant] = field(default_factory=list)


class Place(NamedTuple):
    """Where the node of a lab is, and what the lab says of itself in public."""

    address: str
    certificate_sha256: str | None
    name: str
    words_public: str


class Books:
    """What one round of contacts reads, decides on and writes."""

    def __init__(self, tx: Transaction, now_s: float, live_s: float) -> None:
        self._tx = tx
        self._now_s = now_s
        self._live_s = live_s
        self._labs: dict[str, LabShare] = {}
        self._places: dict[str, Place] = {}
        self._changed: Counter[str] = Counter()
        self._served: dict[str, int] = {}
        self._comers: list[Comer] = []
        self._last: dict[tuple[str, int], str] = {}
        self._first_level = 0
        self.level = 0

    def open(self, keys: Sequence[bytes]) -> dict[bytes, Comer]:
        """The devices with these keys, and their grants."""
        _sweep(self._tx, self._now_s)
        marks, values = padded(keys)
        comers = {
            key: Comer(device, account, created_s, revoked_s)
            for key, device, account, created_s, revoked_s in self._tx.rows(
                "SELECT device.public_key, device.device, device.account,"  # noqa: S608 - marks
                " account.created_s, device.revoked_s FROM device"
                " JOIN account ON account.account = device.account"
                f" WHERE device.public_key IN ({marks})",
                *values,
            )
        }
        self._comers = [comer for comer in comers.values() if comer.revoked_s is None]
        if self._comers:
            by_device = {comer.device: comer for comer in self._comers}
            marks, values = padded(list(by_device))
            for device, *row in self._tx.rows(
                f"SELECT device, {_FIELDS}, revoked_s, released_s,"  # noqa: S608 - our words
                " counted_until_s IS NOT NULL"
                f" FROM card_grant WHERE device IN ({marks}) AND expires_s > ?"
                " ORDER BY issued_s DESC, card_grant",
                *values, self._now_s,
            ):  # fmt: skip
                by_device[device].grants.append(CardGrant(*row))
        return comers

    def read_labs(self, demand_s: float) -> None:
        """The labs that want cards."""
        for lab, weight, served, wanted, memory, most, held, *place in self._tx.rows(
            "SELECT lab, weight, served, cards_wanted, min_memory_bytes, max_cards, cards_held,"
            " address, certificate_sha256, name, words_public FROM lab"
            " WHERE cards_wanted > 0 AND demand_s > ? AND suspended_s IS NULL",
            self._now_s - demand_s,
        ):
            self._labs[lab] = LabShare(lab, weight, served, wanted, held, memory, most)
            self._places[lab] = Place(*place)
        if len(self._labs) > 1:
            self._read_history()
        if self._labs:
            row = self._tx.row("SELECT value FROM counter WHERE name = 'level'")
            self.level = self._first_level = 0 if row is None else int(row[0])

    def _read_history(self) -> None:
        """The last labs of devices without a valid grant: their blobs may still be there."""
        away = [comer.device for comer in self._comers if not comer.grants]
        if not away:
            return
        marks, values = padded(away)
        for device, card, lab in self._tx.rows(
            "SELECT device, card, lab FROM card_grant"  # noqa: S608 - question marks
            f" WHERE device IN ({marks}) AND expires_s > ?"
            " ORDER BY expires_s, card_grant DESC",
            *values, self._now_s - _HISTORY_S,
        ):  # fmt: skip
            self._last[device, card] = lab

    def note_holding(self, comer: Comer, holding: tuple[GrantId, ...]) -> tuple[GrantId, ...]:
        """Marks what the device holds and what it let go; the held ones that are over."""
        valid = set()
        for grant in comer.grants:
            if grant.revoked_s is None:
                valid.add(grant.card_grant)
                if grant.card_grant in holding:
                    comer.kept.setdefault((grant.lab, grant.card), []).append(grant)
        before = {(grant.lab, grant.card) for grant in comer.grants if grant.counts}
        for lab, _ in before - set(comer.kept):
            self._count(lab, -1)
        for lab, _ in set(comer.kept) - before:
            self._count(lab, 1)
        return tuple(sorted(GrantId(one) for one in set(holding) - valid))

    def shares(self, comer: Comer, card: int) -> list[LabShare]:
        """The labs with demand; this card itself does not count as held."""
        return [
            replace(share, cards_held=share.cards_held - 1) if (lab, card) in comer.kept else share
            for lab, share in self._labs.items()
        ]

    def place_of(self, lab: str) -> Place:
        """Where a lab that wants cards is, and what it says of itself."""
        return self._places[lab]

    def last_lab(self, comer: Comer, card: int) -> str | None:
        """Which lab a card worked for last, as far as it is remembered."""
        for grant in comer.grants:
            if grant.card == card:
                return grant.lab
        return self._last.get((comer.device, card))

    def keep(self, comer: Comer, grant: CardGrant) -> None:
        """A grant is offered (again)."""
        if (grant.lab, grant.card) not in comer.kept:
            self._count(grant.lab, 1)
        comer.kept.setdefault((grant.lab, grant.card), []).append(grant)

    def issue(self, comer: Comer, grant: CardGrant, choice: Choice) -> None:
        """A new grant."""
        self.keep(comer, grant)
        comer.fresh.append(grant)
        self._labs[grant.lab] = replace(self._labs[grant.lab], served=choice.served)
        self._served[grant.lab] = choice.served
        self.level = max(self.level, choice.level)

    def write(self) -> None:
        """Writes what was decided."""
        tx, now_s = self._tx, self._now_s
        if not self._comers:
            return
        _each(tx, "UPDATE device SET seen_s = ? WHERE device IN ", (now_s,),
              [comer.device for comer in self._comers])  # fmt: skip
        counted: list[str] = []
        others: list[str] = []
        released: list[str] = []
        for comer in self._comers:
            fresh = {grant.card_grant for grant in comer.fresh}
            kept = set()
            for grants in comer.kept.values():
                newest = max(grants, key=lambda one: (one.expires_s, one.card_grant)).card_grant
                for grant in grants:
                    kept.add(grant.card_grant)
                    if grant.card_grant not in fresh:
                        (counted if grant.card_grant == newest else others).append(grant.card_grant)
            released += [
                grant.card_grant
                for grant in comer.grants
                if grant.card_grant not in kept
                and grant.revoked_s is None
                and (grant.released_s is None or grant.counts)
            ]
        until_s = now_s + self._live_s
        _each(
            tx,
            "UPDATE card_grant SET seen_s = ?, released_s = NULL, counted_until_s ="
            " CASE WHEN expires_s < ? THEN expires_s ELSE ? END WHERE card_grant IN ",
            (now_s, until_s, until_s),
            counted,
        )
        _each(
            tx,
            "UPDATE card_grant SET seen_s = ?, released_s = NULL, counted_until_s = NULL"
            " WHERE card_grant IN ",
            (now_s,),
            others,
        )
        _each(
            tx,
            "UPDATE card_grant SET released_s = COALESCE(released_s, ?), counted_until_s = NULL"
            " WHERE card_grant IN ",
            (now_s,),
            released,
        )
        self._insert(until_s)
        for lab in sorted(set(self._served) | {lab for lab, n in self._changed.items() if n}):
            if lab in self._served:
                tx.execute(
                    "UPDATE lab SET served = ?, cards_held = cards_held + ? WHERE lab = ?",
                    self._served[lab], self._changed[lab], lab,
                )  # fmt: skip
            else:
                tx.execute(
                    "UPDATE lab SET cards_held = cards_held + ? WHERE lab = ?",
                    self._changed[lab], lab,
                )  # fmt: skip
        if self.level > self._first_level:
            tx.execute("UPDATE counter SET value = ? WHERE name = 'level'", self.level)

    def _count(self, lab: str, change: int) -> None:
        self._changed[lab] += change
        if lab in self._labs:
            share = self._labs[lab]
            self._labs[lab] = replace(share, cards_held=share.cards_held + change)

    def _insert(self, until_s: float) -> None:
        rows: list[tuple[Value, ...]] = []
        for comer in self._comers:
            for grant in comer.fresh:
                newest = max(
                    comer.kept[grant.lab, grant.card],
                    key=lambda one: (one.expires_s, one.card_grant),
                )
                rows.append((
                    grant.card_grant, grant.lab, grant.card, *grant.engine, grant.owner_age_days,
                    grant.network_bucket, grant.max_leases, grant.issued_s, grant.expires_s,
                    comer.device, self._now_s,
                    min(float(grant.expires_s), until_s) if newest is grant else None,
                ))  # fmt: skip
        for part in _parts(rows):
            self._tx.execute(
                _INSERT + ", ".join([_ROW] * len(part)), *(value for row in part for value in row)
            )


def uncount(tx: Transaction, grant: str) -> None:
    """Takes a grant that is revoked out of its lab's count."""
    for (lab,) in tx.rows(
        "UPDATE card_grant SET counted_until_s = NULL"
        " WHERE card_grant = ? AND counted_until_s IS NOT NULL RETURNING lab",
        grant,
    ):
        tx.execute("UPDATE lab SET cards_held = cards_held - 1 WHERE lab = ?", lab)


def padded(values: Sequence[str | bytes]) -> tuple[str, list[str | bytes]]:
    """Question marks for a list, and the list, its last value repeated up to a power of two: so
    there are few different statements, which a database can keep prepared."""
    size = 1 << (len(values) - 1).bit_length()
    return ", ".join(size * "?"), [*values, *[values[-1]] * (size - len(values))]


def _sweep(tx: Transaction, now_s: float) -> None:
    over = tx.rows(
        "UPDATE card_grant SET counted_until_s = NULL WHERE card_grant IN"
        " (SELECT card_grant FROM card_grant WHERE counted_until_s <= ? LIMIT ?) RETURNING lab",
        now_s, _SWEEP,
    )  # fmt: skip
    for lab, count in sorted(Counter(row[0] for row in over).items()):
        tx.execute("UPDATE lab SET cards_held = cards_held - ? WHERE lab = ?", count, lab)


def _each(tx: Transaction, sql: str, first: tuple[Value, ...], names: list[str]) -> None:
    for start in range(0, len(names), _MANY):
        marks, values = padded(names[start : start + _MANY])
        tx.execute(f"{sql}({marks})", *first, *values)


def _parts(rows: list[tuple[Value, ...]]) -> Iterator[list[tuple[Value, ...]]]:
    """Rows in parts whose sizes are powers of two."""
    start = 0
    while start < len(rows):
        size = min(_MANY, 1 << ((len(rows) - start).bit_length() - 1))
        yield rows[start : start + size]
        start += size
