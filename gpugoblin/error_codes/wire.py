"""Error codes of the family `wire`."""

from __future__ import annotations

from gpugoblin.error_codes.spec import ErrorCode

__all__ = ["CODES"]

_SIGN_AGAIN = "Sign the request again, exactly as it is sent; never send a signature twice."
_NEW_TICKET = "Ask whoever issued the ticket for a new one at the next contact."
_NOT_OURS = "Refuse the sender; honest programs of this project never make such a ticket."

CODES: dict[str, ErrorCode] = {
    "message_too_large": ErrorCode(
        what="The message {message} has {size} bytes; at most {limit} are accepted.",
        next_step="Send less in one message, or upload the data as a blob.",
    ),
    "message_malformed": ErrorCode(
        what="The message {message} does not match its declaration: {reason}.",
        next_step="Check that both sides run versions that know this message.",
    ),
    "signature_missing": ErrorCode(
        what="The request has no header {header}, so it is not signed.",
        next_step="Sign the request with the key of the device or of the lab node.",
    ),
    "signature_malformed": ErrorCode(
        what="The header {header} of the request's signature is not of its declared form.",
        next_step=_SIGN_AGAIN,
    ),
    "signature_clock_wrong": ErrorCode(
        what="The request is dated {sent_utc} and this machine's clock says {own_utc}; they may"
        " differ by at most {window_s} s.",
        next_step="Set the clock of the machine that is wrong (timedatectl set-ntp true).",
    ),
    "signature_wrong": ErrorCode(
        what="The signature does not belong to this request and key.",
        next_step=_SIGN_AGAIN,
    ),
    "signature_replayed": ErrorCode(
        what="A request with this key and nonce was seen before.",
        next_step=_SIGN_AGAIN,
    ),
    "claim_signature_wrong": ErrorCode(
        what="The device's signature does not cover lease {lease} under grant {grant}.",
        next_step="Refuse the result; only the device that the grant names can sign its claim.",
    ),
    "document_signature_wrong": ErrorCode(
        what="The signature does not belong to this {document} and key.",
        next_step="Fetch the document again and compare the key with the one that the lab tells.",
    ),
    "key_file_unreadable": ErrorCode(
        what="The key file {path} cannot be used: {reason}.",
        next_step="Restore it from a backup, or move it away and enroll again with a new key.",
    ),
    "certificate_unreadable": ErrorCode(
        what="The certificate file {path} cannot be used: {reason}.",
        next_step="Name a readable PEM certificate and key, or remove both to have them made.",
    ),
    "ticket_too_large": ErrorCode(
        what="The {kind} ticket has {size} characters; at most {limit} are read.",
        next_step=_NOT_OURS,
    ),
    "ticket_malformed": ErrorCode(
        what="The {kind} ticket is not of its declared form: {reason}.",
        next_step=_NEW_TICKET,
    ),
    "ticket_algorithm_refused": ErrorCode(
        what="The {kind} ticket asks for an algorithm other than EdDSA.",
        next_step=_NOT_OURS,
    ),
    "ticket_wrong_kind": ErrorCode(
        what="The ticket is not a {kind} ticket.",
        next_step="Send the ticket that this request asks for.",
    ),
    "ticket_unknown_key": ErrorCode(
        what="The {kind} ticket is signed by a key that is not known here.",
        next_step="Compare the issuer's key in the configuration with the one it uses now.",
    ),
    "ticket_signature_wrong": ErrorCode(
        what="The signature of the {kind} ticket is wrong.",
        next_step=_NOT_OURS,
    ),
    "ticket_claim_missing": ErrorCode(
        what="The {kind} ticket lacks the claim {claim}.",
        next_step=_NEW_TICKET,
    ),
    "ticket_wrong_audience": ErrorCode(
        what="The {kind} ticket is for {audience}, not for {own}.",
        next_step="Send each ticket only to the lab that it names.",
    ),
    "ticket_expired": ErrorCode(
        what="The {kind} ticket ended at {expired_utc}; it is {own_utc} here.",
        next_step=_NEW_TICKET,
    ),
    "ticket_from_future": ErrorCode(
        what="The {kind} ticket was issued at {issued_utc}, but it is {own_utc} here.",
        next_step="Set the clock of the machine that is wrong (timedatectl set-ntp true).",
    ),
    "ticket_too_long": ErrorCode(
        what="The {kind} ticket is valid for {lifetime_s} s; at most {limit_s} s are accepted.",
        next_step=_NOT_OURS,
    ),
    "ticket_wrong_device": ErrorCode(
        what="The {kind} ticket belongs to another device than the one that sent it.",
        next_step="Use the tickets that this device was given itself.",
    ),
    "revocations_stale": ErrorCode(
        what="The revocation list has number {number}; list {known} was seen before.",
        next_step="Ask the coordinator again; if it stays so, ask its operator.",
    ),
}
