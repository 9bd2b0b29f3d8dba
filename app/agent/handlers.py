"""What programs may ask on the control socket. Owns the mapping of requests to parts."""

from __future__ import annotations

from typing import Literal, Protocol

from app.agent import coordinator
from app.agent.display import Seen, own_findings
from app.agent.doctor import about_cards, about_host, as_found, examine
from app.agent.enrolment import coordinator_peer
from app.agent.events import Event
from app.agent.late_cards import LateCards
from app.agent.registry import setting_items
from app.agent.settings import JOINING, Settings
from app.agent.state import State
from app.agent.trial import Trial
from app.agent.view import reason_items
from app.control.messages import (
    Accepted,
    Answer,
    Doctor,
    EnrolBegin,
    EnrolIs,
    EnrolPoll,
    Finish,
    History,
    HistoryIs,
    Logs,
    LogsAre,
    MachineItem,
    Machines,
    MachinesAre,
    Pause,
    Preview,
    PreviewIs,
    Quit,
    Report,
    Request,
    Resume,
    SelfTest,
    SelfTestIs,
    SettingsAre,
    SettingsDeclared,
    SettingsDescribe,
    SettingsGet,
    SettingsSet,
    SigninBegin,
    SigninCode,
    Stop,
    WouldItem,
)
from app.policy.combine import decide
from app.policy.intent import Intent
from app.sandbox.host import read_host
from gpugoblin.errors import AgentError
from gpugoblin.wire.signing import fingerprint, public_key_bytes

__all__ = ["Asked", "Handlers"]


class Asked(Seen, Protocol):
    """What may be asked of an agent."""

    settings: Settings
    state: State
    late: LateCards
    trial: Trial

    def post(self, *events: Event) -> None:
        """Takes events for the next step."""
        ...

    def ask_to_end(self) -> None:
        """Gives everything back and ends."""
        ...

    def change_settings(self, settings: Settings) -> None:
        """Takes changed live settings into use."""
        ...


class Handlers:
    """Answers requests for one agent."""

    def __init__(self, agent: Asked) -> None:
        self._agent = agent

    async def __call__(self, request: Request) -> Answer:
        """The answer. Raises GoblinError for what cannot be done."""
        agent = self._agent
        if isinstance(request, (Pause, Finish, Stop, Resume)):
            return self._take(request)
        if isinstance(request, Quit):
            agent.ask_to_end()
            return Accepted(request.request, "", True)
        if isinstance(request, SettingsGet):
            return self._settings(request.request)
        if isinstance(request, SettingsSet):
            self._look_at(request)
            changed, _ = agent.state.change_settings(
                agent.settings, request.revision, request.values
            )
            agent.change_settings(changed)
            return self._settings(request.request)
        if isinstance(request, SettingsDescribe):
            return SettingsDeclared(request.request, setting_items())
        if isinstance(request, Doctor):
            # Network and disk are asked in a thread of the owner's own: the loop goes on.
            findings = await agent.joining.look(
                lambda link: examine(agent.settings, agent.state.directory, link)
            )
            cards = about_cards(
                agent.settings,
                agent.late.discovery,
                lambda settings, card: as_found(
                    settings, card, agent.fleet.records.of(card.identity)
                ),
            )
            own = own_findings(agent)
            host = about_host(read_host(), own)
            return Report(request.request, (*host, *own, *cards, *findings))
        if isinstance(request, History):
            return self._history(request)
        if isinstance(request, Logs):
            lines = list(agent.speech.log)[-request.lines :]
            return LogsAre(request.request, tuple(lines))
        if isinstance(request, (EnrolBegin, EnrolPoll)):
            return self._enrolment(request.request)
        if isinstance(request, SigninBegin):
            await agent.joining.begin_signin(request.mailbox, request.language)
            return Accepted(request.request, "", True)
        if isinstance(request, SigninCode):
            await agent.joining.finish_signin(request.code)
            return Accepted(request.request, "", True)
        if isinstance(request, Machines):
            return await self._machines(request.request)
        if isinstance(request, Preview):
            return self._preview(request)
        if isinstance(request, SelfTest):
            shown = await agent.trial(request.card)
            return SelfTestIs(
                request.request, request.card, shown.rates.flops_per_s, shown.rates.bytes_per_s,
                shown.level, shown.is_fresh,
            )  # fmt: skip
        raise AgentError("control_malformed", reason=f"{type(request).__name__} comes once")

    async def _machines(self, request: int) -> MachinesAre:
        """None as long as this device belongs to no account."""
        own = fingerprint(public_key_bytes(self._agent.key))
        if not self._agent.joining.is_enrolled:
            return MachinesAre(request, ())
        reply = await self._agent.joining.ask(coordinator.machines)
        return MachinesAre(
            request,
            tuple(
                MachineItem(
                    one.fingerprint, one.fingerprint == own, one.created_s, one.seen_s,
                    one.is_revoked, one.cards, one.credits,
                )
                for one in reply.machines
            ),
        )  # fmt: skip

    def _history(self, request: History) -> HistoryIs:
        books = self._agent.around.books.history
        span = (request.since_s, request.until_s, request.limit)
        if request.by == "run":
            return HistoryIs(request.request, *books.rows(*span))
        return HistoryIs(request.request, *books.days(*span, self._agent.around.board.zone()))

    def _enrolment(self, request: int) -> EnrolIs:
        """A device that is not known is being made known all the time: nothing has to be begun."""
        agent = self._agent
        key = fingerprint(public_key_bytes(agent.key))
        joining = agent.joining
        if joining.is_enrolled:
            return EnrolIs(request, "enrolled", fingerprint=key)
        if joining.user_code:
            return EnrolIs(request, "waiting", joining.user_code, key, joining.code_until_s)
        state: Literal["failed", "asking"] = "failed" if joining.fault else "asking"
        return EnrolIs(request, state, fingerprint=key, why=joining.fault)

    def _take(self, request: Pause | Finish | Stop | Resume) -> Accepted:
        kinds = {Pause: "pause", Finish: "finish", Stop: "stop", Resume: "resume"}
        until_s = request.until_s if isinstance(request, (Pause, Finish)) else None
        intent = Intent(kinds[type(request)], request.intent, until_s)  # type: ignore[arg-type]
        is_new = self._agent.owner.wants(intent, request.cards)
        self._agent.post()
        return Accepted(request.request, request.intent, is_new)

    def _preview(self, request: Preview) -> PreviewIs:
        """What the rules would say with other settings and no word of the owner; nothing changes.

        The memory of the rules is left out: how a cause fades is of no interest here.
        """
        agent = self._agent
        choices = agent.settings.changed(request.values).choices()
        rulings, _ = decide(agent.around.snapshot(), agent.owner.rules, {}, choices, {})
        return PreviewIs(
            request.request,
            tuple(
                WouldItem(each.card, each.ruling.name, reason_items(each), each.until_s)  # type: ignore[arg-type] # the names of `Ruling` are the words of the item
                for each in rulings
            ),
        )

    def _look_at(self, request: SettingsSet) -> None:
        """Refuses a coordinator before it is on disk: the next start would stumble over it."""
        if not set(JOINING) & set(request.values):
            return
        peer = coordinator_peer(self._agent.settings.changed(request.values))
        self._agent.joining.refuse(peer)

    def _settings(self, request: int) -> SettingsAre:
        revision = self._agent.state.owner_settings().revision
        return SettingsAre(request, revision, dict(self._agent.settings.values))
