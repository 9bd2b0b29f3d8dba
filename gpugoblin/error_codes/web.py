"""Error codes of the family `web`: what the pages of a server refuse."""

from __future__ import annotations

from gpugoblin.error_codes.spec import ErrorCode

__all__ = ["CODES"]

CODES: dict[str, ErrorCode] = {
    "form_malformed": ErrorCode(
        what="The form could not be read.",
        next_step="Load the page again and send the form from there.",
    ),
    "form_foreign": ErrorCode(
        what="The form was not sent from a page of this browser's sign-in.",
        next_step="Load the page again and send the form from there; cookies must be allowed.",
    ),
    "signin_refused": ErrorCode(
        what="This token does not sign in here.",
        next_step="Copy the whole token, which begins with `goblin_`; if it is right, ask the"
        " lab's administrator for a new one.",
    ),
    "signin_crowded": ErrorCode(
        what="Too many requests came from your network.",
        next_step="Try again in {wait_s} seconds.",
    ),
}
