"""The log as JSON: what a line says, and what it does not."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import Any

from gpugoblin.errors import NodeError
from server_stub.logs import JsonFormatter

__all__: list[str] = []


def line(message: str, *words: object, error: BaseException | None = None) -> dict[str, Any]:
    info = (type(error), error, error.__traceback__) if error is not None else None
    record = logging.LogRecord("gpugoblin.node", logging.ERROR, "f", 1, message, words, info)
    record.created = 1.25
    made: dict[str, Any] = json.loads(JsonFormatter().format(record))
    return made


def test_a_line_has_moment_level_part_and_words() -> None:
    assert line("of %s\n%d", "ä", 3) == {
        "time": "1970-01-01T00:00:01.250Z", "level": "error", "logger": "gpugoblin.node",
        "message": "of ä\n3",
    }  # fmt: skip


def test_an_error_has_its_code_and_a_surprise_its_trace() -> None:
    assert line("%s", NodeError("grant_missing"))["code"] == "grant_missing"
    try:
        secret = [41.5]
        raise ValueError(len(secret))
    except ValueError as error:
        said = line("it failed", error=error)
    assert "ValueError: 1" in said["trace"]
    assert "41.5" not in json.dumps({**said, "trace": said["trace"].replace("[41.5]", "")})
    assert "code" not in said


def test_a_process_writes_one_object_a_line_or_words() -> None:
    program = (
        "import logging, sys; from server_stub.logs import configure; configure(sys.argv[1]);"
        "logging.getLogger('a').info('two\\nlines'); logging.getLogger('a').debug('no')"
    )
    said = {
        form: subprocess.run(
            [sys.executable, "-c", program, form], capture_output=True, text=True, check=True
        ).stderr
        for form in ("json", "text")
    }
    assert json.loads(said["json"])["message"] == "two\nlines"
    assert said["json"].count("\n") == 1
    assert said["text"].endswith("INFO two\nlines\n")
