"""The letters that we write, in the reader's language.

Owns: their subjects and words. Must not: decide when one is sent.
"""

from __future__ import annotations

from server_stub.coordinator.web.languages import translations

__all__ = ["application_decided", "application_waits", "code"]


def code(digits: str, lasts_s: float, language: str) -> tuple[str, str]:
    """Subject and words of the letter with a code to sign in."""
    _ = translations(language).gettext
    shown = f"{digits[:4]} {digits[4:]}"
    subject = _("Your code for gpugoblin: {code}").format(code=shown)
    words = _(
        "Your code to sign in is\n\n    {code}\n\n"
        "Type it where you asked for it: in that browser, or at that machine. It\n"
        "works there alone, for {minutes} minutes.\n\n"
        "If you did not ask for it, you need not do anything: nobody can sign\n"
        "in without it.\n"
    ).format(code=shown, minutes=round(lasts_s / 60))
    return subject, words


def application_waits(person: str, affiliation: str, language: str) -> tuple[str, str]:
    """To an operator: somebody wants to compute here."""
    _ = translations(language).gettext
    subject = _("An application waits for you")
    words = _(
        "{person} ({affiliation}) applies to compute on the network.\n"
        "You find the application on the page Applications.\n"
    ).format(person=person, affiliation=affiliation)
    return subject, words


def application_decided(is_approved: bool, answer: str, language: str) -> tuple[str, str]:
    """To a researcher: what became of the application."""
    _ = translations(language).gettext
    if is_approved:
        subject = _("Your application is approved")
        words = _(
            "You may register your lab node now: sign in, open the page Research\n"
            "and give the public key that `gpugoblin node init` printed.\n"
        )
    else:
        subject = _("Your application was declined")
        words = _("You may apply again with more or other facts.\n")
    if answer:
        words += _("\nThe reviewer writes:\n\n{answer}\n").format(answer=answer)
    return subject, words
