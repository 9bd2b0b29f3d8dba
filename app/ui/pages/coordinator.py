"""Where a machine that knows no coordinator is told one: its address, and its certificate.

Owns: the two fields and what became of them. Must not: judge an address; the agent does, and
its refusal is shown.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from app.control.texts import _
from app.ui.pages.page import Context, heading, paragraph

__all__ = ["CoordinatorPart"]

ADDRESS: Final = "coordinator.address"
CERTIFICATE: Final = "coordinator.certificate_sha256"
FIELD_PX: Final = 260


class CoordinatorPart(QWidget):
    """Address and fingerprint of the coordinator, and a button that sends both to the agent."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self._context = context
        self._is_sent = False
        self.address = _field(_("Address of the coordinator"), "https://coordinator.example.org")
        fingerprint = _("Fingerprint of its certificate, if you got one")
        self.certificate = _field(fingerprint, fingerprint)
        self.button = QPushButton(_("Use this coordinator"))
        self.answer = paragraph("")
        self.answer.setObjectName("quiet")
        self.answer.hide()
        self.button.clicked.connect(self._send)
        for field in (self.address, self.certificate):
            field.returnPressed.connect(self._send)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(heading(_("Your coordinator")))
        column.addWidget(paragraph(_("Whoever runs your network tells you its address.")))
        for field in (self.address, self.certificate):
            column.addWidget(field)
        row = QHBoxLayout()  # no wider than its text
        row.addWidget(self.button)
        row.addStretch(1)
        column.addLayout(row)
        column.addWidget(self.answer)
        context.store.changed.connect(self._show)
        context.store.refused.connect(self._refused)
        self._show()

    def _send(self) -> None:
        address = self.address.text().strip()
        if not address:
            self.address.setFocus()
            return
        store = self._context.store
        wanted = {ADDRESS: address, CERTIFICATE: self.certificate.text().strip()}
        if not self._context.link.is_connected:
            self._reply(_("The agent does not run."))
            return
        self._is_sent = True
        self._reply(_("The agent asks this coordinator now …"))
        store.set(wanted)

    def _show(self) -> None:
        """What holds; what the owner types meanwhile stays."""
        self._is_sent = False
        for field, name in ((self.address, ADDRESS), (self.certificate, CERTIFICATE)):
            value = self._context.store.values.get(name, "")
            if value and not field.hasFocus():
                field.setText(str(value))

    def _refused(self, why: str) -> None:
        if self._is_sent:
            self._is_sent = False
            self._reply(why)

    def _reply(self, line: str) -> None:
        self.answer.setText(line)
        self.answer.show()


def _field(name: str, hint: str) -> QLineEdit:
    field = QLineEdit()
    field.setAccessibleName(name)
    field.setPlaceholderText(hint)
    field.setMaxLength(300)
    field.setMinimumWidth(FIELD_PX)
    return field
