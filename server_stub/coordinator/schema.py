"""The coordinator's tables, and how an older database becomes a current one.

Owns: the schema and its version, which lies inside the database so that every backup carries it.
Must not: have a column that could hold an operator, a shape, a name, a hash or a number of a
computation. Texts here are ids, closed words, names that people chose for accounts and labs,
addresses of lab nodes, mail addresses, and what people wrote for others to read (`words_...`).
"""

from __future__ import annotations

from typing import Final

__all__ = ["COLUMNS", "MIGRATIONS", "VERSION"]

_FIRST: Final = (
    """CREATE TABLE counter (
        name TEXT PRIMARY KEY,
        value INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID""",
    "INSERT INTO counter (name, value) VALUES ('schema', 0), ('revocation', 0), ('level', 0)",
    """CREATE TABLE account (
        account TEXT PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        created_s REAL NOT NULL
    ) STRICT""",
    """CREATE TABLE device (
        device TEXT PRIMARY KEY,
        account TEXT NOT NULL REFERENCES account,
        public_key BLOB NOT NULL UNIQUE,
        created_s REAL NOT NULL,
        seen_s REAL,
        revoked_s REAL
    ) STRICT""",
    "CREATE INDEX device_by_account ON device (account)",
    """CREATE TABLE enrolment (
        enrolment TEXT PRIMARY KEY,
        user_code TEXT NOT NULL UNIQUE,
        public_key BLOB NOT NULL,
        network_bucket TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'denied')),
        device TEXT REFERENCES device,
        expires_s REAL NOT NULL,
        polled_s REAL,
        interval_s REAL NOT NULL
    ) STRICT""",
    "CREATE INDEX enrolment_by_key ON enrolment (public_key)",
    "CREATE INDEX enrolment_by_end ON enrolment (expires_s)",
    """CREATE TABLE lab (
        lab TEXT PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        public_key BLOB NOT NULL UNIQUE,
        address TEXT NOT NULL,
        certificate_sha256 TEXT,
        weight REAL NOT NULL CHECK (weight > 0),
        created_s REAL NOT NULL,
        max_cards INTEGER NOT NULL,
        cards_wanted INTEGER NOT NULL DEFAULT 0,
        min_memory_bytes INTEGER NOT NULL DEFAULT 0,
        demand_s REAL NOT NULL DEFAULT 0,
        served INTEGER NOT NULL DEFAULT 0
    ) STRICT""",
    """CREATE TABLE card_grant (
        card_grant TEXT PRIMARY KEY,
        lab TEXT NOT NULL REFERENCES lab,
        device TEXT NOT NULL REFERENCES device,
        card INTEGER NOT NULL,
        card_class TEXT NOT NULL,
        engine_build TEXT NOT NULL,
        catalog_hash TEXT NOT NULL,
        owner_age_days INTEGER NOT NULL,
        network_bucket TEXT NOT NULL,
        max_leases INTEGER NOT NULL,
        issued_s INTEGER NOT NULL,
        expires_s INTEGER NOT NULL,
        seen_s REAL NOT NULL,
        released_s REAL,
        revoked_s REAL
    ) STRICT""",
    "CREATE INDEX card_grant_by_device ON card_grant (device, expires_s)",
    "CREATE INDEX card_grant_by_lab ON card_grant (lab, expires_s)",
    """CREATE TABLE receipt (
        receipt TEXT PRIMARY KEY,
        card_grant TEXT NOT NULL REFERENCES card_grant,
        lab TEXT NOT NULL REFERENCES lab,
        lease TEXT NOT NULL,
        verified_s REAL NOT NULL,
        booked_s REAL NOT NULL,
        UNIQUE (lab, lease)
    ) STRICT""",
    """CREATE TABLE entry (
        entry INTEGER PRIMARY KEY,
        receipt TEXT NOT NULL UNIQUE REFERENCES receipt,
        account TEXT NOT NULL REFERENCES account,
        device TEXT NOT NULL REFERENCES device,
        lab TEXT NOT NULL REFERENCES lab,
        day INTEGER NOT NULL
    ) STRICT""",
    "CREATE INDEX entry_by_lab_day ON entry (lab, day)",
    """CREATE TABLE posting (
        entry INTEGER NOT NULL REFERENCES entry,
        holder TEXT NOT NULL,
        micro_units INTEGER NOT NULL,
        PRIMARY KEY (entry, holder)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE balance (
        holder TEXT PRIMARY KEY,
        micro_units INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE lab_day (
        lab TEXT NOT NULL REFERENCES lab,
        day INTEGER NOT NULL,
        micro_units INTEGER NOT NULL,
        PRIMARY KEY (lab, day)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE nonce (
        public_key BLOB NOT NULL,
        nonce BLOB NOT NULL,
        until_s REAL NOT NULL,
        PRIMARY KEY (public_key, nonce)
    ) STRICT, WITHOUT ROWID""",
    "CREATE INDEX nonce_by_end ON nonce (until_s)",
    """CREATE TABLE rate_bucket (
        scope TEXT NOT NULL,
        subject TEXT NOT NULL,
        level REAL NOT NULL,
        at_s REAL NOT NULL,
        PRIMARY KEY (scope, subject)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE audit (
        number INTEGER PRIMARY KEY,
        at_s REAL NOT NULL,
        actor TEXT NOT NULL,
        action TEXT NOT NULL,
        subject TEXT NOT NULL,
        link TEXT NOT NULL
    ) STRICT""",
    *(
        f"""CREATE TRIGGER {table}_keeps_{verb.lower()} BEFORE {verb} ON {table}
        BEGIN SELECT RAISE(ABORT, 'append-only'); END"""
        for table in ("audit", "entry", "posting", "receipt")
        for verb in ("UPDATE", "DELETE")
    ),
)

_SECOND: Final = (
    # A person is known by the mailbox that the codes are sent to; accounts that the operator made
    # by command have none.
    "ALTER TABLE account ADD COLUMN mailbox TEXT",
    "CREATE UNIQUE INDEX account_by_mailbox ON account (mailbox) WHERE mailbox IS NOT NULL",
    "ALTER TABLE account ADD COLUMN role TEXT NOT NULL DEFAULT 'contributor'"
    " CHECK (role IN ('contributor', 'operator'))",
    "ALTER TABLE account ADD COLUMN language TEXT NOT NULL DEFAULT 'en'",
    "ALTER TABLE account ADD COLUMN is_listed INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE account ADD COLUMN closed_s REAL",
    """CREATE TABLE login_code (
        ask TEXT PRIMARY KEY,
        mailbox TEXT NOT NULL,
        code TEXT NOT NULL,
        language TEXT NOT NULL,
        tries_left INTEGER NOT NULL,
        expires_s REAL NOT NULL
    ) STRICT""",
    "CREATE INDEX login_code_by_end ON login_code (expires_s)",
    """CREATE TABLE session (
        session TEXT PRIMARY KEY,
        account TEXT NOT NULL REFERENCES account,
        created_s REAL NOT NULL,
        seen_s REAL NOT NULL
    ) STRICT""",
    "CREATE INDEX session_by_account ON session (account)",
    """CREATE TABLE mail (
        number INTEGER PRIMARY KEY,
        mailbox TEXT NOT NULL,
        subject TEXT NOT NULL,
        words_letter TEXT NOT NULL,
        tries INTEGER NOT NULL,
        due_s REAL NOT NULL,
        until_s REAL NOT NULL
    ) STRICT""",
    "CREATE INDEX mail_by_due ON mail (due_s)",
    """CREATE TABLE application (
        application TEXT PRIMARY KEY,
        account TEXT NOT NULL REFERENCES account,
        person TEXT NOT NULL,
        affiliation TEXT NOT NULL,
        words_project TEXT NOT NULL,
        words_purpose TEXT NOT NULL,
        words_ethics TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('waiting', 'approved', 'declined', 'withdrawn')),
        created_s REAL NOT NULL,
        decided_s REAL,
        decided_by TEXT REFERENCES account,
        words_answer TEXT NOT NULL DEFAULT ''
    ) STRICT""",
    "CREATE INDEX application_by_state ON application (state, created_s)",
    "CREATE INDEX application_by_account ON application (account)",
    "ALTER TABLE lab ADD COLUMN application TEXT REFERENCES application",
    "ALTER TABLE lab ADD COLUMN words_public TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE lab ADD COLUMN suspended_s REAL",
    """CREATE TABLE abuse_report (
        report TEXT PRIMARY KEY,
        account TEXT REFERENCES account,
        lab TEXT REFERENCES lab,
        words_report TEXT NOT NULL,
        created_s REAL NOT NULL,
        closed_s REAL,
        closed_by TEXT REFERENCES account
    ) STRICT""",
)

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (_FIRST, _SECOND)
"""Step `n` makes schema `n + 1` out of schema `n`. Steps that were released never change."""

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
        "words_public", "suspended_s",
    ),
    "card_grant": (
        "card_grant", "lab", "device", "card", "card_class", "engine_build", "catalog_hash",
        "owner_age_days", "network_bucket", "max_leases", "issued_s", "expires_s", "seen_s",
        "released_s", "revoked_s",
    ),
    "receipt": ("receipt", "card_grant", "lab", "lease", "verified_s", "booked_s"),
    "entry": ("entry", "receipt", "account", "device", "lab", "day"),
    "posting": ("entry", "holder", "micro_units"),
    "balance": ("holder", "micro_units"),
    "lab_day": ("lab", "day", "micro_units"),
    "nonce": ("public_key", "nonce", "until_s"),
    "rate_bucket": ("scope", "subject", "level", "at_s"),
    "audit": ("number", "at_s", "actor", "action", "subject", "link"),
}  # fmt: skip
"""Every column that may exist. A test compares it with the database and with a list of words that
no column may be named after, so that a new column is a decision and not an accident."""
