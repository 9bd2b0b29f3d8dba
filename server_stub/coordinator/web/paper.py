"""A certificate of credits as a page of paper (PDF).

Owns: how it looks, and which letters this machine can draw. The same facts give the same bytes,
with the same fonts and the same version of the library. Must not: decide what is certified.

The library brings letters for the languages of Western Europe alone. Others come by the operating
system's packages (docs/decisions/018); without them the paper is in English, and the page says so.
"""

from __future__ import annotations

import functools
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from babel.dates import format_date
from babel.numbers import format_decimal

from gpugoblin.wire.credits import Certificate
from server_stub.coordinator.web.languages import DEFAULT, translations

if TYPE_CHECKING:
    from fpdf import FPDF

__all__ = ["FONTS", "draw", "font_of"]

_BUILT_IN: Final = "Helvetica"

FONTS: Final[dict[str, tuple[Path, ...]]] = {
    "en": (),
    "fr": (),
    "ja": tuple(
        Path("/usr/share/fonts") / place
        for place in (
            "opentype/ipafont-gothic/ipagp.ttf",
            "opentype/ipaexfont-gothic/ipaexg.ttf",
            "truetype/fonts-japanese-gothic.ttf",
        )
    ),
    "ru": (Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"),),
}
"""Where Debian's fonts-ipafont-gothic, fonts-ipaexfont-gothic and fonts-dejavu-core put them; none
where the library's own letters are enough."""

_LEAF: Final = (31, 107, 59)
_QUIET: Final = (86, 96, 90)
_INK: Final = (29, 35, 32)
_MARGIN_MM: Final = 25.0


def font_of(language: str) -> str | None:
    """The file of a font with the letters of a language, "" for the library's own; None without."""
    places = FONTS.get(language)
    if places is None:
        return None
    if not places:
        return ""
    return next((str(place) for place in places if place.is_file()), None)


def draw(one: Certificate, seal: str, address: str, language: str) -> bytes:
    """The PDF, in that language where there are letters for it, else in English.

    Args:
        seal: the coordinator's signature, in hexadecimal digits.
        address: where the coordinator's pages are, or "".
    """
    font = font_of(language)
    if font is None:
        language, font = DEFAULT, ""
    _ = translations(language).gettext
    pdf = _paper(font or "", datetime.fromtimestamp(one.issued_day * 86_400, tz=UTC))
    pdf.set_title(_("Certificate of credits"))
    pdf.set_lang(language)
    day = functools.partial(_day, language)
    pdf.set_text_color(*_LEAF)
    _centred(pdf, "gpugoblin", 13, 6)
    _centred(pdf, _("Certificate of credits"), 26, 14)
    pdf.ln(4)
    pdf.set_draw_color(*_LEAF)
    pdf.line(80, pdf.get_y(), 130, pdf.get_y())
    pdf.ln(12)
    pdf.set_text_color(*_INK)
    _centred(pdf, one.name, 20, 12)
    _centred(pdf, _("lent computing power to research."), 12, 8)
    pdf.ln(10)
    for title, fact in (
        (_("Lab"), one.lab),
        (_("From"), day(one.since_day)),
        (_("To"), day(one.until_day)),
        (_("Verified work"), _("{units} units").format(units=_number(language, one.units))),
        (_("Tasks"), _number(language, one.receipts)),
        (_("Issued"), day(one.issued_day)),
    ):
        _fact(pdf, title, fact)
    pdf.ln(8)
    pdf.set_text_color(*_QUIET)
    _paragraph(pdf, _(
        "A unit is work that the lab itself verified, never time that somebody claims. "
        "Credits have no monetary value."
    ))  # fmt: skip
    pdf.set_y(-85)
    pdf.set_text_color(*_INK)
    _fact(pdf, _("Code"), one.code)
    if address:
        link = f"{address.rstrip('/')}/certificate?code={one.code}"
        _paragraph(pdf, _("Anyone can check this code at:"))
        _paragraph(pdf, link, link=link)
    pdf.ln(3)
    pdf.set_text_color(*_QUIET)
    _paragraph(pdf, f"{_('Seal')}:")
    _paragraph(pdf, f"{seal[:64]}\n{seal[64:]}", size=8)
    return bytes(pdf.output())


def _paper(font: str, issued: datetime) -> FPDF:
    # Only where one is drawn: it brings libraries of pictures, and numpy, where that is installed.
    from fpdf import FPDF

    pdf = FPDF(format="A4")
    pdf.set_creation_date(issued)
    pdf.set_producer("gpugoblin")
    pdf.set_auto_page_break(False)
    pdf.set_margin(_MARGIN_MM)
    if font:
        pdf.add_font("paper", fname=font)
        pdf.set_font("paper")
    else:
        pdf.set_font(_BUILT_IN)
    pdf.add_page()
    pdf.set_draw_color(*_LEAF)
    pdf.set_line_width(0.8)
    pdf.rect(12, 12, pdf.w - 24, pdf.h - 24)
    pdf.set_line_width(0.3)
    pdf.set_y(38)
    return pdf


def _centred(pdf: FPDF, text: str, size: float, height: float) -> None:
    """As large as `size`, or as fits between the margins."""
    pdf.set_font_size(size)
    room = pdf.epw - 2 * pdf.c_margin
    pdf.set_font_size(size * min(1.0, room / max(room, pdf.get_string_width(text))))
    pdf.cell(0, height, text, align="C", new_x="LMARGIN", new_y="NEXT")


def _fact(pdf: FPDF, title: str, fact: str) -> None:
    pdf.set_font_size(11)
    pdf.set_text_color(*_QUIET)
    pdf.cell(55, 8, title)
    pdf.set_text_color(*_INK)
    pdf.multi_cell(0, 8, fact, align="L", new_x="LMARGIN", new_y="NEXT")


def _paragraph(pdf: FPDF, text: str, *, size: float = 10, link: str = "") -> None:
    pdf.set_font_size(size)
    pdf.multi_cell(0, size * 0.55, text, align="L", link=link, new_x="LMARGIN", new_y="NEXT")


def _day(language: str, day: int) -> str:
    moment = datetime.fromtimestamp(day * 86_400, tz=UTC)
    return format_date(moment.date(), "long", locale=language)


def _number(language: str, value: float) -> str:
    """With a space that the library's own letters have."""
    shown: str = format_decimal(value, format="#,##0.###", locale=language)
    return shown.replace("\u202f", "\u00a0")
