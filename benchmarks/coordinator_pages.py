"""The coordinator's pages in Debian's Chromium: weight, first paint, what the browser and axe say.

Owns: the figures. Which pages there are, and how somebody signs in, is `tests/e2e/test_pages.py`'s.
"""

from __future__ import annotations

import signal
import statistics
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from benchmarks.record import Row, not_run, row
from tests.helpers.coordinator import write_config
from tests.helpers.coordinator_process import Server
from tests.helpers.mailbox import Mailboxes

_BARS: Final = (
    ("pages: heaviest", "KiB", "<= 100 KiB"),
    ("pages: slowest first paint", "ms", "<= 1000 ms"),
    ("pages: complaints of the browser", "complaints", "<= 0 complaints"),
    ("pages: serious findings of axe", "findings", "<= 0 findings"),
)
_PAINT: Final = (
    "() => performance.getEntriesByType('paint')"
    ".filter(one => one.name == 'first-contentful-paint').map(one => one.startTime)"
)


def measure() -> list[Row]:
    try:
        from tests.e2e import test_pages as pages
        from tests.helpers.browser import Reader, serious_faults, the_chromium
    except pytest.skip.Exception as missing:
        return [not_run(what, unit, bar, str(missing)) for what, unit, bar in _BARS]
    paths = pages.OPEN + pages.OWN + pages.STAFF
    bytes_of: dict[str, int] = {}
    paint_ms: dict[str, float] = {}
    complaints: list[str] = []
    serious: list[object] = []
    with Mailboxes() as boxes, tempfile.TemporaryDirectory() as directory:
        server = Server(
            write_config(
                Path(directory), mail_host="127.0.0.1", mail_port=boxes.port, mail_tls="off",
                letters_at_once=50,
            )
        )  # fmt: skip
        server.start()
        with contextmanager(the_chromium)() as chromium:
            for scheme in ("light", "dark"):
                reader = Reader(chromium, server.address, color_scheme=scheme)
                pages.sign_in(reader, pages.BOSS, boxes)
                server.run("operator", "add", pages.BOSS)
                for path in paths:
                    bytes_of[path] = max(bytes_of.get(path, 0), reader.open(path))
                    reader.page.wait_for_function(f"() => ({_PAINT})().length > 0")
                    times = []
                    for _ in range(3):
                        reader.open(path)
                        reader.page.wait_for_function(f"() => ({_PAINT})().length > 0")
                        times += reader.page.evaluate(_PAINT)
                    paint_ms[path] = max(paint_ms.get(path, 0.0), statistics.median(times))
                complaints += reader.complaints
                reader.context.close()
                judge = Reader(chromium, server.address, color_scheme=scheme, bypass_csp=True)
                pages.sign_in(judge, pages.BOSS, boxes)
                for path in paths:
                    judge.open(path)
                    serious += serious_faults(judge)
                judge.context.close()
        server.end(signal.SIGTERM)
    heaviest = max(bytes_of, key=lambda path: bytes_of[path])
    slowest = max(paint_ms, key=lambda path: paint_ms[path])
    (a, b, c, d), count = _BARS, f"{len(paths)} pages, light and dark"
    return [
        row(a[0], round(bytes_of[heaviest] / 1024, 1), a[1], bar=100, better="lower",
            note=f"{heaviest}; with what it loads; {count}"),
        row(b[0], round(paint_ms[slowest]), b[1], bar=1000, better="lower",
            note=f"{slowest}; median of 3; headless Chromium on the server's own cores"),
        row(c[0], len(complaints), c[1], bar=0, better="lower",
            note=f"{count}; what the content policy refuses is one; {complaints[:2]}"[:200]),
        row(d[0], len(serious), d[1], bar=0, better="lower", note=f"{count}; {serious[:1]}"[:200]),
    ]  # fmt: skip
