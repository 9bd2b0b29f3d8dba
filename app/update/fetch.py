"""Fetching for the update check: https only, no redirects, bounded in time.

Owns: one HTTP question. Sizes are bounded by python-tuf, which counts what comes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import requests
from tuf.api.exceptions import DownloadError, DownloadHTTPError, SlowRetrievalError
from tuf.ngclient.fetcher import FetcherInterface

from gpugoblin import __version__

__all__ = ["Fetcher"]

CHUNK_BYTES: Final = 16 * 1024
SILENCE_S: Final = 10.0


class Fetcher(FetcherInterface):
    """Asks one repository; all questions together have `limit_s` seconds."""

    def __init__(self, limit_s: float) -> None:
        self._ends_s = time.monotonic() + limit_s
        self._session = requests.Session()
        self._session.headers["User-Agent"] = f"gpugoblin/{__version__}"
        self._answer: requests.Response | None = None

    def close(self) -> None:
        """Hangs up, in the middle of an answer too."""
        if self._answer is not None:
            self._answer.close()
        self._session.close()

    def _fetch(self, url: str) -> Iterator[bytes]:
        answer = self._session.get(
            url, stream=True, allow_redirects=False, timeout=SILENCE_S, headers={"Accept": "*/*"}
        )
        self._answer = answer
        if answer.status_code != requests.codes.ok:
            answer.close()
            raise DownloadHTTPError(f"status {answer.status_code}", answer.status_code)
        return self._pieces(answer)

    def _pieces(self, answer: requests.Response) -> Iterator[bytes]:
        try:
            for piece in answer.iter_content(CHUNK_BYTES):
                if time.monotonic() > self._ends_s:
                    raise SlowRetrievalError("the time for all of it is over")
                yield piece
        except requests.RequestException as cause:
            raise DownloadError(str(cause)) from cause
        finally:
            answer.close()
