"""One setting as it is declared: a switch, a number, a choice or a list, and what it means.

Owns: the control for each kind, built from the declaration, so that a new setting needs no window
code. Must not: send anything; `chosen` says what the owner wants.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app.control.messages import SettingItem, Value
from app.control.texts import _
from app.ui.widgets.wrapped import Wrapped

__all__ = ["SettingRow", "plain"]

_MOST: int = 2**31 - 1


def plain(description: str) -> str:
    """A description without the marks of code."""
    return description.replace("`", "")


class SettingRow(QWidget):
    """A setting and its sentence. `chosen(name, value)` comes when the owner has changed it."""

    chosen = Signal(str, object)

    def __init__(self, setting: SettingItem, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setting = setting
        self._shown: Value = setting.default
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 6, 0, 6)
        sentence = _(plain(setting.description))
        if setting.kind == "bool":
            self._switch = QCheckBox()
            self._switch.clicked.connect(lambda on: self.chosen.emit(setting.name, bool(on)))
            self.control: QWidget = self._switch
            column.addWidget(Wrapped(self._switch, sentence))
        else:
            label = QLabel(sentence)
            label.setWordWrap(True)
            self.control = self._made()
            label.setBuddy(self.control)
            row = QHBoxLayout()
            row.addWidget(self.control)
            if setting.unit:
                row.addWidget(QLabel(_(setting.unit)))
            row.addStretch(1)
            column.addWidget(label)
            column.addLayout(row)
        self.control.setAccessibleName(sentence)
        self.control.setObjectName(setting.name)

    def show_value(self, value: Value, *, is_fixed: bool) -> None:
        """Shows what holds; a setting that the profile decides cannot be changed here."""
        self._shown = value
        self.setEnabled(not is_fixed)
        self.control.setToolTip(_("The profile decides this.") if is_fixed else "")
        self.control.blockSignals(True)
        control = self.control
        if isinstance(control, QCheckBox):
            control.setChecked(bool(value))
        elif isinstance(control, QComboBox):
            control.setCurrentIndex(max(0, control.findData(value)))
        elif isinstance(control, QSpinBox) and isinstance(value, int):
            control.setValue(value)
        elif isinstance(control, QDoubleSpinBox) and isinstance(value, (int, float)):
            control.setValue(float(value))
        elif isinstance(control, QLineEdit) and not control.hasFocus():
            control.setText(", ".join(value) if isinstance(value, tuple) else str(value))
        self.control.blockSignals(False)

    def _made(self) -> QWidget:
        setting = self.setting
        if setting.choices:
            return self._made_choice()
        if setting.kind == "int":
            number = QSpinBox()
            number.setRange(int(setting.minimum or 0), int(setting.maximum or _MOST))
            number.setKeyboardTracking(False)
            number.setMinimumWidth(120)
            number.valueChanged.connect(lambda value: self.chosen.emit(setting.name, int(value)))
            return number
        if setting.kind == "float":
            real = QDoubleSpinBox()
            real.setRange(setting.minimum or 0.0, setting.maximum or 1e12)
            real.setKeyboardTracking(False)
            real.setMinimumWidth(120)
            real.valueChanged.connect(lambda value: self.chosen.emit(setting.name, float(value)))
            return real
        line = QLineEdit()
        line.setMinimumWidth(280)
        if setting.kind == "texts":
            line.setPlaceholderText(_("none; several with commas between"))
        line.editingFinished.connect(self._typed)
        return line

    def _made_choice(self) -> QComboBox:
        choice = QComboBox()
        for word in self.setting.choices:
            choice.addItem(_(word.replace("_", " ")), word)
        choice.activated.connect(
            lambda place: self.chosen.emit(self.setting.name, choice.itemData(place))
        )
        return choice

    def _typed(self) -> None:
        line = self.control
        if not isinstance(line, QLineEdit):
            return
        value: Value = line.text().strip()
        if self.setting.kind == "texts":
            value = tuple(part.strip() for part in str(value).split(",") if part.strip())
        if value != self._shown:
            self.chosen.emit(self.setting.name, value)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        # Enter in a field means `done`, not `press a button elsewhere`.
        if event.key() not in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            super().keyPressEvent(event)
