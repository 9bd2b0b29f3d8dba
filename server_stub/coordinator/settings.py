"""The coordinator's settings: declared once, read from one TOML file.

Owns: the table of settings (docs are made from it) and their reading. Must not: open a database,
a socket or a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from gpugoblin import settings as declared
from gpugoblin.errors import SettingsError
from gpugoblin.settings import Setting, declare
from server_stub import logs

__all__ = ["SETTINGS", "Settings", "load_settings", "settings_toml"]

_MAX_UNITS: Final = 1e12
_HEADING: Final = "The coordinator's settings. Changes take effect when it is started again."
_TLS: Final = ("self-made", "files", "off")
_MAIL_TLS: Final = ("starttls", "tls", "off")
_POSTGRES: Final = ("postgresql://", "postgres://")
_LEVELS: Final = ("full", "reduced", "none")

SETTINGS: Final = declare(
    Setting("state_dir", "path", None, "", "Directory of the database and the keys."),
    Setting(
        "database", "text", "", "",
        "PostgreSQL database as postgresql://user@host/name, 15 or later; empty: SQLite in"
        " state_dir.",
    ),
    Setting("host", "text", "127.0.0.1", "", "Address to listen on."),
    Setting("port", "int", 8440, "", "Port to listen on; 0 takes a free one.", 0, 65_535),
    Setting(
        "tls", "text", "self-made", "",
        "Certificate: made here, from files, or off (behind a proxy that ends TLS).", choices=_TLS,
    ),
    Setting("tls_certificate", "path", "", "", 'PEM certificate chain, for tls = "files".'),
    Setting("tls_key", "path", "", "", 'PEM private key, for tls = "files".'),
    Setting(
        "hostnames", "texts", ("localhost", "127.0.0.1"), "",
        "Names in a self-made certificate.",
    ),
    Setting(
        "trusted_proxies", "texts", (), "",
        "Addresses whose last X-Forwarded-For entry is believed to be the sender's.",
    ),
    Setting("contact_s", "float", 300.0, "s", "Time between two contacts of a device.", 0.05, 3600),
    Setting(
        "waiting_contact_s", "float", 60.0, "s",
        "The same for a device whose cards wait for a grant.", 0.05, 3600,
    ),
    Setting(
        "contact_jitter", "float", 0.2, "", "Contacts vary by this share, either way.", 0, 0.9
    ),
    Setting("grant_s", "int", 3600, "s", "How long a grant lasts.", 2, 3600),
    Setting("max_leases", "int", 4, "", "Leases that one card may hold at a lab.", 1, 64),
    Setting("max_cards_per_device", "int", 16, "", "Cards of a device that get grants.", 1, 64),
    Setting("demand_s", "float", 120.0, "s", "How long a lab's stated demand counts.", 0.1, 86_400),
    Setting("poll_s", "float", 30.0, "s", "Time between two polls of a lab node.", 0.05, 3600),
    Setting(
        "sandbox_levels", "texts", ("full", "reduced"), "",
        "Sandbox levels of cards that get grants.", choices=_LEVELS,
    ),
    Setting(
        "enrol_expires_s", "float", 600.0, "s", "How long a code can be approved.", 1, 86_400
    ),
    Setting(
        "enrol_interval_s", "float", 5.0, "s", "Time between two polls of a code.", 0.05, 60
    ),
    Setting("max_pending", "int", 10_000, "", "Codes that may wait at once.", 1),
    Setting("max_pending_per_network", "int", 100, "", "The same from one network.", 1),
    Setting(
        "code_tries", "int", 5, "", "Wrong codes that an account may try at once.", 1, 1000
    ),
    Setting(
        "code_try_s", "float", 600.0, "s", "Time after which one more wrong code may be tried.",
        0,
    ),
    Setting("requests_per_s", "float", 50.0, "1/s", "Requests from one network.", 0.01),
    Setting("requests_burst", "int", 500, "", "Requests from one network at once.", 1),
    Setting("key_requests_per_s", "float", 5.0, "1/s", "Requests signed by one key.", 0.01),
    Setting("key_requests_burst", "int", 100, "", "Requests signed by one key at once.", 1),
    Setting(
        "max_units_per_receipt", "float", 1e9, "units", "Units that one receipt may name.",
        0, _MAX_UNITS,
    ),
    Setting(
        "max_units_per_lab_day", "float", 1e10, "units", "Units that a lab may book a day.",
        0, _MAX_UNITS,
    ),
    Setting(
        "body_s", "float", 10.0, "s", "Time in which a request's body must arrive.", 0.1, 600
    ),
    Setting(
        "public_url", "text", "", "",
        "Address of the pages as browsers see it, such as https://grid.example.org; empty: the"
        " name that the browser asks for.",
    ),
    Setting(
        "only_tls", "text", "host", "",
        "Browsers that see a certificate of an authority are told to use TLS alone for a year, at"
        " every port: of this host, of those below it too, or off.",
        choices=("host", "subdomains", "off"),
    ),
    Setting(
        "hosted_lab", "text", "", "",
        "Name of the lab whose node this operator runs for researchers without a machine; the pages"
        " then say that their data is kept there. Empty: there is none.",
    ),
    Setting(
        "mail_host", "text", "", "",
        "SMTP server that takes our letters; empty: nobody can sign in on the pages.",
    ),
    Setting("mail_port", "int", 587, "", "Its port.", 1, 65_535),
    Setting(
        "mail_tls", "text", "starttls", "",
        "How the way to it is encrypted; off only for a server on this machine.",
        choices=_MAIL_TLS,
    ),
    Setting("mail_user", "text", "", "", "User name at the SMTP server; empty: none is asked."),
    Setting("mail_password", "path", "", "", "File that holds the password of that user."),
    Setting(
        "mail_from", "text", "gpugoblin@localhost", "", "Sender of our letters.",
    ),
    Setting("login_s", "float", 600.0, "s", "How long a code in a letter can be used.", 10, 86_400),
    Setting("login_tries", "int", 5, "", "Wrong codes after which a letter is void.", 1, 100),
    Setting(
        "letters_at_once", "int", 3, "", "Letters with a code that one mailbox gets at once.", 1
    ),
    Setting(
        "letter_s", "float", 300.0, "s", "Time after which it may get one more.", 0.01, 86_400
    ),
    Setting(
        "session_idle_s", "float", 43_200.0, "s",
        "A browser that was silent for so long must sign in again.", 60,
    ),
    Setting(
        "session_s", "float", 2_592_000.0, "s", "A browser must sign in again after so long.", 60
    ),
    Setting(
        "fresh_s", "float", 900.0, "s",
        "What cannot be undone asks for a sign-in that is not older.", 10,
    ),
    Setting(
        "max_connections", "int", 2000, "",
        "Connections at once, of which one network address may have a quarter.", 1,
    ),
    Setting(
        "log_format", "text", "text", "", "Lines for people, or a JSON object a line.",
        choices=logs.FORMATS,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings with their values; field names, units and meanings as in `SETTINGS`."""

    state_dir: Path
    database: str
    host: str
    port: int
    tls: str
    tls_certificate: str
    tls_key: str
    hostnames: tuple[str, ...]
    trusted_proxies: tuple[str, ...]
    contact_s: float
    waiting_contact_s: float
    contact_jitter: float
    grant_s: int
    max_leases: int
    max_cards_per_device: int
    demand_s: float
    poll_s: float
    sandbox_levels: tuple[str, ...]
    enrol_expires_s: float
    enrol_interval_s: float
    max_pending: int
    max_pending_per_network: int
    code_tries: int
    code_try_s: float
    requests_per_s: float
    requests_burst: int
    key_requests_per_s: float
    key_requests_burst: int
    max_units_per_receipt: float
    max_units_per_lab_day: float
    body_s: float
    public_url: str
    only_tls: str
    hosted_lab: str
    mail_host: str
    mail_port: int
    mail_tls: str
    mail_user: str
    mail_password: str
    mail_from: str
    login_s: float
    login_tries: int
    letters_at_once: int
    letter_s: float
    session_idle_s: float
    session_s: float
    fresh_s: float
    max_connections: int
    log_format: str

    @classmethod
    def of(cls, document: Mapping[str, object]) -> Settings:
        """Settings that no file gives; defaults where the document is silent.

        Raises:
            SettingsError: `setting_unknown`, `setting_missing`, `setting_invalid`.
        """
        return _made(declared.check(document, SETTINGS, "the request"), "the request")


def load_settings(path: Path) -> Settings:
    """Settings from a TOML file. Relative paths in it start at its own directory.

    Raises:
        SettingsError: `settings_unreadable`, or as `Settings.of`.
    """
    return _made(declared.read(path, SETTINGS), str(path))


def settings_toml(**chosen: object) -> str:
    """A configuration file: the chosen values, and every default as a comment.

    Raises:
        SettingsError: as `Settings.of`.
    """
    return declared.template(SETTINGS, chosen, _HEADING)


def _made(values: dict[str, Any], source: str) -> Settings:
    if values["tls"] == "files" and not (values["tls_certificate"] and values["tls_key"]):
        raise SettingsError(
            "setting_invalid", name="tls", value="'files'", source=source,
            reason="it needs tls_certificate and tls_key",
        )  # fmt: skip
    if values["database"] and not values["database"].startswith(_POSTGRES):
        raise SettingsError(
            "setting_invalid", name="database", value="(not shown)", source=source,
            reason="it begins with postgresql://, or is empty",
        )  # fmt: skip
    values["state_dir"] = Path(values["state_dir"])
    return Settings(**values)


if tuple(one.name for one in fields(Settings)) != tuple(one.name for one in SETTINGS):
    raise LookupError("the fields of Settings and the table SETTINGS differ")
