"""Items of OWASP's ASVS 5.0 up to level 2 that tests of the coordinator check, and those it lacks.

Owns: the list, from which a page of the docs is made. Numbers are those of ASVS 5.0.0; what an item
asks for is told in words of our own. Items about what the coordinator does not have (passwords,
uploads, OAuth, scripts, other sites' requests) and those that only a person can judge are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["ITEMS", "Item", "page"]

_C: Final = "tests/unit/server_stub/coordinator"
_FILES: Final = {
    "account": f"{_C}/handlers/test_people.py",
    "app": f"{_C}/test_app.py",
    "asvs": f"{_C}/web/test_asvs.py",
    "audit": f"{_C}/test_audit.py",
    "canary": "tests/e2e/test_canary.py",
    "contact": f"{_C}/handlers/test_contact.py",
    "forms": "tests/unit/server_stub/web/test_forms.py",
    "keys": "tests/unit/gpugoblin/wire/test_keys.py",
    "node": f"{_C}/handlers/test_node.py",
    "only_tls": f"{_C}/test_only_tls.py",
    "operators": f"{_C}/web/test_operators.py",
    "people": f"{_C}/web/test_people.py",
    "post": f"{_C}/mail/test_post.py",
    "signin": f"{_C}/handlers/test_signin.py",
    "signing": f"{_C}/web/test_signing.py",
    "site": f"{_C}/web/test_site.py",
    "store": f"{_C}/test_store.py",
    "tickets": "tests/unit/gpugoblin/wire/test_tickets.py",
}


@dataclass(frozen=True)
class Item:
    """One row.

    Args:
        number: of ASVS 5.0.0.
        level: 1 or 2.
        asks: what it asks for.
        tests: `file:name`, the file by its short name, the name without `test_`.
        lacking: what is not there; empty when all is.
    """

    number: str
    level: int
    asks: str
    tests: tuple[str, ...] = ()
    lacking: str = ""


ITEMS: Final = (
    Item("1.2.1", 1, "output is escaped for the place where it stands",
         ("site:what_people_write_is_text_and_never_markup",
          "post:a_letter_cannot_add_headers")),
    Item("2.2.1", 1, "input is checked against what is expected of it",
         ("app:hostile_bodies", "forms:malformed_forms", "signin:what_is_no_mail_address")),
    Item("2.3.2", 2, "limits of the domain hold", ("node:the_days_quota_of_a_lab",
         "contact:the_operators_limit_of_a_lab", "signin:an_account_has_so_many_sessions")),
    Item("2.3.3", 2, "an act happens whole or not at all",
         ("app:a_refusal_undoes_what_the_handler_did",
          "store:a_piece_that_raises_is_undone_alone")),
    Item("2.3.4", 2, "nothing is booked twice",
         ("node:a_receipt_is_booked_once_however_it_is_sent",
          "node:a_lease_is_booked_once_under_any_receipt")),
    Item("2.4.1", 2, "programs cannot call too often",
         ("site:too_many_requests_of_one_network",
          "site:forms_of_one_account_have_a_rate_but_it_can_sign_out",
          "app:too_many_from_one_network_and_from_one_key")),
    Item("3.2.1", 1, "an answer is not taken for something else",
         ("people:export_holds_what_is_stored", "site:every_page_has_the_headers_of_all")),
    Item("3.3.1", 1, "cookies are for TLS alone",
         ("site:cookies_are_for_this_host_over_tls_alone",)),
    Item("3.3.2", 2, "cookies say which sites may send them",
         ("site:cookies_are_for_this_host_over_tls_alone",)),
    Item("3.3.3", 2, "cookies are of this host alone",
         ("site:cookies_are_for_this_host_over_tls_alone",)),
    Item("3.3.4", 2, "no script reads the session",
         ("site:cookies_are_for_this_host_over_tls_alone",)),
    Item("3.4.1", 1, "browsers are told to use TLS for a year",
         ("only_tls:when_and_what", "only_tls:every_answer_says_so")),
    Item("3.4.3", 2, "every page forbids scripts and objects that are not its own",
         ("site:every_page_has_the_headers_of_all",
          "site:pages_have_neither_scripts_nor_styles_inside")),
    Item("3.4.4", 2, "browsers do not guess what a file is", ("asvs:pages_say_what_browsers_may",)),
    Item("3.4.5", 2, "addresses are not told to other sites",
         ("asvs:pages_say_what_browsers_may",)),
    Item("3.4.6", 2, "no site frames a page", ("asvs:pages_say_what_browsers_may",)),
    Item("3.5.1", 1, "forms of other sites do nothing",
         ("site:forms_of_other_sites_do_nothing", "site:a_form_without_our_token_does_nothing",
          "forms:tokens_belong_to_a_browser_and_a_session")),
    Item("3.5.3", 1, "what changes something is no GET", ("asvs:a_get_changes_nothing",)),
    Item("3.7.2", 2, "redirections lead to our own pages alone",
         ("site:the_language_switch_leads_nowhere_else",)),
    Item("6.3.1", 1, "codes cannot be found by trying",
         ("signin:codes_are_tried_so_often", "people:wrong_codes_run_out",
          "signin:one_network_asks_for_so_many_letters")),
    Item("6.3.3", 2, "a second factor, or one that is strong by itself",
         lacking="a code by letter is the only factor; passkeys are not built"),
    Item("6.5.1", 2, "a code is used once", ("signin:codes_are_used_once_and_end",)),
    Item("6.5.5", 2, "a code ends in ten minutes", ("signin:codes_are_used_once_and_end",
         "asvs:codes_last_ten_minutes_at_most_by_default")),
    Item("6.6.2", 2, "a code is of the browser that asked for it",
         ("signin:a_code_of_another_browser_is_wrong",
          "signing:the_code_works_in_the_browser_that_asked_alone")),
    Item("6.6.3", 2, "tries of a code are counted", ("signin:codes_are_tried_so_often",)),
    Item("7.2.1", 1, "the server judges a session", ("signin:random_secrets_are_nobody",)),
    Item("7.2.3", 1, "sessions are random and long", ("asvs:sessions_have_128_bits",)),
    Item("7.2.4", 1, "a sign-in makes a new session",
         ("signing:a_new_sign_in_changes_the_secret",)),
    Item("7.3.1", 2, "a silent session ends", ("signin:sessions_end_by_silence_and_by_age",)),
    Item("7.3.2", 2, "an old session ends", ("signin:sessions_end_by_silence_and_by_age",)),
    Item("7.4.1", 1, "who signed out stays out",
         ("signing:signing_out_ends_the_session_on_the_server",)),
    Item("7.4.2", 1, "a closed account has no session",
         ("signin:a_closed_account_has_no_session",)),
    Item("7.4.5", 2, "an operator ends somebody's sessions",
         ("operators:an_operator_signs_somebody_out_everywhere",)),
    Item("7.5.1", 2, "what decides who somebody is asks for a new sign-in",
         ("people:deleting_asks_for_the_name_and_a_fresh_sign_in",
          "site:what_cannot_be_undone_asks_for_a_new_sign_in")),
    Item("7.5.2", 2, "people see and end their sessions",
         ("signing:people_see_where_they_are_signed_in_and_end_one",
          "signing:signing_out_everywhere", "signin:one_session_of_ones_own_is_ended")),
    Item("8.2.1", 1, "functions are for those who may use them",
         ("site:strangers_are_sent_to_sign_in", "site:operators_pages_are_not_there_for_others")),
    Item("8.2.2", 1, "nobody reaches what is another's",
         ("people:nobody_revokes_the_machine_of_another",
          "account:only_ones_own_machine_is_revoked",
          "node:another_key_speaks_for_no_lab")),
    Item("8.3.1", 1, "the server decides, at the moment of the act",
         ("site:what_changed_since_the_session_was_read_stops_the_act",
          "site:an_operator_who_was_demoted_meanwhile_revokes_nothing")),
    Item("8.4.1", 2, "labs do not touch each other",
         ("contact:grants_are_for_their_lab_alone",
          "contact:labs_see_owners_apart_and_cannot_compare_them")),
    Item("9.1.1", 1, "tickets are believed by their signature alone", ("tickets:attacks",)),
    Item("9.1.2", 1, "one algorithm is accepted", ("tickets:attacks",)),
    Item("9.1.3", 1, "keys do not come with the ticket",
         ("tickets:attacks", "tickets:an_old_and_a_new_key_of_the_issuer")),
    Item("9.2.1", 1, "a ticket counts in its time", ("tickets:in_another_time",)),
    Item("9.2.2", 2, "a ticket counts for its purpose", ("tickets:blob_tickets",)),
    Item("9.2.3", 2, "a ticket counts for its lab", ("tickets:for_someone_else",)),
    Item("9.2.4", 2, "a ticket names its lab", ("tickets:required_claims",)),
    Item("13.3.2", 2, "keys lie where their owner alone reads them",
         ("keys:a_key_that_others_may_read_is_refused",)),
    Item("14.2.1", 1, "no secret stands in an address", ("asvs:no_secret_stands_in_an_address",)),
    Item("16.2.5", 2, "logs hold no secrets and no research data",
         ("canary:the_coordinator_saw_no_canary",)),
    Item("16.3.1", 2, "sign-ins are recorded, those that failed too",
         ("signing:the_log_tells_of_each_sign_in_without_mail_address_or_code",
          "app:the_log_tells_of_sign_ins_at_devices")),
    Item("16.4.2", 2, "the record cannot be changed unseen",
         ("audit:lines_cannot_be_changed", "audit:changes_around_the_triggers_are_found")),
    Item("16.5.1", 2, "a defect tells nothing of our insides",
         ("site:defects_tell_nothing", "app:defects_tell_nothing")),
    Item("16.5.2", 2, "what is away does not open a door",
         ("app:a_store_that_fails", "post:a_server_that_is_away_delays_letters")),
    Item("16.5.3", 2, "a request that fails leaves nothing behind",
         ("app:a_refusal_undoes_what_the_handler_did",)),
)  # fmt: skip


def file_of(test: str) -> tuple[str, str]:
    """The file and the whole name of a test as a row has it."""
    file, _, name = test.partition(":")
    return _FILES[file], f"test_{name}"


def page() -> str:
    """docs/reference/asvs.md."""
    met = sum(not each.lacking for each in ITEMS)
    text = (
        "# Security items of the coordinator\n\nItems of OWASP's Application Security Verification "
        "Standard 5.0.0, levels 1 and 2, that a test can check.\nWhat each asks for is told in our "
        "own words. Left out are items about what the coordinator does not have\n(passwords, "
        "uploads, OAuth, scripts) and those that only a person can judge, so this is no claim of "
        "conformance.\n\n"
        f"{met} of {len(ITEMS)} are met.\n\n"
        "| item | level | what it asks for | tests, or what is lacking |\n"
        "| --- | --- | --- | --- |\n"
    )
    for each in ITEMS:
        shown = [f"[`{file_of(test)[1][5:]}`](../../{file_of(test)[0]})" for test in each.tests]
        if each.lacking:
            shown.append(f"not met: {each.lacking}")
        text += f"| {each.number} | {each.level} | {each.asks} | {', '.join(shown)} |\n"
    return text
