"""The fetcher hangs up, follows nothing, and says what kind of failure it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from tuf.api.exceptions import DownloadError, DownloadHTTPError, SlowRetrievalError

from app.update.fetch import Fetcher
from tests.helpers.updates import served


def test_what_is_there_comes_and_what_is_not_has_a_status(tmp_path: Path) -> None:
    with served(tmp_path) as repository:
        address = (repository.trust / "source.json").read_text().split('"')[3]
        fetcher = Fetcher(20.0)
        found = b"".join(fetcher.fetch(f"{address}/metadata/1.root.json"))
        assert found == (repository.trust / "root.json").read_bytes()
        repository.answer = lambda path: (302, b"")
        with pytest.raises(DownloadHTTPError) as refusal:
            fetcher.fetch(f"{address}/metadata/1.root.json")
        assert refusal.value.status_code == 302
        fetcher.close()


def test_the_time_is_for_all_of_it(tmp_path: Path) -> None:
    with served(tmp_path) as repository:
        address = (repository.trust / "source.json").read_text().split('"')[3]
        fetcher = Fetcher(-1.0)
        with pytest.raises(SlowRetrievalError):
            list(fetcher.fetch(f"{address}/metadata/1.root.json"))
        fetcher.close()


def test_nobody_there_is_a_failure_of_the_download() -> None:
    fetcher = Fetcher(20.0)
    with pytest.raises(DownloadError):
        fetcher.fetch("http://127.0.0.1:1/metadata/1.root.json")
    fetcher.close()
