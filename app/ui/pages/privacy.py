"""The page Privacy: who sees what."""

from __future__ import annotations

from app.control.texts import _
from app.ui.pages.page import Context, Page, heading, paragraph

__all__ = ["PrivacyPage"]

PARTS = (
    (
        "What a lab sees",
        "A pseudonym that is different for each lab, the age of your account in days, what kind of"
        " card you lend and how fast it is, and the network address from which your machine"
        " connects to it. It does not see your name, your files or what else you do.",
    ),
    (
        "What the coordinator sees",
        "Your account, this machine's public key, when it was last in touch, which card may work"
        " for which lab, and how much verified work each card did, in three digits. From this one"
        " can guess how fast a card is and when it worked. It never sees a number of a"
        " computation.",
    ),
    (
        "What runs here",
        "Only operators of the published catalog, in a process without network and files. What a"
        " task computes with is kept in an encrypted cache, whose key is gone when the program"
        " ends.",
    ),
    (
        "What is kept on this machine",
        "A history of what ran, for 400 days, and a log. Both stay here. Before a log is saved for"
        " somebody else, tokens, addresses and the names of your folders are taken out.",
    ),
)


class PrivacyPage(Page):
    """Four short texts."""

    def __init__(self, context: Context) -> None:
        super().__init__(_("Privacy"), context)
        for title, text in PARTS:
            self.column.addWidget(heading(_(title)))
            self.column.addWidget(paragraph(_(text)))
        self.column.addStretch(1)
