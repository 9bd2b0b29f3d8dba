"""What an agent said in English, in the reader's language.

Owns: the sentences of findings, of counts and of reasons that come as text, as templates: a text
that was made from one is made again from its translation. Must not: guess; what matches no template
is shown as it came. The agent speaks English because others than its owner read its log.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Final

from app.control import words
from app.control.messages import Finding
from app.control.texts import _

__all__ = ["COUNTS", "FINDINGS", "SUBJECTS", "fields_retold", "finding_lines", "retold"]

FINDINGS: Final = (
    "This machine is {name}.",
    "This machine is {name}: {why}.",
    "This device is enrolled.",
    "This device is not enrolled.",
    "Approve the code that is shown.",
    "Name a coordinator first.",
    "Run `gpugoblin agent enrol` and approve the code.",
    "{address} answers.",
    "This machine's clock is within {span} s of the coordinator's.",
    "{free} are free, {least} always stay free.",
    "Free disk space, or lower `cache.least_free_bytes`.",
    "{name} is not lent: {why}",
    "Install a newer driver, or lend another card.",
    "The card at {address} is not lent: no Vulkan driver serves it.",
    "Install Mesa's Vulkan drivers: {command}",
    "{name} ({kind}) through Vulkan with {driver}: {count} operators, {classes}, tasks of at most"
    " {memory}.",
    "Card {card} draws at most {cap} W by your settings.",
    "Card {card} tells no default power limit, so a percent of it means nothing.",
    "Give its limit in watts: `power.cap_w`, or `cards.own` for one card.",
    "An engine starts, walled in at the level {level}.",
    "Card {card}: engines run, walled in at the level {level}.",
    "{directory}, this device's key is {fingerprint}.",
    "{directory} holds no key yet: the first start, or enrolling, makes it.",
    "It is known whether somebody uses the machine ({source}).",
    "It is known whether a game runs ({source}).",
    "It is known whether the machine runs on battery ({source}).",
    "It is known whether the network is metered ({source}).",
    "It is known what others need of the processor ({source}).",
    "The sensors of the cards are read ({source}).",
    "Nothing is lent while this is unknown; see docs/contributor/rules.md.",
)
COUNTS: Final = (
    "{n} results sent",
    "{n} sent too late to be used",
    "{n} sent whose job had been cancelled",
)
SUBJECTS: Final[Mapping[str, str]] = {
    "coordinator": "Coordinator",
    "clock": "Clock",
    "disk": "Disk",
    "card": "Card",
    "sandbox": "Walls",
    "host": "Machine",
    "enrolment": "Enrollment",
    "state": "State",
    "probe_idle": "Presence",
    "probe_play": "Games",
    "probe_power": "Power supply",
    "probe_network": "Network",
    "probe_load": "Load",
    "probe_cards": "Sensors",
}
_UNTIL: Final = ", until {moment}"
_BECAUSE: Final = "because {reasons}"
_FIELD: Final = re.compile(r"\{(\w+)(?::[^}]*)?\}")
MAX_TEXT: Final = 1000


def retold(text: str, templates: tuple[str, ...] = FINDINGS) -> str:
    """The text in the reader's language, if one of the templates made it; else as it is."""
    if len(text) > MAX_TEXT:
        return text
    for template in templates:
        found = _pattern(template).fullmatch(text)
        if found is not None:
            return _filled(_(template), found.groupdict())
    return text


def finding_lines(finding: Finding) -> tuple[str, str]:
    """What the doctor found, with its title, and what to do; the second is empty where all is
    well."""
    title = SUBJECTS.get(finding.subject, finding.subject.removeprefix("probe_"))
    what = f"{_(title)}: {retold(finding.what)}"
    return what, "" if finding.is_well else retold(finding.next_step)


def fields_retold(fields: Mapping[str, str | int | float]) -> dict[str, str | int | float]:
    """The fields of a notice, those that are sentences in the reader's language."""
    told = dict(fields)
    because, sent, until = (fields.get(name) for name in ("because", "sent", "until"))
    if isinstance(because, str) and because.startswith("because "):
        reasons = tuple(words.REASONS.values())
        parts = because.removeprefix("because ").split(" and ")
        told["because"] = _(_BECAUSE).format(
            reasons=_(" and ").join(retold(part, reasons) for part in parts)
        )
    if isinstance(sent, str):
        told["sent"] = ", ".join(retold(part, COUNTS) for part in sent.split(", "))
    if isinstance(until, str) and until:
        told["until"] = retold(until, (_UNTIL,))
    return told


def _filled(template: str, fields: Mapping[str, str]) -> str:
    return _FIELD.sub(lambda field: _moment_retold(field[1], fields[field[1]]), template)


def _moment_retold(name: str, text: str) -> str:
    """`Thu 12:00` with the reader's name of the day."""
    day, _space, time = text.partition(" ")
    return f"{_(day)} {time}" if name.endswith("_at") and day in words.DAYS else text


@functools.cache
def _pattern(template: str) -> re.Pattern[str]:
    parts = _FIELD.split(template)
    texts = [re.escape(part) if place % 2 == 0 else f"(?P<{part}>.*)"
             for place, part in enumerate(parts)]  # fmt: skip
    return re.compile("".join(texts))
