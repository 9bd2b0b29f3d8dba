"""The machine's state as items: what a card does, in the one word that is right."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.agent.model import CardState, GrantState, LeaseState, Limits, Model
from app.agent.network import Totals
from app.agent.view import Facts, items
from app.control.messages import AgentItem, CardItem, GrantItem, LeaseItem, TotalsItem
from app.policy.combine import CardRuling
from app.policy.rule import Reason, Ruling
from gpugoblin.errors import AgentError
from gpugoblin.ids import GrantId, LabId, LeaseId
from gpugoblin.wire.messages.contact import GrantOffer

FACTS = Facts("agent-1", 5.0, "https://c", "working", "", "0123", 1000.0, 77)
G = GrantId("grant_a")


def engine(refusal: AgentError | None = None) -> Any:
    return SimpleNamespace(rates=None, refusal=refusal, level="full")


def seen(
    model: Model, refusal: AgentError | None = None, offer: GrantOffer | None = None
) -> dict[str, Any]:
    card: Any = SimpleNamespace(engine=engine(refusal), done=3, identity="cpu", found=None)
    ruling = CardRuling(0, Ruling.RUN, (Reason("lending", (("hours", 2.0),)),), until_s=50.0)
    offers = None if offer is None else {G: offer}
    shown = items(model, {0: card}, {0: ruling}, Totals(1, 2, 3, 4), FACTS, offers=offers)
    return {item.key: item for item in shown}


def model(**fields: object) -> Model:
    made = Model(Limits(), now_s=10.0)
    made.cards[0] = CardState(0, "cpu", ruling="RUN")
    for name, value in fields.items():
        setattr(made.cards[0], name, value)
    return made


def leased(stage: Any) -> Model:
    made = model(engine="ready", lab=LabId("lab_a"))
    made.grants[G] = GrantState(G, LabId("lab_a"), 0, 100.0, 8)
    lease = LeaseState(LeaseId("lease_a"), G, 0, 1, 50.0, stage=stage)
    made.leases[lease.lease] = lease
    return made


@pytest.mark.parametrize(
    ("made", "doing"),
    [
        (model(ruling="STOP"), "stopped"),
        (model(), "waiting"),
        (model(rest_until_s=20.0), "resting"),
        (leased("submitted"), "computing"),
        (leased("fetching"), "fetching"),
        (leased("uploading"), "waiting"),
    ],
)
def test_what_a_card_does(made: Model, doing: str) -> None:
    assert seen(made)["card-0"].doing == doing


def granted(**fields: Any) -> Model:
    made = model(engine="ready", is_measured=True)
    made.grants[G] = GrantState(G, LabId("lab_a"), 0, 100.0, 8)
    for name, value in fields.items():
        setattr(made.grants[G], name, value)
    return made


def contacting(**fields: Any) -> Model:
    made = model(engine="ready", is_measured=True)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("made", "asks", "asks_at_s"),
    [
        (granted(ask_at_s=13.0), "lab", 1013.0),
        (granted(ask_at_s=13.0, asking=1), "lab", 1010.0),
        (contacting(contact_at_s=70.0), "coordinator", 1070.0),
        (contacting(contact_at_s=70.0, is_contacting=True), "coordinator", 1010.0),
        (contacting(), "", None),
        (model(), "", None),
        (leased("fetching"), "", None),
    ],
)
def test_whom_a_waiting_card_asks_next_and_when(
    made: Model, asks: str, asks_at_s: float | None
) -> None:
    card = seen(made)["card-0"]
    assert (card.asks, card.asks_at_s) == (asks, asks_at_s)


def test_a_refused_engine_shows_its_fix() -> None:
    refusal = AgentError("card_taken", card="cpu", holder="process 1")
    card = seen(model(), refusal)["card-0"]
    assert (card.doing, card.why) == ("refused", "card_taken")
    assert "processor.share" in card.fix


def test_moments_become_dates() -> None:
    made = leased("submitted")
    made.contact_at_s = 30.0
    shown = seen(made)
    agent, grant = shown["agent"], shown[G]
    assert isinstance(agent, AgentItem)
    assert isinstance(grant, GrantItem)
    assert agent.next_contact_s == 1030.0
    assert grant.until_s == 1100.0
    assert seen(model(rest_until_s=20.0))["card-0"].until_s == 1020.0


def test_labs_have_the_names_that_the_coordinator_publishes() -> None:
    offer = GrantOffer(
        "a.b.c", LabId("lab_a"), 0, "https://127.0.0.1:1",
        lab_name="tides", lab_words="Currents\nof the  North \x1b[2JSea\u202e.",
    )  # fmt: skip
    grant = seen(granted(), offer=offer)[G]
    assert isinstance(grant, GrantItem)
    assert grant.name == "tides"
    assert grant.words == "Currents of the North [2JSea."
    without = seen(granted())[G]
    assert without.name == without.words == ""


def test_reasons_leases_and_totals() -> None:
    shown = seen(leased("submitted"))
    card, lease, totals = shown["card-0"], shown["lease_a"], shown["totals"]
    assert isinstance(card, CardItem)
    assert card.reasons[0].fields == {"hours": 2.0}
    assert (card.queued, card.done, card.until_s) == (1, 3, 50.0)
    assert lease == LeaseItem("lease_a", 0, "submitted")
    assert totals == TotalsItem("totals", 1, 2, 3, 4, 77)
