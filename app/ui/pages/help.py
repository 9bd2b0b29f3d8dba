"""The page Help: why each card does what it does, what the doctor finds, and the log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from PySide6.QtGui import QFontDatabase, QTextCursor
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QPlainTextEdit, QPushButton

from app.control import words
from app.control.messages import Answer, Doctor, Item, Logs, LogsAre, ProbeItem, Report
from app.control.retold import finding_lines
from app.control.texts import _
from app.ui.facts import cards_of
from app.ui.pages.page import Context, Page, heading, paragraph

__all__ = ["HelpPage"]

LOG_LINES = 500
_MARKS = {"well": "✓", "absent": "-", "unknown": "?"}


class HelpPage(Page):
    """Three answers to `what is wrong?`."""

    def __init__(self, context: Context) -> None:
        super().__init__(_("Help"), context)
        self._why = paragraph("")
        self._probes = paragraph("")
        self._found = paragraph(_("Not asked yet."))
        self._log = QPlainTextEdit()
        self._log.setReadOnly(True)
        self._log.setAccessibleName(_("Log"))
        self._log.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self._log.setMinimumHeight(220)
        self._log.setTabChangesFocus(True)
        look = QPushButton(_("Look at everything that lending needs"))
        look.clicked.connect(self._examine)
        save = QPushButton(_("Save the log …"))
        save.clicked.connect(self._save)
        row, doctor = QHBoxLayout(), QHBoxLayout()
        row.addWidget(save)
        row.addStretch(1)
        doctor.addWidget(look)
        doctor.addStretch(1)
        for widget in (
            heading(_("Why")), self._why,
            heading(_("What is looked at")), self._probes, heading(_("Doctor")),
        ):  # fmt: skip
            self.column.addWidget(widget)
        self.column.addLayout(doctor)
        self.column.addWidget(self._found)
        self.column.addWidget(heading(_("Log")))
        self.column.addWidget(self._log)
        self.column.addLayout(row)

    def show_items(self, items: Mapping[str, Item]) -> None:
        now_s = self.context.now_s()
        lines = [words.why(card, now_s) for card in cards_of(items)]
        self._why.setText("\n".join(lines) or _("There is no agent, so no card lends."))
        probes = [item for item in items.values() if isinstance(item, ProbeItem)]
        self._probes.setText("\n".join(_probe_line(one) for one in probes))

    def come_to_front(self) -> None:
        link = self.context.link
        link.ask(Logs(link.number(), LOG_LINES), self._take)

    def _examine(self) -> None:
        link = self.context.link
        self._found.setText(_("Looking …"))
        if not link.ask(Doctor(link.number()), self._take):
            self._found.setText(_("There is no agent to ask; `gpugoblin agent doctor` looks too."))

    def _take(self, answer: Answer) -> None:
        if isinstance(answer, LogsAre):
            self._log.setPlainText(
                "\n".join(f"{words.clock_time(one.at_s)}  {one.text}" for one in answer.lines)
            )
            # The cursor, too: it is what the page brings into sight when the log has the focus.
            self._log.moveCursor(QTextCursor.MoveOperation.End)
            bar = self._log.verticalScrollBar()
            bar.setValue(bar.maximum())
        elif isinstance(answer, Report):
            lines = []
            for one in answer.findings:
                what, fix = finding_lines(one)
                lines.append(f"{'✓' if one.is_well else '✗'} {what}")
                if fix:
                    lines.append(f"    {fix}")
            self._found.setText("\n".join(lines))

    def _save(self) -> None:
        name, _kind = QFileDialog.getSaveFileName(self, _("Save the log"), "gpugoblin.log")
        if not name:
            return
        try:
            Path(name).write_text(self._log.toPlainText() + "\n", encoding="utf-8")
        except OSError as error:
            self.context.tell(_("It could not be saved: {why}").format(why=error.strerror))
        else:
            self.context.tell(_("Saved as {name}.").format(name=name))


def _probe_line(probe: ProbeItem) -> str:
    line = f"{_MARKS[probe.health]} {probe.name}: {probe.source}"
    return f"{line}. {probe.line}" if probe.line else line
