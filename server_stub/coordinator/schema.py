"""The coordinator's tables, and how an older database becomes a current one.

Owns: the schema and its version, which lies inside the database so that every backup carries it.
Must not: have a column that could hold an operator, a shape, a name, a hash or a number of a
computation. Texts here are ids, closed words, names that people chose for accounts and labs,
addresses of lab nodes, mail addresses, and what people wrote for others to read (`words_...`).
"""

from __future__ import annotations

from typing import Final

from server_stub.coordinator.dialects import AppendOnly, Statement

__all__ = ["COLUMNS", "MIGRATIONS", "VERSION"]

_FIRST: Final[tuple[Statement, ...]] = (
    """CREATE TABLE counter (
        name {text} PRIMARY KEY,
        value {integer} NOT NULL
    ) {keyed}""",
    "INSERT INTO counter (name, value) VALUES ('schema', 0), ('revocation', 0), ('level', 0)",
    """CREATE TABLE account (
        account {text} PRIMARY KEY,
        name {text} NOT NULL UNIQUE,
        created_s {real} NOT NULL
    ) {strict}""",
    """CREATE TABLE device (
        device {text} PRIMARY KEY,
        account {text} NOT NULL REFERENCES account,
        public_key {bytes} NOT NULL UNIQUE,
        created_s {real} NOT NULL,
        seen_s {real},
        revoked_s {real}
    ) {strict}""",
    "CREATE INDEX device_by_account ON device (account)",
    """CREATE TABLE enrolment (
        enrolment {text} PRIMARY KEY,
        user_code {text} NOT NULL UNIQUE,
        public_key {bytes} NOT NULL,
        network_bucket {text} NOT NULL,
        state {text} NOT NULL CHECK (state IN ('pending', 'approved', 'denied')),
        device {text} REFERENCES device,
        expires_s {real} NOT NULL,
        polled_s {real},
        interval_s {real} NOT NULL
    ) {strict}""",
    "CREATE INDEX enrolment_by_key ON enrolment (public_key)",
    "CREATE INDEX enrolment_by_end ON enrolment (expires_s)",
    """CREATE TABLE lab (
        lab {text} PRIMARY KEY,
        name {text} NOT NULL UNIQUE,
        public_key {bytes} NOT NULL UNIQUE,
        address {text} NOT NULL,
        certificate_sha256 {text},
        weight {real} NOT NULL CHECK (weight > 0),
        created_s {real} NOT NULL,
        max_cards {integer} NOT NULL,
        cards_wanted {integer} NOT NULL DEFAULT 0,
        min_memory_bytes {integer} NOT NULL DEFAULT 0,
        demand_s {real} NOT NULL DEFAULT 0,
        served {integer} NOT NULL DEFAULT 0
    ) {strict}""",
    """CREATE TABLE card_grant (
        card_grant {text} PRIMARY KEY,
        lab {text} NOT NULL REFERENCES lab,
        device {text} NOT NULL REFERENCES device,
        card {integer} NOT NULL,
        card_class {text} NOT NULL,
        engine_build {text} NOT NULL,
        catalog_hash {text} NOT NULL,
        owner_age_days {integer} NOT NULL,
        network_bucket {text} NOT NULL,
        max_leases {integer} NOT NULL,
        issued_s {integer} NOT NULL,
        expires_s {integer} NOT NULL,
        seen_s {real} NOT NULL,
        released_s {real},
        revoked_s {real}
    ) {strict}""",
    "CREATE INDEX card_grant_by_device ON card_grant (device, expires_s)",
    "CREATE INDEX card_grant_by_lab ON card_grant (lab, expires_s)",
    """CREATE TABLE receipt (
        receipt {text} PRIMARY KEY,
        card_grant {text} NOT NULL REFERENCES card_grant,
        lab {text} NOT NULL REFERENCES lab,
        lease {text} NOT NULL,
        verified_s {real} NOT NULL,
        booked_s {real} NOT NULL,
        UNIQUE (lab, lease)
    ) {strict}""",
    """CREATE TABLE entry (
        entry {number} PRIMARY KEY,
        receipt {text} NOT NULL UNIQUE REFERENCES receipt,
        account {text} NOT NULL REFERENCES account,
        device {text} NOT NULL REFERENCES device,
        lab {text} NOT NULL REFERENCES lab,
        day {integer} NOT NULL
    ) {strict}""",
    "CREATE INDEX entry_by_lab_day ON entry (lab, day)",
    """CREATE TABLE posting (
        entry {integer} NOT NULL REFERENCES entry,
        holder {text} NOT NULL,
        micro_units {integer} NOT NULL,
        PRIMARY KEY (entry, holder)
    ) {keyed}""",
    """CREATE TABLE balance (
        holder {text} PRIMARY KEY,
        micro_units {integer} NOT NULL
    ) {keyed}""",
    """CREATE TABLE lab_day (
        lab {text} NOT NULL REFERENCES lab,
        day {integer} NOT NULL,
        micro_units {integer} NOT NULL,
        PRIMARY KEY (lab, day)
    ) {keyed}""",
    """CREATE TABLE nonce (
        public_key {bytes} NOT NULL,
        nonce {bytes} NOT NULL,
        until_s {real} NOT NULL,
        PRIMARY KEY (public_key, nonce)
    ) {keyed}""",
    "CREATE INDEX nonce_by_end ON nonce (until_s)",
    """CREATE TABLE rate_bucket (
        scope {text} NOT NULL,
        subject {text} NOT NULL,
        level {real} NOT NULL,
        at_s {real} NOT NULL,
        PRIMARY KEY (scope, subject)
    ) {keyed}""",
    """CREATE TABLE audit (
        number {number} PRIMARY KEY,
        at_s {real} NOT NULL,
        actor {text} NOT NULL,
        action {text} NOT NULL,
        subject {text} NOT NULL,
        link {text} NOT NULL
    ) {strict}""",
    *(AppendOnly(table) for table in ("audit", "entry", "posting", "receipt")),
)

_SECOND: Final[tuple[Statement, ...]] = (
    # A person is known by the mailbox that the codes are sent to; accounts that the operator made
    # by command have none.
    "ALTER TABLE account ADD COLUMN mailbox {text}",
    "CREATE UNIQUE INDEX account_by_mailbox ON account (mailbox) WHERE mailbox IS NOT NULL",
    "ALTER TABLE account ADD COLUMN role {text} NOT NULL DEFAULT 'contributor'"
    " CHECK (role IN ('contributor', 'operator'))",
    "ALTER TABLE account ADD COLUMN language {text} NOT NULL DEFAULT 'en'",
    "ALTER TABLE account ADD COLUMN is_listed {integer} NOT NULL DEFAULT 0",
    "ALTER TABLE account ADD COLUMN closed_s {real}",
    """CREATE TABLE login_code (
        ask {text} PRIMARY KEY,
        mailbox {text} NOT NULL,
        code {text} NOT NULL,
        language {text} NOT NULL,
        tries_left {integer} NOT NULL,
        expires_s {real} NOT NULL
    ) {strict}""",
    "CREATE INDEX login_code_by_end ON login_code (expires_s)",
    """CREATE TABLE session (
        session {text} PRIMARY KEY,
        account {text} NOT NULL REFERENCES account,
        created_s {real} NOT NULL,
        seen_s {real} NOT NULL
    ) {strict}""",
    "CREATE INDEX session_by_account ON session (account)",
    """CREATE TABLE mail (
        number {number} PRIMARY KEY,
        mailbox {text} NOT NULL,
        subject {text} NOT NULL,
        words_letter {text} NOT NULL,
        tries {integer} NOT NULL,
        due_s {real} NOT NULL,
        until_s {real} NOT NULL
    ) {strict}""",
    "CREATE INDEX mail_by_due ON mail (due_s)",
    """CREATE TABLE application (
        application {text} PRIMARY KEY,
        account {text} NOT NULL REFERENCES account,
        person {text} NOT NULL,
        affiliation {text} NOT NULL,
        words_project {text} NOT NULL,
        words_purpose {text} NOT NULL,
        words_ethics {text} NOT NULL,
        state {text} NOT NULL CHECK (state IN ('waiting', 'approved', 'declined', 'withdrawn')),
        created_s {real} NOT NULL,
        decided_s {real},
        decided_by {text} REFERENCES account,
        words_answer {text} NOT NULL DEFAULT ''
    ) {strict}""",
    "CREATE INDEX application_by_state ON application (state, created_s)",
    "CREATE INDEX application_by_account ON application (account)",
    "ALTER TABLE lab ADD COLUMN application {text} REFERENCES application",
    "ALTER TABLE lab ADD COLUMN words_public {text} NOT NULL DEFAULT ''",
    "ALTER TABLE lab ADD COLUMN suspended_s {real}",
    """CREATE TABLE abuse_report (
        report {text} PRIMARY KEY,
        account {text} REFERENCES account,
        lab {text} REFERENCES lab,
        words_report {text} NOT NULL,
        created_s {real} NOT NULL,
        closed_s {real},
        closed_by {text} REFERENCES account
    ) {strict}""",
)

_THIRD: Final[tuple[Statement, ...]] = (
    # What `handlers.grants` says of them. Grants from before count again at their device's next
    # contact.
    "ALTER TABLE lab ADD COLUMN cards_held {integer} NOT NULL DEFAULT 0",
    "ALTER TABLE card_grant ADD COLUMN counted_until_s {real}",
    "CREATE INDEX card_grant_by_count ON card_grant (counted_until_s)"
    " WHERE counted_until_s IS NOT NULL",
    "CREATE INDEX entry_by_account ON entry (account, day)",
    "CREATE INDEX entry_by_device ON entry (device, day)",
)

_FOURTH: Final[tuple[Statement, ...]] = (
    # What was certified stays as it was, also when receipts of those days come later.
    """CREATE TABLE certificate (
        certificate {text} PRIMARY KEY,
        account {text} NOT NULL REFERENCES account,
        name {text} NOT NULL,
        lab {text} NOT NULL REFERENCES lab,
        since_day {integer} NOT NULL,
        until_day {integer} NOT NULL,
        micro_units {integer} NOT NULL,
        receipts {integer} NOT NULL,
        issued_day {integer} NOT NULL
    ) {strict}""",
    "CREATE INDEX certificate_by_account ON certificate (account)",
)

_FIFTH: Final[tuple[Statement, ...]] = (
    """CREATE TABLE team (
        team {text} PRIMARY KEY,
        name {text} NOT NULL UNIQUE,
        code {text} NOT NULL UNIQUE,
        created_s {real} NOT NULL
    ) {strict}""",
    # What a member did for the team is kept when they leave, so that its sum stays.
    """CREATE TABLE team_member (
        team {text} NOT NULL REFERENCES team,
        account {text} NOT NULL REFERENCES account,
        since_s {real} NOT NULL,
        until_s {real},
        micro_units {integer} NOT NULL,
        PRIMARY KEY (team, account)
    ) {keyed}""",
    "CREATE UNIQUE INDEX team_member_by_account ON team_member (account) WHERE until_s IS NULL",
)

_SIXTH: Final[tuple[Statement, ...]] = (
    # Who made a team was not kept before: the one who has been in for the longest.
    "ALTER TABLE team ADD COLUMN captain {text} REFERENCES account",
    "UPDATE team SET captain = (SELECT account FROM team_member WHERE team_member.team = team.team"
    " AND until_s IS NULL ORDER BY since_s, account LIMIT 1)",
)

MIGRATIONS: Final[tuple[tuple[Statement, ...], ...]] = (
    _FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH, _SIXTH,
)  # fmt: skip
"""Step `n` makes schema `n + 1` out of schema `n`. Steps that were released never change.

The words in braces are those of `dialects`, so that one text makes the tables of both databases."""

VERSION: Final = len(MIGRATIONS)

COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "counter": ("name", "value"),
    "account": (
        "account", "name", "created_s", "mailbox", "role", "language", "is_listed", "closed_s",
    ),
    "login_code": ("ask", "mailbox", "code", "language", "tries_left", "expires_s"),
    "session": ("session", "account", "created_s", "seen_s"),
    "mail": ("number", "mailbox", "subject", "words_letter", "tries", "due_s", "until_s"),
    "application": (
        "application", "account", "person", "affiliation", "words_project", "words_purpose",
        "words_ethics", "state", "created_s", "decided_s", "decided_by", "words_answer",
    ),
    "abuse_report": (
        "report", "account", "lab", "words_report", "created_s", "closed_s", "closed_by",
    ),
    "device": ("device", "account", "public_key", "created_s", "seen_s", "revoked_s"),
    "enrolment": (
        "enrolment", "user_code", "public_key", "network_bucket", "state", "device", "expires_s",
        "polled_s", "interval_s",
    ),
    "lab": (
        "lab", "name", "public_key", "address", "certificate_sha256", "weight", "created_s",
        "max_cards", "cards_wanted", "min_memory_bytes", "demand_s", "served", "application",
        "words_public", "suspended_s", "cards_held",
    ),
    "card_grant": (
        "card_grant", "lab", "device", "card", "card_class", "engine_build", "catalog_hash",
        "owner_age_days", "network_bucket", "max_leases", "issued_s", "expires_s", "seen_s",
        "released_s", "revoked_s", "counted_until_s",
    ),
    "receipt": ("receipt", "card_grant", "lab", "lease", "verified_s", "booked_s"),
    "entry": ("entry", "receipt", "account", "device", "lab", "day"),
    "posting": ("entry", "holder", "micro_units"),
    "balance": ("holder", "micro_units"),
    "lab_day": ("lab", "day", "micro_units"),
    "nonce": ("public_key", "nonce", "until_s"),
    "rate_bucket": ("scope", "subject", "level", "at_s"),
    "audit": ("number", "at_s", "actor", "action", "subject", "link"),
    "certificate": (
        "certificate", "account", "name", "lab", "since_day", "until_day", "micro_units",
        "receipts", "issued_day",
    ),
    "team": ("team", "name", "code", "created_s", "captain"),
    "team_member": ("team", "account", "since_s", "until_s", "micro_units"),
}  # fmt: skip
"""Every column that may exist. A test compares it with the database and with a list of words that
no column may be named after, so that a new column is a decision and not an accident."""
