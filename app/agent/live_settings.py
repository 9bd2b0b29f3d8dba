"""Settings that change while an agent runs: by its file, by its owner, by the labs that are taken.

Owns: what a change means for each part. Must not: read or write a file of its own, or decide when
one is looked at.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import msgspec

from app.agent.enrolment import chosen_peer
from app.agent.events import ContactReply, Event, LabRefused
from app.agent.joining import Joining
from app.agent.machine import Machine
from app.agent.model import Limits
from app.agent.owner import Owner
from app.agent.settings import Settings
from app.agent.settings_file import SettingsFile
from app.agent.speech import Speech
from app.agent.state import State
from app.policy.labs import accepts
from gpugoblin.errors import GoblinError

__all__ = ["Follows", "accepted", "follow", "limits_of", "take"]


class Follows(Protocol):
    """What is changed of an agent."""

    joining: Joining
    machine: Machine
    owner: Owner
    settings: Settings
    settings_fault: str
    speech: Speech
    state: State

    def post(self, *events: Event) -> None:
        """Takes events for the next step."""
        ...


def limits_of(settings: Settings) -> Limits:
    """The machine's pace from the settings."""
    return Limits(
        prefetch=settings.number("queue.prefetch"),
        kept_bytes=settings.number("results.limit_bytes"),
    )


def follow(agent: Follows, file: SettingsFile) -> None:
    """Takes what a file says now of the live settings; where it is wrong the last good ones hold,
    and `settings_fault` says why."""
    try:
        kept, is_joined = agent.state.owner_settings().values, agent.joining.is_enrolled
        settings = agent.settings.followed(file.read(), kept, is_joined=is_joined)
        agent.joining.refuse(chosen_peer(settings))
    except GoblinError as error:
        agent.settings_fault = error.what[:1000]
        agent.speech.say("settings_kept", why=error.what)
        return
    agent.settings_fault = ""
    agent.speech.say("settings_read")
    take(agent, settings)


def take(agent: Follows, settings: Settings) -> None:
    """Takes changed settings into use. Labs that are not accepted any more lose their grants."""
    agent.joining.move(chosen_peer(settings))
    agent.settings = settings
    for grant in agent.machine.model.grants.values():
        if not accepts(settings.choices(), grant.lab):
            agent.post(LabRefused(lab=grant.lab))
    agent.owner.choices = settings.choices()
    limits, model = limits_of(settings), agent.machine.model
    model.limits = replace(model.limits, prefetch=limits.prefetch, kept_bytes=limits.kept_bytes)
    agent.post()


def accepted(agent: Follows, event: Event) -> Event:
    """An event as it is; of the coordinator's answer only the grants of labs that are accepted."""
    if not isinstance(event, ContactReply):
        return event
    taken = tuple(each for each in event.grants if accepts(agent.owner.choices, each.lab))
    for refused in set(event.grants) - set(taken):
        agent.speech.say("lab_refused", lab=refused.lab)
    return msgspec.structs.replace(event, grants=taken)
