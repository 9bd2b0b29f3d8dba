"""Two columns of words."""

from __future__ import annotations

from gpugoblin.shown.tables import html_table, plain, rich_table


def test_plain_text_has_no_codes_and_no_markup_is_read() -> None:
    text = plain(rich_table("a title", [("[b]one", "two"), ("three", "[/]")]))
    assert "\x1b" not in text
    assert "[b]one" in text
    assert "[/]" in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_html_is_escaped() -> None:
    html = html_table("<a>", [("<b>", "<c> & d")])
    assert html.count("<table>") == 1
    assert "&lt;c&gt; &amp; d" in html
    assert "<b>" not in html
