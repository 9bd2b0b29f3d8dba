"""How a secret may be written down: every form that the search looks for.

Owns: the forms of bytes, texts, numbers and shapes. A form is never found by chance: it has at
least 40 bits that the test drew at random, or it is bounded (see `Form.bounded`).

On numbers. A lone dimension is looked for in decimal (bounded) and, from 2^20 on, as 8-byte integer
and as float64 of both byte orders; a smaller one in eight bytes is six zeros and two bytes, which a
database page holds by itself. As a 4-byte integer it is looked for only beside its neighbor in the
shape: alone it is 32 bits, which a few megabytes of keys, nonces and signatures hit by chance once
in some hundred runs, and a test that cries wolf is switched off. Where a source has a structure
(JSON, rows of a database), its numbers are compared as numbers besides, whatever their width.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

__all__ = [
    "Form",
    "bytes_forms",
    "float_forms",
    "number_forms",
    "shape_forms",
    "size_forms",
    "text_forms",
]

LEAST_BYTES: Final = 4
LARGE: Final = 1 << 20
LEAST_NEIGHBOR: Final = 1000
PART_BYTES: Final = 8
"""Of a long secret the first and the last 8 bytes are looked for, so that a cut one is found."""

Codec = Literal["b64", "b64url", "b32"]


@dataclass(frozen=True, slots=True)
class Form:
    """One spelling.

    Args:
        label: for people.
        data: what is looked for.
        bounded: width in bytes of a character if this is a decimal number, which counts only where
            no digit stands beside it, nor a decimal point before it (`100070` and `0.10007` are not
            10007), and, if it is weak, no letter of a hexadecimal number. 0: counts everywhere.
        is_strong: cannot be in any amount of other data by chance; only these are looked for in
            the memory of a process, where small integers of every kind lie about.
    """

    label: str
    data: bytes
    bounded: int = 0
    is_strong: bool = True


def bytes_forms(secret: bytes, word_bytes: int = 0) -> Iterator[Form]:
    """Forms of at least 8 random bytes: raw, reversed, hexadecimal, base64, base32, decimal.

    Args:
        word_bytes: also with the bytes of each such word reversed (the other byte order).
    """
    orders = {"": secret, "reversed ": secret[::-1]}
    if word_bytes:
        words = [secret[i : i + word_bytes] for i in range(0, len(secret), word_bytes)]
        orders["swapped "] = b"".join(word[::-1] for word in words)
    for order, data in orders.items():
        for name, part in _parts(data):
            yield Form(f"{order}raw, {name}", part)
            digits = part.hex()
            yield from _spellings(f"{order}hex, {name}", digits)
            yield Form(f"{order}HEX, {name}", digits.upper().encode())
            for codec in ("b64", "b64url", "b32"):
                yield from _aligned(f"{order}{codec}, {name}", part, codec)
    for order in ("little", "big"):
        yield from _spellings(f"decimal, {order}", str(int.from_bytes(secret, order)))  # type: ignore[arg-type]


def text_forms(secret: str) -> Iterator[Form]:
    """Forms of a random name: as it is, upper case, UTF-16, hexadecimal, base64, base32."""
    yield from _spellings("text", secret)
    yield Form("upper case", secret.upper().encode())
    yield Form("hex of the text", secret.encode().hex().encode())


def number_forms(number: int) -> Iterator[Form]:
    """Forms of one number of at least five digits; see the note at the top of this module."""
    text = str(number)
    strong = number >= LARGE
    yield Form("decimal", text.encode(), 1, strong)
    yield Form("decimal, UTF-16", text.encode("utf-16-le"), 2, strong)
    yield Form("decimal, UTF-16 big", text.encode("utf-16-be"), 2, strong)
    for mark in (",", "_", " ", "."):
        yield Form("decimal, grouped", f"{number:,}".replace(",", mark).encode(), 1, False)
    yield Form("0x", f"{number:#x}".encode(), 0, strong)
    for codec in ("b64", "b64url"):
        for form in _aligned(f"{codec} of decimal", text.encode(), codec):
            yield Form(form.label, form.data, 0, strong)
    if number < LARGE:
        return
    for order in ("<", ">"):
        yield Form(f"int64 {order}", struct.pack(f"{order}q", number), 0, False)
        yield Form(f"float64 {order}", struct.pack(f"{order}d", float(number)), 0, False)


def size_forms(number: int, units: Sequence[float]) -> Iterator[Form]:
    """Forms of a count of operations or bytes, also as so many of each of `units`."""
    yield from number_forms(number)
    digits = str(number).rstrip("0")
    yield Form("digits with a point", f"{digits[0]}.{digits[1:]}".encode(), 1)
    for unit in units:
        yield Form(f"in units of {unit:g}", f"{number / unit:.18f}".rstrip("0").encode(), 1)


def shape_forms(shape: Sequence[int]) -> Iterator[Form]:
    """Forms of neighbors in a shape, as integers that lie side by side, if both are large."""
    for pair in pairwise(shape):
        if min(pair) < LEAST_NEIGHBOR:
            continue
        for numbers in (pair, pair[::-1]):
            for order in ("<", ">"):
                for kind in ("i", "q"):
                    data = struct.pack(f"{order}2{kind}", *numbers)
                    yield Form(f"neighbors {order}2{kind}", data)


def float_forms(number: float) -> Iterator[Form]:
    """Forms of one random float32 as numbers are printed and stored in double precision."""
    single = struct.unpack("<f", struct.pack("<f", number))[0]
    for text in {repr(single), f"{single:.8g}"}:
        yield Form("float as text", text.lstrip("-").encode(), 1)
    for order in ("<", ">"):
        # Half of it is zeros, since a float32 has 24 bits: weak.
        yield Form(f"float64 {order}", struct.pack(f"{order}d", single), 0, False)


def _parts(data: bytes) -> Iterator[tuple[str, bytes]]:
    yield "start", data[:PART_BYTES]
    if len(data) > PART_BYTES:
        yield "end", data[-PART_BYTES:]


def _spellings(label: str, text: str) -> Iterator[Form]:
    """A text that is long and random enough to be looked for anywhere."""
    data = text.encode()
    yield Form(label, data)
    yield Form(f"{label}, UTF-16", text.encode("utf-16-le"))
    yield Form(f"{label}, UTF-16 big", text.encode("utf-16-be"))
    for codec in ("b64", "b64url", "b32"):
        yield from _aligned(f"{codec} of {label}", data, codec)


def _aligned(label: str, data: bytes, codec: Codec) -> Iterator[Form]:
    """`data` inside something longer that was encoded: once for every place in a group."""
    group, bits = (5, 5) if codec == "b32" else (3, 6)
    for offset in range(group):
        padded = bytes(offset) + data
        padded += bytes(-len(padded) % group)
        if codec == "b32":
            encoded = base64.b32encode(padded)
        else:
            encoded = base64.b64encode(padded, b"-_" if codec == "b64url" else b"+/")
        # Characters that hold bits of the padding as well are left out.
        start = -(-8 * offset // bits)
        inner = encoded[start : 8 * (offset + len(data)) // bits]
        yield Form(f"{label}, place {offset}", inner)
        if codec == "b32":
            yield Form(f"{label}, place {offset}, lower case", inner.lower())
