"""Debian's Chromium for tests of pages, and a reader in front of it.

Owns: `Reader`, which keeps what the browser complains about, and the judgement of axe-core. Tests
that import this module are skipped where browser or driver is missing.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

__all__ = ["Reader", "serious_faults", "the_chromium"]

playwright = pytest.importorskip("playwright.sync_api", reason="the extra `browser` is missing")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="as above")
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("Debian's package chromium is missing", allow_module_level=True)


def the_chromium() -> Iterator[Any]:
    """A running browser; for a fixture of a module."""
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield browser
        browser.close()


class Reader:
    """Somebody with a browser; keeps what the browser complains about.

    Args:
        base: the address of the server.
        options: of the browser's context: colours, the size of the screen, whether scripts run.
    """

    def __init__(self, chromium: Any, base: str, **options: Any) -> None:
        self.context = chromium.new_context(ignore_https_errors=True, **options)
        self.page = self.context.new_page()
        self.base = base
        self.complaints: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _heard(self, message: Any) -> None:
        # A refused form answers with 4xx on purpose, and Chromium says so.
        if "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def open(self, path: str) -> int:
        """Opens a page that must be there; the bytes of it and of all that it needs."""
        reply = self.page.goto(self.base + path)
        assert reply.status == 200, path
        return sum(
            entry["size"]
            for entry in self.page.evaluate(
                "() => performance.getEntriesByType('resource')"
                ".concat(performance.getEntriesByType('navigation'))"
                ".map(one => ({size: one.decodedBodySize}))"
            )
        )

    def is_inside(self, width: int) -> bool:
        """Whether nothing of the page is wider than the screen."""
        found: int = self.page.evaluate("() => document.documentElement.scrollWidth")
        return found <= width

    def close(self) -> None:
        """Ends the visit. The browser must have had nothing to complain of."""
        self.context.close()
        assert self.complaints == [], self.complaints


def serious_faults(reader: Reader) -> list[tuple[str, str]]:
    """What axe-core finds serious or critical on the page that is open."""
    found = axe.Axe().run(reader.page)
    return [
        (one["id"], one["nodes"][0]["html"])
        for one in found.response["violations"]
        if one["impact"] in ("serious", "critical")
    ]
