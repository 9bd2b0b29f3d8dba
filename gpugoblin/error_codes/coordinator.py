"""Error codes of the family `coordinator`."""

from __future__ import annotations

from gpugoblin.error_codes.spec import ErrorCode

__all__ = ["CODES"]

_ASK_OPERATOR = "Ask the operator of the coordinator."

CODES: dict[str, ErrorCode] = {
    "coordinator_config_unwritable": ErrorCode(
        what="The coordinator's configuration {path} cannot be written: {reason}.",
        next_step="Name another file with --config, or repair the permissions there.",
    ),
    "coordinator_not_set_up": ErrorCode(
        what="There is no coordinator database at {path}.",
        next_step="Make one with `gpugoblin coordinator init`.",
    ),
    "coordinator_exists": ErrorCode(
        what="{path} exists already.",
        next_step="Choose another directory; nothing was changed.",
    ),
    "coordinator_port_in_use": ErrorCode(
        what="The coordinator cannot listen on {host} port {port}: {reason}.",
        next_step="Stop what uses the port, or set another `port`.",
    ),
    "coordinator_database_busy": ErrorCode(
        what="The coordinator's database was locked by another program for {waited_s} s.",
        next_step="Try again soon; nothing was changed.",
    ),
    "coordinator_database_full": ErrorCode(
        what="The coordinator's disk is full; the request was not carried out.",
        next_step="Try again later; the operator must free space beside the database.",
    ),
    "coordinator_database_damaged": ErrorCode(
        what="The coordinator's database cannot be used: {reason}.",
        next_step="The operator must restore the last backup.",
    ),
    "coordinator_backup_wrong": ErrorCode(
        what="The copy cannot be restored: {reason}.",
        next_step="Nothing was changed. Restore an older copy.",
    ),
    "coordinator_database_unreachable": ErrorCode(
        what="The coordinator's database ({place}) cannot be reached: {reason}.",
        next_step="Nothing was changed. The operator must see that PostgreSQL runs and that "
        "`database` names it.",
    ),
    "coordinator_outcome_unknown": ErrorCode(
        what="The connection to the database was lost while the request was being stored.",
        next_step="It may have been carried out. Look, or send it again: receipts are booked once, "
        "and a grant whose reply was lost is offered again.",
    ),
    "coordinator_postgres_unfit": ErrorCode(
        what="The PostgreSQL database cannot hold the coordinator's facts: {reason}.",
        next_step="Use PostgreSQL 15 or later and a database with the encoding UTF8.",
    ),
    "coordinator_postgres_missing": ErrorCode(
        what="`database` names PostgreSQL, but its driver is not installed.",
        next_step="Install it: pip install 'gpugoblin[postgres]'.",
    ),
    "coordinator_schema_newer": ErrorCode(
        what="The database has schema {found}; this program knows schemas up to {known}.",
        next_step="Install the newer program that wrote it, or restore an older backup.",
    ),
    "coordinator_stopping": ErrorCode(
        what="The coordinator is stopping; the request was not carried out.",
        next_step="Try again in a minute.",
    ),
    "coordinator_internal": ErrorCode(
        what="The coordinator failed at this request, which is a defect of it.",
        next_step="Try again later, and report it if it stays so.",
    ),
    "coordinator_route_unknown": ErrorCode(
        what="The coordinator has no {method} {path}.",
        next_step="Check the address and that both sides run versions that fit.",
    ),
    "coordinator_request_slow": ErrorCode(
        what="The body of the request did not arrive within {limit_s} s.",
        next_step="Try again on a better connection.",
    ),
    "coordinator_rate_limited": ErrorCode(
        what="There were too many requests from this {scope}.",
        next_step="Wait {wait_s} s before the next.",
    ),
    "device_unknown": ErrorCode(
        what="The key that signed the request belongs to no device.",
        next_step="Enroll this device: start the agent, which shows a code to approve.",
    ),
    "device_revoked": ErrorCode(
        what="This device was revoked.",
        next_step=_ASK_OPERATOR,
    ),
    "device_key_mismatch": ErrorCode(
        what="The request names another key than the one that signed it.",
        next_step="Sign the request with the key that is to be enrolled.",
    ),
    "device_key_weak": ErrorCode(
        what="The key to be enrolled is one for which anybody can sign.",
        next_step="Let the agent make a new key.",
    ),
    "enrolment_unknown": ErrorCode(
        what="There is no such enrolment by this key.",
        next_step="Start the enrolment again.",
    ),
    "fingerprint_differs": ErrorCode(
        what="The device that shows this code has the key {found}, not {given}.",
        next_step="Nothing was approved. Compare the code and the fingerprint with what the device "
        "shows; if they are right, somebody is between you: deny the code and start again.",
    ),
    "enrolment_crowded": ErrorCode(
        what="Too many devices wait for approval.",
        next_step="Try again in some minutes.",
    ),
    "code_unknown": ErrorCode(
        what="No device waits with the code {user_code}.",
        next_step="Compare it with the code that the device shows; codes end after some minutes.",
    ),
    "code_tries_exhausted": ErrorCode(
        what="The account {account} tried too many wrong codes.",
        next_step="Wait {wait_s} s before the next.",
    ),
    "coordinator_name_malformed": ErrorCode(
        what="The {kind} name {name!r} is not of the accepted form.",
        next_step="Use 1 to 64 of: lower-case letters, digits, '.', '_', '-'.",
    ),
    "coordinator_name_taken": ErrorCode(
        what="There is already {kind} {name}.",
        next_step="Choose another name.",
    ),
    "account_unknown": ErrorCode(
        what="There is no account {name}.",
        next_step="Look it up with `gpugoblin coordinator account list`.",
    ),
    "coordinator_lab_unknown": ErrorCode(
        what="The request's key is not that of a lab node that is registered here.",
        next_step="Have the operator register the node's key with `coordinator lab add`.",
    ),
    "coordinator_lab_suspended": ErrorCode(
        what="An operator of the coordinator has suspended this lab; its receipts are not booked.",
        next_step="Ask the operator why; the node keeps the receipts and sends them once it is"
        " resumed.",
    ),
    "coordinator_lab_malformed": ErrorCode(
        what="The lab cannot be registered: its {field} is malformed.",
        next_step="Give the key and the certificate as 64 hexadecimal digits and the address as"
        " https://host:port.",
    ),
    "coordinator_subject_unknown": ErrorCode(
        what="There is no {kind} {name}.",
        next_step="Compare the id with the one that the device or the lab node shows.",
    ),
    "mailbox_malformed": ErrorCode(
        what="This is not a mail address.",
        next_step="Write it as name@example.org.",
    ),
    "signin_off": ErrorCode(
        what="Nobody can sign in here: the operator has named no mail server.",
        next_step="The operator sets `mail_host`; until then accounts are made by command.",
    ),
    "mail_crowded": ErrorCode(
        what="Too many letters wait for the mail server.",
        next_step="Try again later.",
    ),
    "login_code_wrong": ErrorCode(
        what="This code is wrong, was used, or is too old.",
        next_step="Compare it with the last letter, or ask for a new one.",
    ),
    "signin_stale": ErrorCode(
        what="This asks for a sign-in of the last minutes, because it cannot be undone.",
        next_step="Sign in again, then repeat it.",
    ),
    "operator_only": ErrorCode(
        what="Only an operator may do this.",
        next_step=_ASK_OPERATOR,
    ),
    "words_too_short": ErrorCode(
        what="What you wrote under {field} has {size} characters; at least {least} are needed.",
        next_step="Write a little more.",
    ),
    "words_too_long": ErrorCode(
        what="What you wrote under {field} has {size} characters; at most {most} fit.",
        next_step="Say it shorter.",
    ),
    "words_unprintable": ErrorCode(
        what="What you wrote under {field} has the character {code_point}, which cannot be shown.",
        next_step="Remove it; it may have come with a copied text.",
    ),
    "application_crowded": ErrorCode(
        what="{most} of your applications wait already.",
        next_step="Withdraw one, or wait for the review.",
    ),
    "application_not_waiting": ErrorCode(
        what="This application does not wait any more, or is not yours.",
        next_step="Load the page again to see what became of it.",
    ),
    "application_not_approved": ErrorCode(
        what="A lab node needs an approved application of yours.",
        next_step="Apply first, or wait for the review.",
    ),
    "labs_crowded": ErrorCode(
        what="This application has {most} lab nodes already.",
        next_step=_ASK_OPERATOR,
    ),
    "account_name_differs": ErrorCode(
        what="The name that you typed is not {name}.",
        next_step="Type the name of the account exactly, so that nothing is deleted by mistake.",
    ),
    "certificate_unknown": ErrorCode(
        what="There is no certificate with this code.",
        next_step="Compare it with the paper letter by letter. The certificates of an account end "
        "with it.",
    ),
    "certificate_days_wrong": ErrorCode(
        what="The days {since} to {until} cannot be certified.",
        next_step="Give both days as year-month-day, the first not after the last, and the last "
        "not after today.",
    ),
    "certificate_empty": ErrorCode(
        what="In these days no work of yours was verified for this lab.",
        next_step="Choose other days or another lab.",
    ),
    "certificates_crowded": ErrorCode(
        what="This account has {most} certificates already.",
        next_step="Use those that you have.",
    ),
    "quota_malformed": ErrorCode(
        what="The quota was not changed: its {field} is malformed.",
        next_step="Give the weight as a number from 0.001 to 1000, and the cards as a whole number "
        "up to 1000000.",
    ),
    "team_joined": ErrorCode(
        what="You are in a team already.",
        next_step="Leave it before you join or make another.",
    ),
    "team_code_unknown": ErrorCode(
        what="There is no team with this code.",
        next_step="Ask a member of the team for its code; it stands on the page of their team.",
    ),
    "coordinator_dir_shared": ErrorCode(
        what="The state directory {path} is that of a lab node.",
        next_step="Give the coordinator a directory of its own, which the node cannot read, or the"
        " node another one: the coordinator must not have research data within its reach.",
    ),
    "team_captain_only": ErrorCode(
        what="Only the captain of your team can do this.",
        next_step="Ask the captain to do it, or to hand the team over to you.",
    ),
    "team_full": ErrorCode(
        what="This team has {most} members already.",
        next_step="Join another team, or make one.",
    ),
}
