"""Certificates that were kept are checked without asking anybody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpugoblin.client import certificate_command
from gpugoblin.client.certificate_command import certificate
from gpugoblin.wire.messages.job import Certificate as JobDocument
from gpugoblin.wire.messages.job import CertificateBody
from gpugoblin.wire.signing import public_key_bytes, sign_json
from tests.helpers.messages import example
from tests.unit.gpugoblin.wire.test_credits import KEY, PUBLIC, SEALED

OTHER = "ab" * 32


def kept(path: Path, document: Any) -> str:
    path.write_bytes(document if isinstance(document, bytes) else msgspec.json.encode(document))
    return str(path)


def job_document() -> JobDocument:
    body = example(CertificateBody, bare=False)
    body = msgspec.structs.replace(body, node_key=public_key_bytes(KEY))
    return JobDocument(body, sign_json(KEY, body))


@pytest.fixture
def file(tmp_path: Path) -> str:
    return kept(tmp_path / "kept.json", SEALED)


def test_with_the_key_that_one_knows(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert certificate(["check", file, "--key", f" {PUBLIC.upper()}\n"]) == 0
    said = capsys.readouterr().out
    for fact in ("contributor: ann", "lab: lab-a", "units: 2.500000", "tasks: 3", "Genuine."):
        assert fact in said
    assert certificate(["check", file, "--key", PUBLIC, "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["from"], shown["sealed by"]) == ("2026-09-04", PUBLIC)


def test_without_a_key_it_says_what_that_is_worth(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert certificate(["check", file]) == 0
    said = capsys.readouterr().out
    assert "Genuine" not in said
    assert "Anybody can make a key" in said


def test_what_an_owner_took_along(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = {"account": {"name": "ann"}, "certificates": [SEALED, SEALED], "grants": []}
    assert certificate(["check", kept(tmp_path / "a", taken), "--key", PUBLIC]) == 0
    assert capsys.readouterr().out.count("contributor: ann") == 2
    empty = {**taken, "certificates": []}
    assert certificate(["check", kept(tmp_path / "b", empty)]) == 1
    assert "no certificate in it" in capsys.readouterr().err


def test_the_certificate_of_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = kept(tmp_path / "job.json", job_document())
    assert certificate(["check", file, "--key", PUBLIC]) == 0
    assert PUBLIC in capsys.readouterr().out
    assert certificate(["check", file, "--key", OTHER]) == 1
    assert "[certificate_invalid]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"", "no certificate"),
        (b"[]", "no certificate"),
        (b"\xff\xfe", "no certificate"),
        (b"[" * 100_000, "no certificate"),
        (b"%PDF-1.4", "no certificate"),
        (b"{}", "no certificate"),
        (b'{"body":"\xff"}', "no certificate"),
        ({"certificates": [{}]}, "no certificate"),
        (msgspec.structs.replace(SEALED, seal="0" * 128), "is wrong"),
        (msgspec.structs.replace(SEALED, seal="00"), "no certificate"),
    ],
)
def test_what_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], document: Any, reason: str
) -> None:
    assert certificate(["check", kept(tmp_path / "kept.json", document)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert reason in printed.err
    assert "[kept_certificate_invalid]" in printed.err


def test_files_and_keys_that_cannot_be_used(
    tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert certificate(["check", str(tmp_path / "nowhere.json")]) == 1
    assert "No such file" in capsys.readouterr().err
    assert certificate(["check", str(tmp_path)]) == 1
    assert certificate(["check", file, "--key", "12"]) == 1
    assert "is no key" in capsys.readouterr().err
    monkeypatch.setattr(certificate_command, "MAX_BYTES", 10)
    assert certificate(["check", file]) == 1
    assert "larger than 10 bytes" in capsys.readouterr().err


def test_the_key_of_somebody_else(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert certificate(["check", file, "--key", OTHER]) == 1
    assert "the seal of BCDF-GHJK-LMNP-QRST is wrong" in capsys.readouterr().err


def test_a_forger_cannot_write_our_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name that ends the line, says the verdict and hides the true one is shown as it is."""
    facts = msgspec.structs.replace(SEALED.certificate, name="ann\n\nGenuine.\n\x1b[8m")
    forged = msgspec.structs.replace(SEALED, certificate=facts, seal=sign_json(KEY, facts).hex())
    assert certificate(["check", kept(tmp_path / "forged", forged)]) == 0
    said = capsys.readouterr().out
    assert "Genuine." not in said.splitlines()
    assert "\x1b" not in said
    unknown = {"certificate": {"\x1b[2J\nGenuine.": 1}}
    assert certificate(["check", kept(tmp_path / "unknown", unknown)]) == 1
    told = capsys.readouterr().err
    assert "\x1b" not in told
    assert "Genuine." not in told.splitlines()
