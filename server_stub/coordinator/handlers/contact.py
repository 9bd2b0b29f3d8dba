"""Contacts of devices: which card may work for which lab, until when.

Owns: the issuing, offering again and releasing of grants. The choice of the lab is in `fairness`.

A reply can be lost, so a grant that a device does not name as held is offered again while its lab
still wants cards, instead of making a second one. A grant that a device no longer holds and does
not want stops counting for its lab at once; it ends by itself.
"""

from __future__ import annotations

import random
from typing import Final

from gpugoblin.errors import CoordinatorError
from gpugoblin.ids import AccountId, DeviceId, GrantId, LabId
from gpugoblin.wire.messages.contact import CardClass, Contact, ContactReply, Grant, GrantOffer
from gpugoblin.wire.tickets import sign_grant
from server_stub.coordinator.fairness import Choice, LabShare, choose
from server_stub.coordinator.handlers.common import number
from server_stub.coordinator.house import Caller, House, draw_id
from server_stub.coordinator.pseudonyms import network_bucket, owner_pseudonym
from server_stub.coordinator.settings import Settings
from server_stub.coordinator.store import Row, Transaction

__all__ = ["contact", "live_cutoff_s"]

MAX_LIVE_PER_CARD: Final = 16
"""Valid grants of one card: a device that drops each of them soon gets no more for a while."""

_REST: Final = 0.25
"""A grant with less than this share of its time left is not offered again but made anew."""

_DAY_S: Final = 86_400


def contact(
    house: House,
    tx: Transaction,
    now_s: float,
    rng: random.Random,
    caller: Caller,
    message: Contact,
) -> ContactReply:
    """New grants for the cards that want one, held grants that are over, the next contact.

    Raises:
        CoordinatorError: `device_unknown`, `device_revoked`.
    """
    row = tx.row(
        "SELECT device, account, revoked_s FROM device WHERE public_key = ?", caller.public_key
    )
    if row is None:
        raise CoordinatorError("device_unknown")
    device, account, revoked_s = row
    if revoked_s is not None:
        raise CoordinatorError("device_revoked")
    tx.execute("UPDATE device SET seen_s = ? WHERE device = ?", now_s, device)
    over = _note_holding(tx, now_s, device, message.holding)
    desk = _Desk(house, tx, now_s, rng, caller, DeviceId(device), AccountId(account))
    wanted = _cards_wanted(house.settings, message)
    offers = [offer for card in wanted if (offer := desk.offer(card, message.holding)) is not None]
    return ContactReply(
        device=DeviceId(device),
        grants=tuple(offers),
        revoked=over,
        next_contact_s=_next_contact_s(house.settings, rng, len(offers) < len(wanted)),
    )


def live_cutoff_s(settings: Settings, now_s: float) -> float:
    """A device whose last contact is older than this counts for no lab."""
    longest_s = max(settings.contact_s, settings.waiting_contact_s) * (1 + settings.contact_jitter)
    return now_s - 3 * longest_s


class _Desk:
    """The grants of one device during one contact."""

    def __init__(
        self,
        house: House,
        tx: Transaction,
        now_s: float,
        rng: random.Random,
        caller: Caller,
        device: DeviceId,
        account: AccountId,
    ) -> None:
        self._house = house
        self._tx = tx
        self._now_s = now_s
        self._rng = rng
        self._caller = caller
        self._device = device
        self._account = account

    def offer(self, card: CardClass, holding: tuple[GrantId, ...]) -> GrantOffer | None:
        """A grant for one card: the one whose offer was lost, or a new one, or none."""
        shares = self._shares(card)
        again = self._lost_offer(card, holding, shares)
        if again is not None:
            return again
        if not any(share.can_take(card.memory_bytes) for share in shares):
            return None
        live = number(
            self._tx,
            "SELECT COUNT(*) FROM card_grant WHERE device = ? AND card = ? AND expires_s > ?",
            self._device, card.card, self._now_s,
        )  # fmt: skip
        if live >= MAX_LIVE_PER_CARD:
            return None
        choice = choose(
            shares,
            number(self._tx, "SELECT value FROM counter WHERE name = 'level'"),
            card.memory_bytes,
            self._house.settings.grant_s,
            self._last_lab(card),
        )
        return None if choice is None else self._issue(card, choice)

    def _shares(self, card: CardClass) -> list[LabShare]:
        """The labs with demand; this card itself does not count as held."""
        settings = self._house.settings
        labs = self._tx.rows(
            "SELECT lab, weight, served, cards_wanted, min_memory_bytes, max_cards FROM lab"
            " WHERE cards_wanted > 0 AND demand_s > ? AND suspended_s IS NULL",
            self._now_s - settings.demand_s,
        )
        if not labs:
            return []
        counts = self._tx.rows(
            "SELECT lab, COUNT(*) FROM (SELECT DISTINCT lab, device, card FROM card_grant"
            " WHERE expires_s > ? AND seen_s > ? AND revoked_s IS NULL AND released_s IS NULL"
            " AND NOT (device = ? AND card = ?)) AS held GROUP BY lab",
            self._now_s, live_cutoff_s(settings, self._now_s), self._device, card.card,
        )  # fmt: skip
        held: dict[str, int] = dict(counts)
        return [
            LabShare(lab, weight, served, wanted, held.get(lab, 0), memory, most)
            for lab, weight, served, wanted, memory, most in labs
        ]

    def _lost_offer(
        self, card: CardClass, holding: tuple[GrantId, ...], shares: list[LabShare]
    ) -> GrantOffer | None:
        taking = {share.lab for share in shares if share.can_take(card.memory_bytes)}
        rest_s = _REST * self._house.settings.grant_s
        for row in self._tx.rows(
            "SELECT card_grant, lab, card_class, engine_build, catalog_hash, owner_age_days,"
            " network_bucket, max_leases, issued_s, expires_s FROM card_grant"
            " WHERE device = ? AND card = ? AND expires_s > ? AND revoked_s IS NULL"
            " ORDER BY issued_s DESC, card_grant",
            self._device, card.card, self._now_s + rest_s,
        ):  # fmt: skip
            same = (row[2], row[3], row[4]) == (card.kind, card.engine_build, card.catalog_hash)
            if same and row[0] not in holding and row[1] in taking:
                self._tx.execute(
                    "UPDATE card_grant SET seen_s = ?, released_s = NULL WHERE card_grant = ?",
                    self._now_s, row[0],
                )  # fmt: skip
                return self._signed(card.card, row)
        return None

    def _last_lab(self, card: CardClass) -> str | None:
        row = self._tx.row(
            "SELECT lab FROM card_grant WHERE device = ? AND card = ?"
            " ORDER BY issued_s DESC, card_grant LIMIT 1",
            self._device, card.card,
        )  # fmt: skip
        return None if row is None else str(row[0])

    def _issue(self, card: CardClass, choice: Choice) -> GrantOffer:
        settings = self._house.settings
        lab = choice.lab.lab
        self._tx.execute("UPDATE lab SET served = ? WHERE lab = ?", choice.served, lab)
        self._tx.execute(
            "UPDATE counter SET value = ? WHERE name = 'level' AND value < ?",
            choice.level,
            choice.level,
        )
        created = self._tx.row("SELECT created_s FROM account WHERE account = ?", self._account)
        age_s = self._now_s - (created[0] if created is not None else self._now_s)
        issued_s = int(self._now_s)
        row: Row = (
            draw_id("grant", self._rng),
            lab,
            card.kind,
            card.engine_build,
            card.catalog_hash,
            max(0, min(40_000, int(age_s // _DAY_S))),
            network_bucket(self._house.pseudonym_key, self._caller.address, LabId(lab)),
            settings.max_leases,
            issued_s,
            issued_s + settings.grant_s,
        )
        self._tx.execute(
            "INSERT INTO card_grant (card_grant, lab, card_class, engine_build, catalog_hash,"
            " owner_age_days, network_bucket, max_leases, issued_s, expires_s, device, card,"
            " seen_s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *row, self._device, card.card, self._now_s,
        )  # fmt: skip
        return self._signed(card.card, row)

    def _signed(self, card: int, row: Row) -> GrantOffer:
        identity, lab, kind, build, catalog, age_days, bucket, max_leases, issued_s, expires_s = row
        grant = Grant(
            jti=identity,
            aud=lab,
            exp=expires_s,
            iat=issued_s,
            device_key=self._caller.public_key.hex(),
            card=card,
            owner_pseudonym=owner_pseudonym(self._house.pseudonym_key, self._account, lab),
            owner_age_days=age_days,
            network_bucket=bucket,
            card_class=kind,
            engine_build=build,
            catalog_hash=catalog,
            max_leases=max_leases,
        )
        place = self._tx.row("SELECT address, certificate_sha256 FROM lab WHERE lab = ?", lab)
        address, certificate = place if place is not None else ("", None)
        return GrantOffer(
            ticket=sign_grant(self._house.ticket_key, grant),
            lab=lab,
            card=card,
            address=address,
            certificate_sha256=certificate,
        )


def _note_holding(
    tx: Transaction, now_s: float, device: str, holding: tuple[GrantId, ...]
) -> tuple[GrantId, ...]:
    """Marks what the device holds and what it let go; the held ones that are over."""
    rows = tx.rows(
        "SELECT card_grant FROM card_grant"
        " WHERE device = ? AND expires_s > ? AND revoked_s IS NULL",
        device, now_s,
    )  # fmt: skip
    valid = {row[0] for row in rows}
    for grant in sorted(valid):
        if grant in holding:
            tx.execute(
                "UPDATE card_grant SET seen_s = ?, released_s = NULL WHERE card_grant = ?",
                now_s, grant,
            )  # fmt: skip
        else:
            tx.execute(
                "UPDATE card_grant SET released_s = COALESCE(released_s, ?) WHERE card_grant = ?",
                now_s, grant,
            )  # fmt: skip
    return tuple(sorted(set(holding) - valid))


def _cards_wanted(settings: Settings, message: Contact) -> list[CardClass]:
    """The cards that want a grant and may have one, each once, in order."""
    by_number = {card.card: card for card in message.cards}
    wanted = [by_number[card] for card in sorted(set(message.wants)) if card in by_number]
    allowed = [card for card in wanted if card.sandbox_level in settings.sandbox_levels]
    return allowed[: settings.max_cards_per_device]


def _next_contact_s(settings: Settings, rng: random.Random, waiting: bool) -> float:
    """Spread by jitter, so that devices which came together do not stay together; and early enough
    that a grant can be renewed before it ends."""
    mean_s = settings.waiting_contact_s if waiting else settings.contact_s
    jittered_s = mean_s * rng.uniform(1 - settings.contact_jitter, 1 + settings.contact_jitter)
    return min(jittered_s, settings.grant_s / 3)
