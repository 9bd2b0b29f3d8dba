"""The page Account and machines: how this machine is known to the network."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QCheckBox, QFormLayout, QLabel, QPushButton

from app.control.messages import (
    AgentItem,
    Answer,
    EnrolBegin,
    EnrolIs,
    Item,
    Machines,
    MachinesAre,
    Refused,
)
from app.control.texts import _
from app.ui.autostart import Autostart
from app.ui.facts import machine_line
from app.ui.pages.coordinator import CoordinatorPart
from app.ui.pages.page import Context, Page, heading, paragraph
from app.ui.widgets.wrapped import Wrapped

__all__ = ["AccountPage"]

_STATES = {
    "starting": "The agent starts.",
    "not_enrolled": "This machine is not enrolled yet.",
    "working": "Connected.",
    "coordinator_away": "The coordinator does not answer; what is granted goes on.",
    "ending": "The agent ends.",
}


class AccountPage(Page):
    """Enrolment by code, the machine's fingerprint, and the switch that starts us at login."""

    def __init__(
        self,
        context: Context,
        autostart: Autostart,
        set_up: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(_("Account and machines"), context)
        self._autostart = autostart
        self._state = paragraph("")
        self._code = QLabel()
        self._code.setAccessibleName(_("Code of this machine"))
        self._code.setObjectName("code")
        self._steps = paragraph("")
        self._copy = QPushButton(_("Copy the code"))
        self._copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._code.text()))
        self._enrol = QPushButton(_("Enroll this machine"))
        self._enrol.clicked.connect(self._begin)
        form = QFormLayout()
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapAllRows)
        self._coordinator, self._fingerprint, self._build = (paragraph("") for _place in range(3))
        for name, value in (
            (_("Coordinator"), self._coordinator),
            (_("Fingerprint of this machine"), self._fingerprint),
            (_("Program"), self._build),
        ):
            label = QLabel(name)
            label.setObjectName("quiet")
            form.addRow(label, value)
        self._switch = QCheckBox()
        self._switch.clicked.connect(self._switched)
        self._part = CoordinatorPart(context)
        self._part.hide()
        for widget in (self._state, self._part, self._code, self._steps, self._copy, self._enrol):
            self.column.addWidget(widget)
        self.column.addLayout(form)
        self._machines_heading = heading(_("Machines of your account"))
        self._machines = paragraph("")
        for label in (self._machines_heading, self._machines):
            label.hide()
            self.column.addWidget(label)
        self.column.addWidget(heading(_("This machine")))
        self.column.addWidget(Wrapped(self._switch, _("Start gpugoblin when I log in")))
        again = QPushButton(_("Go through the set-up again"))
        again.clicked.connect(lambda: set_up())
        self.column.addWidget(again, 0, Qt.AlignmentFlag.AlignLeft)
        self.column.addStretch(1)

    def come_to_front(self) -> None:
        self._switch.setChecked(self._autostart.is_on())
        link = self.context.link
        agent = link.items.get("agent")
        if isinstance(agent, AgentItem) and agent.state != "not_enrolled":
            link.ask(Machines(link.number()), self._listed)

    def _listed(self, answer: Answer) -> None:
        lines: list[str] = []
        if isinstance(answer, MachinesAre):
            now_s = self.context.now_s()
            lines = [machine_line(one, now_s) for one in answer.machines]
        elif isinstance(answer, Refused):
            lines = [f"{answer.what} {answer.next_step}"]
        self._machines.setText("\n".join(lines))
        for label in (self._machines_heading, self._machines):
            label.setVisible(bool(lines))

    def show_items(self, items: Mapping[str, Item]) -> None:
        agent = items.get("agent")
        if not isinstance(agent, AgentItem):
            self._state.setText(_("The agent does not run."))
            for widget in (self._part, self._code, self._steps, self._copy, self._enrol):
                widget.hide()
            return
        self._state.setText(_(_STATES[agent.state]))
        self._coordinator.setText(agent.coordinator or _("No coordinator is named yet."))
        self._fingerprint.setText(agent.fingerprint)
        self._build.setText(agent.build)
        waits = agent.state == "not_enrolled"
        self._code.setText(agent.user_code)
        self._steps.setText(
            _("Sign in on the coordinator's page Machines, and type this code and the fingerprint"
              " there.")
        )  # fmt: skip
        self._code.setVisible(waits and bool(agent.user_code))
        self._copy.setVisible(waits and bool(agent.user_code))
        self._part.setVisible(waits and not agent.user_code)
        self._steps.setVisible(waits and bool(agent.coordinator))
        self._enrol.setVisible(waits and not agent.user_code and bool(agent.coordinator))

    def _begin(self) -> None:
        link = self.context.link
        link.ask(EnrolBegin(link.number()), self._answered)

    def _answered(self, answer: Answer) -> None:
        if isinstance(answer, Refused):
            self.context.tell(f"{answer.what} {answer.next_step}")
        elif isinstance(answer, EnrolIs) and answer.state == "failed":
            self.context.tell(answer.why)

    def _switched(self, on: bool) -> None:
        try:
            self._autostart.set(on)
        except OSError as error:
            self.context.tell(_("That could not be changed: {why}").format(why=error.strerror))
        self._switch.setChecked(self._autostart.is_on())
