"""What the window and the tray say, from the agent's items: pure, no Qt.

Owns: the one state of the whole (for icon and headline), and the lines of a card. Must not: hold a
rule of lending; it repeats what the agent says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from app.control import words
from app.control.messages import (
    AgentItem,
    CardItem,
    GrantItem,
    Item,
    MachineItem,
    NoticeItem,
    TotalsItem,
)
from app.control.plain import lost_line
from app.control.retold import fields_retold
from app.control.texts import _
from gpugoblin.units import format_bytes, format_flops

__all__ = [
    "CardView",
    "Overview",
    "State",
    "card_name",
    "card_view",
    "cards_of",
    "labs_of",
    "machine_line",
    "notice_line",
    "overview",
    "totals_line",
]

State: TypeAlias = Literal["away", "setup", "computing", "ready", "paused", "resting", "trouble"]
"""Of the whole. `paused`: the owner said so; `resting`: a rule says so; `ready`: no work yet."""

OWNER: Final = frozenset({"owner_paused", "owner_finished", "owner_stopped"})


@dataclass(frozen=True, slots=True)
class Overview:
    """The headline: a state, a few words, and one line that says why."""

    state: State
    title: str
    line: str


@dataclass(frozen=True, slots=True)
class CardView:
    """One card as it is shown.

    Args:
        facts: pairs of a name and a value: temperature, memory, power, speed.
        load: of its memory, 0 to 1, where known.
        about: what the lab says in public of its work; may be empty.
    """

    card: int
    name: str
    state: State
    title: str
    why: str
    task: str
    facts: tuple[tuple[str, str], ...]
    load: float | None
    is_paused: bool
    about: str = ""


def labs_of(items: Mapping[str, Item]) -> dict[str, tuple[str, str]]:
    """Name and public words of the labs that have a grant now; one without a name is its id."""
    found: dict[str, tuple[str, str]] = {}
    for item in items.values():
        if isinstance(item, GrantItem) and (item.lab not in found or item.name):
            found[item.lab] = (item.name or item.lab, item.words)
    return found


def cards_of(items: Mapping[str, Item]) -> list[CardItem]:
    """The cards by number."""
    found = [item for item in items.values() if isinstance(item, CardItem)]
    return sorted(found, key=lambda card: card.card)


def card_name(card: CardItem) -> str:
    """What people call a card."""
    if card.kind == "cpu" and card.name in ("", "Processor"):  # what the agent calls it
        return _("Processor")
    return card.name or _("Graphics card")


def overview(items: Mapping[str, Item], now_s: float, away: str = "") -> Overview:
    """The state of the whole. `away`: why there is no agent, when there is none."""
    agent = items.get("agent")
    cards = cards_of(items)
    if away or not isinstance(agent, AgentItem):
        return Overview("away", _("Not connected to the agent"), away or _("The agent starts."))
    if agent.settings_fault:
        return Overview("trouble", _("The settings file has a fault"), agent.settings_fault)
    if agent.state == "not_enrolled":
        line = _("Approve the code {code} at the coordinator.").format(code=agent.user_code or "…")
        if not agent.coordinator:
            line = _("No coordinator is named yet.")
        return Overview("setup", _("Not enrolled yet"), line)
    if not cards:
        return Overview("resting", _("No card"), _("This machine has no card that can be lent."))
    busy = [card for card in cards if card.doing == "computing"]
    if busy:
        title = (
            _("Computing")
            if len(cards) == 1
            else _("Computing on {n} of {of} cards").format(n=len(busy), of=len(cards))
        )
        return Overview("computing", title, words.why(busy[0], now_s))
    if all(_is_owners(card) for card in cards):
        return Overview("paused", _("Paused by you"), words.why(cards[0], now_s))
    if any(card.doing in ("refused", "resting") for card in cards):
        ill = next(card for card in cards if card.doing in ("refused", "resting"))
        return Overview("trouble", _("A card cannot lend"), words.why(ill, now_s))
    lending = [card for card in cards if card.ruling in ("RUN", "THROTTLE")]
    if lending:
        title = _("Ready, waiting for work")
        if agent.state == "coordinator_away":
            title = _("Ready, but the coordinator does not answer")
        return Overview("ready", title, words.why(lending[0], now_s))
    return Overview("resting", _("Not lending now"), words.why(cards[0], now_s))


def card_view(
    card: CardItem, now_s: float, labs: Mapping[str, tuple[str, str]] | None = None
) -> CardView:
    """Everything that is shown of one card. `labs`: as `labs_of` gives them."""
    name, about = (labs or {}).get(card.lab, (card.lab, ""))
    line = words.why_sentence(card, now_s)
    facts: list[tuple[str, str]] = []
    for sensor in card.sensors[:3]:
        limit = f" / {sensor.limit_c:.0f}" if sensor.limit_c is not None else ""
        facts.append((sensor.label, f"{sensor.temperature_c:.0f}{limit} °C"))
    load = None
    if card.memory_bytes:
        used = card.memory_used_bytes or 0
        load = min(1.0, used / card.memory_bytes)
        shown = f"{format_bytes(used)} / {format_bytes(card.memory_bytes)}"
        facts.append((_("memory"), shown))
    if card.power_w is not None:
        cap = f" / {card.cap_w}" if card.cap_w is not None else ""
        facts.append((_("power"), f"{card.power_w:.0f}{cap} W"))
    if card.fan_rpm is not None:
        facts.append((_("fan"), f"{card.fan_rpm} rpm"))
    if card.flops_per_s:
        facts.append((_("speed"), f"{format_flops(card.flops_per_s)}/s"))
    return CardView(
        card.card, card_name(card), _card_state(card), _card_title(card),
        line[:1].upper() + line[1:], _task(card, name), tuple(facts), load, _is_owners(card),
        about,
    )  # fmt: skip


def totals_line(items: Mapping[str, Item]) -> str:
    """What was done since the start, in one line; empty before anything was."""
    totals = items.get("totals")
    if not isinstance(totals, TotalsItem) or not totals.results_sent:
        return ""
    text = _("{n} results sent since the start, {received} received, {sent} sent").format(
        n=totals.results_sent,
        received=format_bytes(totals.bytes_received),
        sent=format_bytes(totals.bytes_sent),
    )
    if totals.energy_wh >= 0.05:
        text += _("; today {wh:.1f} Wh").format(wh=totals.energy_wh)
    if lost_line(totals):
        text += f". {lost_line(totals)}"
    return f"{text}."


def machine_line(machine: MachineItem, now_s: float) -> str:
    """One machine of the account: whether it is there, and what it has done."""
    name = machine.fingerprint
    if machine.is_this:
        name = _("{machine} (this one)").format(machine=name)
    if machine.is_revoked:
        state = _("taken off the account")
    elif machine.seen_s is None:
        state = _("never in touch")
    else:
        state = _("last in touch {when}").format(when=words.when(machine.seen_s, now_s))
    return _("{machine}: {state}. Cards at work: {cards}. Credits: {credits:.1f}.").format(
        machine=name, state=state, cards=machine.cards, credits=machine.credits
    )


def notice_line(notice: NoticeItem) -> str:
    """The words of a notice; those of an agent of another version are shown as codes."""
    try:
        return words.line(notice.code, fields_retold(notice.fields))
    except (LookupError, ValueError):
        return notice.code.replace("_", " ")


def _is_owners(card: CardItem) -> bool:
    return any(one.code in OWNER for one in card.reasons)


def _card_state(card: CardItem) -> State:
    if _is_owners(card):
        return "paused"
    if card.doing in ("refused", "resting"):
        return "trouble"
    if card.doing == "computing":
        return "computing"
    return "ready" if card.ruling in ("RUN", "THROTTLE") else "resting"


def _card_title(card: CardItem) -> str:
    titles = {
        "paused": _("Paused by you"),
        "trouble": _("Cannot lend"),
        "computing": _("Computing"),
        "ready": _("Waiting for work"),
        "resting": _("Not lending"),
    }
    if card.is_draining:
        return _("Finishing its last task")
    if card.ruling == "THROTTLE" and card.doing == "computing":
        return _("Computing slowly ({percent} % of the time)").format(percent=card.duty_percent)
    if card.doing == "fetching":
        return _("Fetching its next task")
    return titles[_card_state(card)]


def _task(card: CardItem, lab: str) -> str:
    if not lab:
        return ""
    done = _("{n} tasks done").format(n=card.done)
    waiting = _(", {n} waiting").format(n=card.queued) if card.queued else ""
    return _("For {lab}: {done}{waiting}").format(lab=lab, done=done, waiting=waiting)
