"""The page on which this machine is made known: by a letter, or by a code at the coordinator.

Owns: the two ways and what is said meanwhile. Must not: keep a mail address or a code; the agent
alone talks to the coordinator and holds the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from PySide6.QtCore import QTimer
from PySide6.QtGui import QGuiApplication, QHideEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.control.messages import (
    AgentItem,
    Answer,
    EnrolIs,
    EnrolPoll,
    Item,
    Refused,
    SigninBegin,
    SigninCode,
)
from app.control.texts import _, wanted_language
from app.ui.firstrun.step import Step
from app.ui.pages.coordinator import CoordinatorPart
from app.ui.pages.page import Context, heading, paragraph

__all__ = ["AccountStep"]

FIELD_PX: Final = 260
LOOK_MS: Final = 3_000
"""How often the agent is asked how the enrolment stands, while this page is seen."""


class AccountStep(Step):
    """Sign in with a mail address, or approve a code elsewhere."""

    def __init__(self, context: Context) -> None:
        super().__init__(
            _("Your account"),
            _("Labs must know that a machine belongs to a person. They see a pseudonym, never your"
              " address."),
            context,
        )  # fmt: skip
        self._is_enrolled = False
        self._is_named = True
        self._state = paragraph("")
        self._state.setObjectName("effect")
        self.column.addWidget(self._state)
        self._part = CoordinatorPart(context)
        self._part.hide()
        self.column.addWidget(self._part)
        self._letter = self._letter_part()
        self._by_code = self._code_part()
        self.column.addStretch(1)
        self._timer = QTimer(self)
        self._timer.setInterval(LOOK_MS)
        self._timer.timeout.connect(self._poll)

    @property
    def is_settled(self) -> bool:
        return self._is_enrolled

    def come_to_front(self) -> None:
        self._timer.start()
        self._poll()

    def hideEvent(self, event: QHideEvent) -> None:
        self._timer.stop()

    def show_items(self, items: Mapping[str, Item]) -> None:
        super().show_items(items)
        agent = items.get("agent")
        if not isinstance(agent, AgentItem):
            self._say(_("The agent does not run yet. This page goes on by itself when it does."))
            self._part.hide()
            self._allow(False)
            return
        self._is_named = bool(agent.coordinator)
        # One that starts is enrolled: its cards were not measured yet, as while somebody is here.
        self._is_enrolled = agent.state != "not_enrolled"
        if self._is_enrolled:
            self._say(_("This machine is known to the network. Nothing is left to do here."))
        elif agent.user_code or not self._is_named:
            self._say("")
        self._part.setVisible(not self._is_enrolled and not agent.user_code)
        self._code.setText(agent.user_code)
        self._fingerprint.setText(
            _("Fingerprint of this machine: {fingerprint}").format(fingerprint=agent.fingerprint)
        )
        self._letter.setVisible(not self._is_enrolled and self._is_named)
        self._by_code.setVisible(not self._is_enrolled and bool(agent.user_code))
        self._allow(bool(agent.user_code))

    def _letter_part(self) -> QWidget:
        part = QWidget()
        column = _column(part)
        column.addWidget(heading(_("Sign in with your mail address")))
        column.addWidget(paragraph(_("A letter with a code comes to you; there is no password.")))
        self._mailbox = QLineEdit()
        self._mailbox.setPlaceholderText("name@example.org")
        self._mailbox.setAccessibleName(_("Mail address"))
        self._mailbox.setMaxLength(254)
        self._mailbox.setMinimumWidth(FIELD_PX)
        self._send = QPushButton(_("Send the letter"))
        self._mailbox.returnPressed.connect(self._begin)
        self._send.clicked.connect(self._begin)
        column.addLayout(_row(self._mailbox, self._send))
        self._digits = QLineEdit()
        self._digits.setPlaceholderText("1234 5678")
        self._digits.setAccessibleName(_("Code of the letter"))
        self._digits.setMaxLength(32)
        self._digits.setMinimumWidth(FIELD_PX)
        self._sign_in = QPushButton(_("Sign in"))
        self._digits.returnPressed.connect(self._finish)
        self._sign_in.clicked.connect(self._finish)
        column.addLayout(_row(self._digits, self._sign_in))
        self._answer = paragraph("")
        self._answer.setObjectName("quiet")
        self._answer.hide()
        column.addWidget(self._answer)
        self.column.addWidget(part)
        return part

    def _code_part(self) -> QWidget:
        part = QWidget()
        column = _column(part)
        column.addWidget(heading(_("Or approve this machine from another one")))
        column.addWidget(paragraph(_(
            "Sign in on the coordinator's page Machines, and type this code and the fingerprint"
            " there."
        )))  # fmt: skip
        self._code = QLabel()
        self._code.setObjectName("code")
        self._code.setAccessibleName(_("Code of this machine"))
        copy = QPushButton(_("Copy the code"))
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._code.text()))
        column.addLayout(_row(self._code, copy))
        self._fingerprint = paragraph("")
        column.addWidget(self._fingerprint)
        self.column.addWidget(part)
        return part

    def _allow(self, is_possible: bool) -> None:
        for widget in (self._mailbox, self._send, self._digits, self._sign_in):
            widget.setEnabled(is_possible)

    def _say(self, line: str) -> None:
        self._state.setText(line)
        self._state.setVisible(bool(line))

    def _reply(self, line: str) -> None:
        self._answer.setText(line)
        self._answer.show()

    def _poll(self) -> None:
        link = self.context.link
        link.ask(EnrolPoll(link.number()), self._told)

    def _told(self, answer: Answer) -> None:
        if not isinstance(answer, EnrolIs) or not self._is_named:
            return
        if answer.state == "failed":
            self._say(_("The coordinator cannot be asked: {why} The agent tries again by"
                        " itself.").format(why=answer.why))  # fmt: skip
        elif answer.state == "asking":
            self._say(_("The agent asks the coordinator for a code …"))

    def _begin(self) -> None:
        link, mailbox = self.context.link, self._mailbox.text().strip()
        if not mailbox:
            self._mailbox.setFocus()
            return
        self._reply(_("The letter is on its way …"))
        request = SigninBegin(link.number(), mailbox, wanted_language())
        if not link.ask(request, self._began):
            self._reply(_("The agent does not run."))

    def _began(self, answer: Answer) -> None:
        if isinstance(answer, Refused):
            self._reply(f"{answer.what} {answer.next_step}")
            return
        self._reply(
            _("A letter went to {mailbox}. Type its code above.").format(
                mailbox=self._mailbox.text().strip()
            )
        )
        self._digits.setFocus()

    def _finish(self) -> None:
        link, code = self.context.link, self._digits.text().strip()
        if not code:
            self._digits.setFocus()
        elif not link.ask(SigninCode(link.number(), code), self._finished):
            self._reply(_("The agent does not run."))

    def _finished(self, answer: Answer) -> None:
        if isinstance(answer, Refused):
            self._reply(f"{answer.what} {answer.next_step}")
            self._digits.selectAll()
            self._digits.setFocus()
        else:
            self._reply(_("The code is right. The machine joins the network now."))


def _column(part: QWidget) -> QVBoxLayout:
    column = QVBoxLayout(part)
    column.setContentsMargins(0, 0, 0, 0)
    return column


def _row(*widgets: QWidget) -> QHBoxLayout:
    row = QHBoxLayout()
    for widget in widgets:
        row.addWidget(widget)
    row.addStretch(1)
    return row
