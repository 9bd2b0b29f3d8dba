"""The pages of the first run that hold little: welcome, profile, privacy, start.

Owns: their words. Must not: talk to the agent but through the settings' store and previews.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QButtonGroup, QCheckBox, QLabel, QRadioButton

from app.control.messages import AgentItem, Item
from app.control.texts import _
from app.ui import icons
from app.ui.autostart import Autostart
from app.ui.firstrun.step import Step
from app.ui.pages.page import Context, heading, paragraph
from app.ui.pages.privacy import PARTS
from app.ui.pages.when import PROFILES
from app.ui.widgets.wrapped import Wrapped

__all__ = ["PrivacyStep", "ProfileStep", "StartStep", "WelcomeStep"]

PICTURE_PX: Final = 96


class WelcomeStep(Step):
    """What this is, and what it will ask."""

    def __init__(self, context: Context) -> None:
        super().__init__(_("Welcome"), "", context)
        picture = QLabel()
        picture.setPixmap(icons.pixmap("computing", PICTURE_PX))
        picture.setAccessibleName("gpugoblin")
        self.column.insertWidget(0, picture, 0, Qt.AlignmentFlag.AlignLeft)
        for text in (
            _("Research needs computers, and yours rests most of the day. gpugoblin lends its cards"
              " to reviewed research labs while you do not need them, and gives them back at"
              " once when you do."),
            _("Labs can only use published operations, in a walled process without network and"
              " without your files."),
            _("Four questions follow. Each can be answered later, and changed at any time."),
        ):  # fmt: skip
            self.column.addWidget(paragraph(text))
        self.column.addStretch(1)


class ProfileStep(Step):
    """When to lend; `away` unless the owner says otherwise."""

    def __init__(self, context: Context) -> None:
        super().__init__(
            _("When you lend"), _("Games, heat and battery stop lending in every case."), context
        )
        self.choices: dict[str, QRadioButton] = {}
        group = QButtonGroup(self)
        for word, name, sentence in PROFILES[:3]:
            button = QRadioButton()
            button.setAccessibleDescription(_(sentence))
            button.clicked.connect(lambda _on, word=word: self._choose(word))
            group.addButton(button)
            self.choices[word] = button
            self.column.addWidget(Wrapped(button, _(name)))
            below = paragraph(_(sentence))
            below.setObjectName("quiet")
            below.setContentsMargins(24, 0, 0, 6)
            self.column.addWidget(below)
        self.column.addWidget(self._effect)
        self.column.addStretch(1)
        context.store.changed.connect(self._show_choice)

    def come_to_front(self) -> None:
        self._show_choice()

    def show_items(self, items: Mapping[str, Item]) -> None:
        super().show_items(items)
        if self.isVisible():
            self._show_choice()

    def _choose(self, word: str) -> None:
        self.context.store.set({"profile": word})
        self.ask_effect({"profile": word})

    def _show_choice(self) -> None:
        word = str(self.context.store.values.get("profile", "away"))
        if word in self.choices:
            self.choices[word].setChecked(True)
        if self.isVisible():
            self.ask_effect({"profile": word})


class PrivacyStep(Step):
    """Who sees what: nothing is asked here."""

    def __init__(self, context: Context) -> None:
        super().__init__(_("Who sees what"), "", context)
        for title, text in PARTS[:3]:
            self.column.addWidget(heading(_(title)))
            self.column.addWidget(paragraph(_(text)))
        self.column.addStretch(1)


class StartStep(Step):
    """Whether to start at login, and what happens from now on."""

    def __init__(self, context: Context, autostart: Autostart) -> None:
        super().__init__(_("Ready"), "", context)
        self._autostart = autostart
        self._state = paragraph("")
        self._state.setObjectName("effect")
        self.switch = QCheckBox()
        self.switch.clicked.connect(self._switched)
        below = paragraph(_("Otherwise it lends only after you have started it yourself."))
        below.setObjectName("quiet")
        below.setContentsMargins(24, 0, 0, 6)
        self._fault = paragraph("")
        self._fault.hide()
        for widget in (
            self._state,
            Wrapped(self.switch, _("Start gpugoblin when I log in")),
            below,
            self._fault,
            heading(_("From now on")),
            paragraph(_("The icon in the tray says what the cards do and why. Its menu pauses them"
                        " in two clicks. Closing the window ends nothing.")),
        ):  # fmt: skip
            self.column.addWidget(widget)
        self.column.addStretch(1)

    def come_to_front(self) -> None:
        self.switch.setChecked(self._autostart.is_on())

    def show_items(self, items: Mapping[str, Item]) -> None:
        super().show_items(items)
        agent = items.get("agent")
        if not isinstance(agent, AgentItem):
            line = _("The agent does not run; lending begins when it does.")
        elif agent.state == "not_enrolled":
            line = _("This machine is not known to the network yet: it lends nothing until you"
                     " sign in (page Account and machines).")  # fmt: skip
        else:
            line = _("Everything is ready. Work comes when a lab needs your kind of card.")
        self._state.setText(line)

    def _switched(self, on: bool) -> None:
        try:
            self._autostart.set(on)
        except OSError as error:
            self._fault.setText(_("That could not be changed: {why}").format(why=error.strerror))
            self._fault.show()
        self.switch.setChecked(self._autostart.is_on())
