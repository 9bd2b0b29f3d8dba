"""Contacts of devices: which card may work for which lab, until when.

Owns: the issuing, offering again and releasing of grants. The choice of the lab is in `fairness`,
what is read and written in `grants`.

Contacts that arrive together are answered together, so that a database in another process is asked
a dozen times a batch and not a dozen times a contact. Each sees what those before it were given.

A reply can be lost, so a grant that a device does not name as held is offered again while its lab
still wants cards, instead of making a second one. A grant that a device no longer holds and does
not want stops counting for its lab at once; it ends by itself.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from gpugoblin.errors import CoordinatorError, GoblinError, WireError
from gpugoblin.ids import AccountId, DeviceId, GrantId, LabId
from gpugoblin.wire.messages.contact import CardClass, Contact, ContactReply, Grant, GrantOffer
from gpugoblin.wire.tickets import sign_grant
from server_stub.coordinator.fairness import choose
from server_stub.coordinator.handlers.common import use_nonces
from server_stub.coordinator.handlers.grants import Books, CardGrant, Comer
from server_stub.coordinator.house import Caller, House, draw_id
from server_stub.coordinator.pseudonyms import network_bucket, owner_pseudonym
from server_stub.coordinator.settings import Settings
from server_stub.coordinator.store import Transaction

__all__ = ["MAX_TOGETHER", "Asked", "contact", "contacts", "live_s", "signed_contacts"]

MAX_TOGETHER: Final = 64
"""Contacts that are answered together."""

MAX_LIVE_PER_CARD: Final = 16
"""Valid grants of one card: a device that drops each of them soon gets no more for a while."""

_REST: Final = 0.25
"""A grant with less than this share of its time left is not offered again but made anew."""

_DAY_S: Final = 86_400
_MOST_WORDS: Final = 1000
"""Letters of a lab's public words that go with an offer."""


class Asked(NamedTuple):
    """One contact: who signed it, and what it says."""

    caller: Caller
    message: Contact


def signed_contacts(
    house: House, tx: Transaction, now_s: float, rng: random.Random, asked: Sequence[Asked]
) -> list[ContactReply | GoblinError]:
    """As `contacts`, each with a nonce that is used up; `signature_replayed` where it was before.

    What is refused uses up its nonce as well.
    """
    new = use_nonces(tx, now_s, [one.caller for one in asked])
    with tx.nested():
        fresh = [one for one, is_new in zip(asked, new, strict=True) if is_new]
        answers = iter(contacts(house, tx, now_s, rng, fresh))
    return [next(answers) if is_new else WireError("signature_replayed") for is_new in new]


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
    (answer,) = contacts(house, tx, now_s, rng, [Asked(caller, message)])
    if isinstance(answer, GoblinError):
        raise answer
    return answer


def contacts(
    house: House, tx: Transaction, now_s: float, rng: random.Random, asked: Sequence[Asked]
) -> list[ContactReply | GoblinError]:
    """The answers to several contacts, in order, each as `contact` would give it or raise it."""
    answers: dict[int, ContactReply | GoblinError] = {}
    waiting = list(enumerate(asked))
    while waiting:
        # A device that comes twice is answered in two rounds: the second sees the first's grants.
        first = {one.caller.public_key: (place, one) for place, one in reversed(waiting)}
        turn = sorted(first.values(), key=lambda pair: pair[0])
        answers.update(_round(house, tx, now_s, rng, turn))
        waiting = [pair for pair in waiting if pair[0] not in answers]
    return [answers[place] for place in range(len(asked))]


def live_s(settings: Settings) -> float:
    """A device that was silent for so long counts for no lab."""
    longest_s = max(settings.contact_s, settings.waiting_contact_s) * (1 + settings.contact_jitter)
    return 3 * longest_s


def _round(
    house: House,
    tx: Transaction,
    now_s: float,
    rng: random.Random,
    turn: Sequence[tuple[int, Asked]],
) -> dict[int, ContactReply | GoblinError]:
    """One round: devices that each come once."""
    books = Books(tx, now_s, live_s(house.settings))
    comers = books.open([one.caller.public_key for _, one in turn])
    wanting = {one.caller.public_key: _cards_wanted(house.settings, one.message) for _, one in turn}
    if any(wanting.values()):
        books.read_labs(house.settings.demand_s)
    answers: dict[int, ContactReply | GoblinError] = {}
    for place, (caller, message) in turn:
        comer = comers.get(caller.public_key)
        if comer is None:
            answers[place] = CoordinatorError("device_unknown")
        elif comer.revoked_s is not None:
            answers[place] = CoordinatorError("device_revoked")
        else:
            over = books.note_holding(comer, message.holding)
            desk = _Desk(house, books, now_s, rng, caller, comer)
            wanted = wanting[caller.public_key]
            found = [desk.offer(card, message.holding) for card in wanted]
            offers = tuple(offer for offer in found if offer is not None)
            answers[place] = ContactReply(
                device=DeviceId(comer.device),
                grants=offers,
                revoked=over,
                next_contact_s=_next_contact_s(house.settings, rng, len(offers) < len(wanted)),
            )
    books.write()
    return answers


class _Desk:
    """The grants of one device during one contact."""

    def __init__(
        self,
        house: House,
        books: Books,
        now_s: float,
        rng: random.Random,
        caller: Caller,
        comer: Comer,
    ) -> None:
        self._house = house
        self._books = books
        self._now_s = now_s
        self._rng = rng
        self._caller = caller
        self._comer = comer

    def offer(self, card: CardClass, holding: tuple[GrantId, ...]) -> GrantOffer | None:
        """A grant for one card: the one whose offer was lost, or a new one, or none."""
        shares = self._books.shares(self._comer, card.card)
        taking = {share.lab for share in shares if share.can_take(card.memory_bytes)}
        if not taking:
            return None
        mine = [grant for grant in self._comer.grants if grant.card == card.card]
        rest_s = _REST * self._house.settings.grant_s
        for grant in mine:
            if (
                grant.expires_s > self._now_s + rest_s
                and grant.revoked_s is None
                and grant.engine == (card.kind, card.engine_build, card.catalog_hash)
                and grant.card_grant not in holding
                and grant.lab in taking
            ):
                self._books.keep(self._comer, grant)
                return self._signed(grant)
        if len(mine) >= MAX_LIVE_PER_CARD:
            return None
        settings = self._house.settings
        last = self._books.last_lab(self._comer, card.card)
        choice = choose(shares, self._books.level, card.memory_bytes, settings.grant_s, last)
        if choice is None:
            return None
        issued_s = int(self._now_s)
        age_s = self._now_s - self._comer.created_s
        grant = CardGrant(
            card_grant=draw_id("grant", self._rng),
            lab=choice.lab.lab,
            card=card.card,
            card_class=card.kind,
            engine_build=card.engine_build,
            catalog_hash=card.catalog_hash,
            owner_age_days=max(0, min(40_000, int(age_s // _DAY_S))),
            network_bucket=network_bucket(
                self._house.pseudonym_key, self._caller.address, LabId(choice.lab.lab)
            ),
            max_leases=settings.max_leases,
            issued_s=issued_s,
            expires_s=issued_s + settings.grant_s,
        )
        self._books.issue(self._comer, grant, choice)
        return self._signed(grant)

    def _signed(self, grant: CardGrant) -> GrantOffer:
        house, lab = self._house, LabId(grant.lab)
        account = AccountId(self._comer.account)
        claims = Grant(
            jti=GrantId(grant.card_grant),
            aud=lab,
            exp=grant.expires_s,
            iat=grant.issued_s,
            device_key=self._caller.public_key.hex(),
            card=grant.card,
            owner_pseudonym=owner_pseudonym(house.pseudonym_key, account, lab),
            owner_age_days=grant.owner_age_days,
            network_bucket=grant.network_bucket,
            card_class=grant.card_class,
            engine_build=grant.engine_build,
            catalog_hash=grant.catalog_hash,
            max_leases=grant.max_leases,
        )
        place = self._books.place_of(grant.lab)
        return GrantOffer(
            ticket=sign_grant(house.ticket_key, claims),
            lab=lab,
            card=grant.card,
            address=place.address,
            certificate_sha256=place.certificate_sha256,
            lab_name=place.name,
            lab_words=place.words_public[:_MOST_WORDS],
        )


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
