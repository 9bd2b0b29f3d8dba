"""What owners of other programs complained about, and the tests that show the right behaviour here.

Owns: the list, from which a page of the docs is made. Threads are written as their projects number
them. B: BOINC/boinc, F: FoldingAtHome/fah-client-bastet, W: FoldingAtHome/fah-web-client-bastet,
I: FoldingAtHome/fah-issues; others by their names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.helpers.named_tests import named_tests

__all__ = ["COMPLAINTS", "Complaint", "names_of_tests", "page"]

_RULES: Final = "tests/unit/app/policy/test_complaints.py"
_FILES: Final = {
    "agent": "tests/e2e/test_agent.py",
    "cards": "tests/unit/app/host/test_cards.py",
    "clipped": "tests/unit/app/ui/test_clipped.py",
    "engine": "tests/unit/app/host/test_engine.py",
    "gather": "tests/unit/app/probes/test_gather.py",
    "keyboard": "tests/unit/app/ui/test_keyboard.py",
    "kill": "tests/e2e/test_agent_kill.py",
    "link": "tests/unit/app/agent/test_link.py",
    "machine": "tests/unit/app/agent/test_machine_cards.py",
    "main": "tests/unit/app/test_main.py",
    "merge": "tests/unit/app/probes/idle/test_merge.py",
    "messages": "tests/unit/scripts/test_messages.py",
    "network": "tests/unit/app/policy/rules/test_network.py",
    "nvml": "tests/unit/app/probes/gpus/test_nvml.py",
    "package": "tests/packages/test_package.py",
    "parts": "tests/unit/app/probes/test_parts.py",
    "receipts": "tests/unit/server_stub/node/state/test_receipts.py",
    "rules": _RULES,
    "segments": "tests/unit/app/engine/backends/vulkan/test_program.py",
    "session": "tests/unit/app/test_session.py",
    "terminals": "tests/unit/app/probes/idle/test_terminals.py",
    "tray": "tests/desktop/test_tray.py",
    "window": "tests/unit/app/ui/test_window.py",
    "wizard": "tests/unit/app/ui/firstrun/test_wizard.py",
    "x11": "tests/unit/app/probes/idle/test_x11.py",
}


@dataclass(frozen=True)
class Complaint:
    """One row.

    Args:
        threads: in words, separated by spaces.
        complaint: what owners said.
        behaviour: what this program does instead.
        tests: `file:name`, the file by its short name, the name without `test_`.
        lacking: what is not there yet; empty when all is.
    """

    threads: str
    complaint: str
    behaviour: str
    tests: tuple[str, ...]
    lacking: str = ""


COMPLAINTS: Final = (
    Complaint(
        "B#1187", "typing, films and new terminals are not noticed",
        "a desktop's input, terminals old and new, and films count at once",
        ("terminals:b1187_a_terminal_that_is_opened_later_counts",
         "x11:b1187_a_key_is_activity_and_then_comes_rest",
         "rules:b1187_films_count_as_somebody"),
    ),
    Complaint(
        "B#4084", "a service of the system cannot see a desktop",
        "a helper in the session tells the system's agent; the source is shown",
        ("session:b4084_a_session_is_told_at_once_by_peer_credentials",
         "parts:b4084_a_helper_makes_another_users_desktop_known_and_its_silence_unknown"),
    ),
    Complaint(
        "B#5226 B#6908", "idleness has been due for a new design for years",
        "sources in an order, the best that is there speaks",
        ("merge:b5226_b6908_the_best_source_speaks_and_the_latest_input_counts",),
    ),
    Complaint(
        "B#5075", "rules of processor and card are mixed up",
        "each has its own, and each setting has a sentence",
        ("rules:b5075_processor_and_cards_have_rules_of_their_own",),
    ),
    Complaint(
        "I#1218 I#945", "it waits for idleness for ever and does not say why",
        "no source is said with its reason",
        ("rules:i1218_i945_waiting_for_idle_forever_says_why",),
    ),
    Complaint("I#1674", "a remote desktop is not seen", "it counts as somebody",
              ("rules:i1674_a_remote_desktop_is_in_use",)),
    Complaint("F#140", '"fold when idle" is misread', "a profile's words say what it does",
              ("rules:f140_the_words_say_what_the_profile_does",)),
    Complaint(
        "B#3150 B#1011 B#1148 B#4666",
        "where the driver comes later than the service, there is no card all session",
        "a card that comes later is lent without a restart", (),
        "a card whose driver comes after the agent is lent after the agent's next start",
    ),
    Complaint(
        "F#252 F#301", "the driver is lost after hours and every task fails",
        "drivers are asked in a child; a lost card says so, and no task is given to it",
        ("cards:f252_f301_a_driver_that_crashes",
         "nvml:f252_f301_a_card_that_the_driver_loses_says_so_and_comes_back"),
    ),
    Complaint(
        "F#293 I#1328 I#1589", "packages are missing and nobody says which",
        "the missing package is named",
        ("cards:f293_i1328_i1589_without_the_package_one_line_says_so",),
    ),
    Complaint("B#5183", "looking for cards hangs at the start",
              "each driver has ten seconds, the others go on",
              ("cards:b5183_a_driver_that_hangs",)),
    Complaint(
        "I#1246 I#1133", "a card that cannot be used takes work and throws it away",
        "no work is asked for before a card has computed something right",
        ("machine:i1246_i1133_an_engine_that_cannot_start_asks_for_no_leases",
         "machine:i1246_i1133_an_engine_is_measured_before_the_first_contact"),
    ),
    Complaint("I#1559", "a pause keeps the card's memory", "the engine's process ends",
              ("agent:i1559_pause_frees_the_card_and_resume_lends_again",)),
    Complaint(
        "F#448", "what hangs is not killed; what was resumed is killed at once",
        "every stop has its own time, and nothing of an old one is left",
        ("engine:f448_a_cancelled_task_gets_ten_seconds_to_end",
         "rules:f448_a_resume_begins_afresh"),
    ),
    Complaint("F#135 F#115 B#1459", "one card of several cannot be paused",
              "a word for a card is for that card",
              ("rules:f135_f115_b1459_a_word_for_one_card_is_for_that_card",)),
    Complaint(
        "F#53 W#42", '"finish" pauses at once', "finish, pause and stop are three things",
        ("rules:f53_w42_finish_is_not_pause", "agent:f53_w42_finish_lets_the_running_task_end"),
    ),
    Complaint(
        "I#1710", "the desktop stutters, and a pause throws work away",
        "work is cut into segments of some milliseconds by what was measured",
        ("segments:i1710_segments_are_cut_again_without_compiling",),
    ),
    Complaint(
        "I#83 I#1407 I#1480 I#1485", "it should pause for programs that are named",
        "a list of programs, and games that nobody has to name",
        ("rules:i83_i1407_i1480_i1485_named_programs_and_games_that_nobody_named",),
    ),
    Complaint("B#2301 B#6053", "it computes while a film or a light game runs",
              "a game or a full screen keeps it off even when nobody types",
              ("rules:b2301_b6053_a_game_keeps_it_off_even_when_nobody_types",)),
    Complaint("B#1612", '"always" forgets the list of programs', "`always` obeys games",
              ("rules:b1612_always_still_obeys_games",)),
    Complaint("B#6246 B#7104 B#1955", "the machine switches itself off for heat",
              "each sensor has its limit below the maker's",
              ("rules:b6246_b7104_b1955_it_stops_before_the_machine_does",)),
    Complaint("B#1591 B#2215 F#11 F#268", "it is loud", "there is a rule for fans",
              ("rules:b1591_b2215_f11_f268_noise_is_a_rule_too",)),
    Complaint("W#53", "hot afternoons", "heat and hours go together",
              ("rules:w53_heat_and_hours_go_together",)),
    Complaint("B#1451 B#799 B#3760 F#358", "less of a card is refused as impossible",
              "a card works a part of the time, and draws no more than its cap",
              ("rules:b1451_b799_b3760_f358_a_card_may_work_part_of_the_time",)),
    Complaint("B#2633 B#4704", "one card's pause stops the others' work",
              "work is asked for by card",
              ("rules:b2633_b4704_one_cards_pause_leaves_the_others_fetching",)),
    Complaint("W#76 F#251 F#102", "nothing works without a browser",
              "`--console` with one file, or with none",
              ("main:w76_f251_f102_the_console_needs_its_word_and_its_coordinator",)),
    Complaint("B#3602", "there are no three lines that say how to begin",
              "install, enrol, look: three commands",
              ("package:b3602_from_apt_to_a_verified_task_and_back",)),
    Complaint("B#3052 B#3638 B#593", "without a tray there is nothing; closing a window ends all",
              "the window works without a tray, and closing it ends nothing",
              ("window:b3052_b3638_b593_closing_is_not_quitting",)),
    Complaint("opensnitch#1659 appindicator#260", "a tray that starts late gets no icon",
              "the icon is made again",
              ("tray:opensnitch1659_appindicator260_a_tray_that_comes_late_or_restarts_gets"
               "_the_icon",)),
    Complaint("I#1720 I#1529 F#246", "sleep counts as a failure, and the card is dead afterward",
              "the engine ends before, starts anew after, and nothing failed",
              ("rules:i1720_i1529_f246_sleep_is_no_failure",)),
    Complaint("F#200 F#246", "it keeps the machine awake, or stumbles where it may not",
              "sleep is delayed until the engine is gone, never forbidden",
              ("gather:f200_f246_sleep_is_delayed_and_never_forbidden",)),
    Complaint(
        "B#385 B#411 B#325 I#628", "proxies with passwords do not work, and 407 is not explained",
        "`https_proxy` and `no_proxy` hold; a refusal is said plainly, without the password",
        ("link:b385_b411_b325_a_proxy_of_the_environment_with_its_password",
         "link:i628_a_proxy_that_refuses_is_said_plainly_without_the_password"),
    ),
    Complaint("B#5105 B#140", "nobody knows what the network costs; a cap by the month is wanted",
              "bytes by day and lab are kept; caps by day and month",
              ("network:b5105_b140_shares_end_at_midnight_and_with_the_month",)),
    Complaint(
        "F#266 F#290 I#1436", "hundreds of tasks are thrown away or forgotten",
        "no lease is forgotten by a kill; three failures rest the card",
        ("kill:f266_i1436_three_kills", "machine:f266_f290_a_card_that_fails_three_times_rests",
         "machine:i1436_after_a_restart_every_lease_is_given_back"),
    ),
    Complaint("B#5895 B#5893", '"running" without progress', "a task over its time ends the engine",
              ("engine:b5895_b5893_a_task_over_its_time_ends_the_engine",)),
    Complaint("gridcoin#245 gridcoin#901 B#2498", "credit can be had by claims",
              "credit is verified work of published operators, whatever a device claims",
              ("receipts:gridcoin245_gridcoin901_b2498_units_are_the_larger_of_work_and_bytes",)),
    Complaint("B#822 B#640 B#607", "two ways to join, no word that it works, files to edit",
              "one code, one sentence, settings in the window",
              ("wizard:b822_b640_from_the_first_page_to_the_last_by_keyboard_alone",
               "rules:b640_is_it_working_has_one_sentence",
               "keyboard:b607_settings_are_changed_and_undone")),
    Complaint("B#147 B#1069 B#2213", "it needs a mouse and eyes; buttons stay English",
              "all by keyboard, every control has a name, every text is translated and fits",
              ("keyboard:b147_b1069_tab_reaches_everything",
               "window:b147_every_control_has_a_name_and_a_role",
               "clipped:b2213_nothing_is_cut_off_at_twice_the_size",
               "messages:b2213_catalogs_say_everything_and_nothing_else")),
)  # fmt: skip


def names_of_tests(file: str) -> frozenset[str]:
    """The tests of a file, by its short name, without `test_`."""
    return frozenset(name.removeprefix("test_") for name in named_tests(_FILES[file]))


def page() -> str:
    """docs/contributor/complaints.md."""
    built = [each for each in COMPLAINTS if not each.lacking]
    text = (
        "# What owners complained about\n\nComplaints and wishes about other programs that lend "
        "machines, some of them open for ten years, and what\nthis program does instead. Threads "
        "are those of their projects: B is BOINC's, F, W and I are Folding@home's\n"
        "(client, web client, issues). Each row has a test that is named after its thread.\n\n"
        f"{len(built)} of {len(COMPLAINTS)} are done.\n\n"
        "| threads | complaint | here | tests |\n| --- | --- | --- | --- |\n"
    )
    for each in COMPLAINTS:
        tests = ", ".join(_shown(test) for test in each.tests) or f"not yet: {each.lacking}"
        threads = ", ".join(each.threads.split())
        text += f"| {threads} | {each.complaint} | {each.behaviour} | {tests} |\n"
    return text


def _shown(test: str) -> str:
    file, _, name = test.partition(":")
    return f"[`{name}`](../../{_FILES[file]})"
