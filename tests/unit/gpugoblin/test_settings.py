"""Settings: declared once, bounded, refused with name and reason, written and documented."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gpugoblin import settings
from gpugoblin.errors import SettingsError
from gpugoblin.settings import Setting, declare

TABLE = declare(
    Setting("state_dir", "path", None, "", "Where it lies."),
    Setting("name", "text", "", "", "A name."),
    Setting("level", "text", "full", "", "Walls.", choices=("full", "none")),
    Setting("levels", "texts", ("full",), "", "Walls.", choices=("full", "none")),
    Setting("threads", "int", 0, "threads", "Threads.", 0, 64),
    Setting("wait_s", "float", 1.5, "s", "Patience.", 0),
    Setting("share", "float", 0.5, "", "A share.", maximum=1),
    Setting("cache.on", "bool", True, "", "Keep.", is_live=True),
    Setting("cache.limit_bytes", "int", 5, "bytes", "Size."),
)


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "program.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def checked(**given: object) -> dict[str, settings.Value]:
    return settings.check({"state_dir": "/s", **given}, TABLE, "the test")


def code(caught: pytest.ExceptionInfo[SettingsError]) -> str:
    return caught.value.code


def test_a_silent_file_gives_the_defaults_in_order() -> None:
    values = checked()
    assert list(values) == [setting.name for setting in TABLE]
    assert values == {
        "state_dir": "/s",
        "name": "",
        "level": "full",
        "levels": ("full",),
        "threads": 0,
        "wait_s": 1.5,
        "share": 0.5,
        "cache.on": True,
        "cache.limit_bytes": 5,
    }


def test_tables_and_dotted_names_are_the_same(tmp_path: Path) -> None:
    texts = ("[cache]\non = false\nlimit_bytes = 7", "cache.on = false\ncache.limit_bytes = 7")
    for text in texts:
        values = settings.read(write(tmp_path, f'state_dir = "/s"\n{text}\n'), TABLE)
        assert (values["cache.on"], values["cache.limit_bytes"]) == (False, 7)


def test_values_come_in_the_type_of_their_kind() -> None:
    values = checked(wait_s=3, levels=["none", "full"], share=-2)
    assert type(values["wait_s"]) is float
    assert values["levels"] == ("none", "full")
    assert values["share"] == -2.0


def test_paths_start_at_the_file_or_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/x")
    for text, found in (
        ("here/s", f"{tmp_path}/here/s"),
        ("~/s", "/home/x/s"),
        ("/s", "/s"),
    ):
        assert settings.read(write(tmp_path, f'state_dir = "{text}"'), TABLE)["state_dir"] == found
    assert checked(state_dir="here")["state_dir"] == "here"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("threads", -1, "at least 0"),
        ("threads", 65, "at most 64"),
        ("threads", 1.0, "whole number"),
        ("threads", True, "a number"),
        ("threads", "1", "a number"),
        ("cache.limit_bytes", 2**63, "at most 9.2"),
        ("cache.limit_bytes", -(2**63), "at least -9.2"),
        ("wait_s", float("nan"), "finite"),
        ("wait_s", float("inf"), "finite"),
        ("wait_s", 10**400, "at most"),
        ("share", 1.01, "at most 1"),
        ("cache.on", 1, "true or false"),
        ("name", 5, "a text of at most 4096"),
        ("name", "x" * 4097, "a text of at most 4096"),
        ("name", "a\nb", "cannot be printed"),
        ("name", "a\0b", "cannot be printed"),
        ("level", "half", "one of full, none"),
        ("level", "", "one of full, none"),
        ("levels", "full", "a list"),
        ("levels", ["full", 1], "a text"),
        ("levels", ["half"], "one of full, none"),
        ("levels", ["full"] * 257, "at most 256"),
        ("state_dir", 5, "a text"),
        ("name", {"deep": 1}, "a text"),
    ],
)
def test_a_wrong_value_is_refused_with_name_value_and_reason(
    name: str, value: object, reason: str
) -> None:
    with pytest.raises(SettingsError, match=re.escape(reason)) as caught:
        checked(**{name: value})
    assert code(caught) == "setting_invalid"
    assert name in caught.value.what
    assert "the test" in caught.value.what
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("given", [{}, {"state_dir": ""}])
def test_what_has_no_default_must_be_given(given: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="state_dir") as caught:
        settings.check(given, TABLE, "the test")
    assert code(caught) == "setting_missing"


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"thread": 1}, "thread"),
        ({"limit_bytes": 1}, "limit_bytes"),
        ({"cache": {"of": True}}, "cache.of"),
        ({"other": {"threads": 1}}, "other"),
        ({"threads": {}, "cache": {"on": True}, "x" * 5000: 1}, "x" * 60),
    ],
)
def test_an_unknown_name_is_refused(document: dict[str, Any], name: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(repr(name))) as caught:
        settings.check({"state_dir": "/s", **document}, TABLE, "the test")
    assert code(caught) == "setting_unknown"
    assert len(str(caught.value)) < 400


def test_a_misspelled_name_is_recognized() -> None:
    with pytest.raises(SettingsError) as caught:
        settings.find(TABLE, "tread", "the test")
    assert "Is threads meant?" in caught.value.next_step
    assert settings.find(TABLE, "threads", "the test") is TABLE[4]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"threads = ", "Invalid value"),
        (b"name = '\xff'", "not UTF-8"),
        (b"#" * (settings.MAX_FILE_BYTES + 1), "larger than 65536 bytes"),
        (b"x = " + b"[" * 30_000, "recursion"),
        (b"x = " + b"1" * 5000, "digits"),
    ],
)
def test_unreadable_files(tmp_path: Path, content: bytes, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason) as caught:
        settings.read(write(tmp_path, content), TABLE)
    assert code(caught) == "settings_unreadable"
    assert "program.toml" in caught.value.what


def test_deeply_nested_names_are_refused_without_following_them(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        settings.read(write(tmp_path, b"cache" + b".a" * 2_000 + b" = 1"), TABLE)
    assert code(caught) == "setting_unknown"


def test_missing_files(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(SettingsError) as caught:
            settings.read(path, TABLE)
        assert code(caught) == "settings_unreadable"


def test_a_written_file_reads_as_it_was_written(tmp_path: Path) -> None:
    given = {"state_dir": 'a "quoted" \\ place é', "levels": ("none",), "wait_s": 1e300 / 1e292}
    text = settings.template(TABLE, given, "A program's settings.\nTwo lines.")
    assert text.startswith("# A program's settings.\n# Two lines.\n\n# Where it lies.")
    values = settings.read(write(tmp_path, text), TABLE)
    assert values["state_dir"] == str(tmp_path / str(given["state_dir"]))
    assert (values["levels"], values["wait_s"]) == (("none",), 1e8)
    assert "# Walls. Takes one of full, none.\n" in text
    assert "# Patience. Takes number, at least 0 (s).\n" in text
    assert all(len(line) <= 100 for line in text.splitlines())
    uncommented = "\n".join(
        line.removeprefix("# ") for line in text.splitlines() if re.match(r"(# )?[\w.]+ = ", line)
    )
    found = settings.check(tomllib.loads(uncommented), TABLE, "the test")
    assert found["cache.limit_bytes"] == 5


def test_a_file_with_wrong_values_is_not_written() -> None:
    for given in ({}, {"state_dir": "/s", "thread": 1}, {"state_dir": "/s", "threads": -1}):
        with pytest.raises(SettingsError):
            settings.template(TABLE, given, "Heading.")


def test_the_rows_of_the_docs() -> None:
    rows = {row[0]: row[1:] for row in settings.rows(TABLE)}
    assert rows["state_dir"] == ("path", "required", "", "Where it lies.")
    assert rows["level"][:2] == ("one of full, none", '"full"')
    assert rows["levels"][:2] == ("list of texts out of full, none", '["full"]')
    assert rows["threads"] == ("whole number, 0 to 64", "0", "threads", "Threads.")
    assert rows["wait_s"][0] == "number, at least 0"
    assert rows["share"][0] == "number, at most 1"
    assert rows["cache.on"] == ("true or false", "true", "", "Keep. May change while it runs.")


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ([Setting("a", "int", 1, "", "A."), Setting("a", "int", 1, "", "A.")], "twice"),
        ([Setting("a", "int", 1, "", "A."), Setting("a.b", "int", 1, "", "A.")], "a table, too"),
        ([Setting("a", "int", 1, "", "A.", 2)], "at least 2"),
        ([Setting("a", "float", 1, "", "A.", 2)], "at least 2"),
        ([Setting("a", "text", "", "", "A.", choices=("x",))], "one of x"),
        ([Setting("a", "number", 1, "", "A.")], "unknown kind"),  # type: ignore[arg-type]
        ([Setting("a", "texts", ["x"], "", "A.")], "not of its kind"),  # type: ignore[arg-type]
    ],
)
def test_a_table_is_proven_when_it_is_declared(table: list[Setting], problem: str) -> None:
    with pytest.raises(LookupError, match=problem):
        declare(*table)
