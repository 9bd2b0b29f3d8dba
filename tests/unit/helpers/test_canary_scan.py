"""The search finds every form, at every place, and nothing else."""

from __future__ import annotations

import base64
import random
import struct

import pytest

from tests.helpers.canary_forms import (
    Form,
    bytes_forms,
    float_forms,
    number_forms,
    shape_forms,
    size_forms,
    text_forms,
)
from tests.helpers.canary_scan import Canary, Search

RNG = random.Random(11)
HASH = RNG.randbytes(32)
PATTERN = RNG.randbytes(16)
NAME = "qzkvwyhjmxgtrpns"
NUMBER = 1_299_709


def canaries() -> list[Canary]:
    return [
        Canary("hash", "hash", tuple(bytes_forms(HASH))),
        Canary("pattern", "pattern", tuple(bytes_forms(PATTERN, 4))),
        Canary("name", "name", tuple(text_forms(NAME))),
        Canary("dimension", "dimension", tuple(number_forms(NUMBER))),
        Canary("dimension", "shape", tuple(shape_forms((10_007, 30_011)))),
        Canary("number", "float", tuple(float_forms(1.7213123))),
        Canary("size", "flops", tuple(size_forms(2_081_456, (1e12, 1e10)))),
    ]


SEARCH = Search(canaries())


def found(data: bytes) -> set[str]:
    """What is found in random letters with `data` in the middle."""
    around = bytes(RNG.choices(b"ghijklmnopqrstuvwxyz", k=300))
    hits = list(SEARCH.find("here", around[:137] + data + around[137:]))
    for hit in hits:
        assert data[:8] in hit.context + data
        assert hit.canary.what in str(hit)
    return {hit.canary.what for hit in hits}


@pytest.mark.parametrize("canary", canaries(), ids=lambda canary: canary.what)
def test_each_form_is_found_wherever_it_stands(canary: Canary) -> None:
    for form in canary.forms:
        for shift in range(8):
            hits = {hit.form for hit in SEARCH.find("here", b"?" * shift + form.data + b"?" * 9)}
            assert form.label in hits, form


@pytest.mark.parametrize("before", [b"", b"x", b"xy", b"xyz", b"wxyz"])
@pytest.mark.parametrize(
    ("secret", "what"),
    [(HASH, "hash"), (PATTERN, "pattern"), (NAME.encode(), "name"), (b"1299709", "dimension"),
     (HASH.hex().encode(), "hash")],
    ids=["hash", "pattern", "name", "dimension", "digits of the hash"],
)  # fmt: skip
def test_inside_something_longer_that_was_encoded(before: bytes, secret: bytes, what: str) -> None:
    inner = before + secret + b'" and more'
    assert what in found(base64.b64encode(inner))
    assert what in found(base64.urlsafe_b64encode(inner))
    if what != "dimension":
        assert what in found(base64.b32encode(inner))
        assert what in found(base64.b32encode(inner).lower())


def test_orders_and_spellings() -> None:
    assert "hash" in found(HASH[::-1])
    assert "hash" in found(HASH.hex().upper().encode())
    assert "hash" in found(HASH[::-1].hex().encode())
    assert "hash" in found(str(int.from_bytes(HASH, "big")).encode())
    assert "hash" in found(str(int.from_bytes(HASH, "little")).encode())
    assert "hash" in found(HASH.hex().encode("utf-16-le"))
    assert "hash" in found(HASH[:8]), "a shortened hash is a hash"
    assert "hash" in found(HASH.hex()[-16:].encode())
    assert "pattern" in found(struct.pack(">4I", *struct.unpack("<4I", PATTERN)))
    assert "name" in found(NAME.upper().encode())
    assert "name" in found(NAME.encode("utf-16-be"))
    assert "shape" in found(struct.pack("<2i", 10_007, 30_011))
    assert "shape" in found(struct.pack(">2q", 30_011, 10_007))
    assert "dimension" in found(struct.pack("<q", NUMBER))
    assert "dimension" in found(struct.pack(">d", float(NUMBER)))
    assert "float" in found(repr(struct.unpack("<f", struct.pack("<f", 1.7213123))[0]).encode())


@pytest.mark.parametrize(
    "text",
    [b"1299709", b"[1299709,3]", b"f32x1299709x3", b"1299709.0", b"dim=1,299,709;", b"v1299709",
     "(1299709, 3)".encode("utf-16-le"), "(1299709, 3)".encode("utf-16-be")],
)  # fmt: skip
def test_a_number_that_stands_alone(text: bytes) -> None:
    assert "dimension" in found(text)


@pytest.mark.parametrize(
    "text", [b"11299709", b"12997090", b"1796066593.1299709", "91299709".encode("utf-16-le")]
)
def test_a_number_inside_another_one_is_not_that_number(text: bytes) -> None:
    assert "dimension" not in found(text)


def test_short_numbers_do_not_count_inside_hexadecimal_ones() -> None:
    search = Search([Canary("dimension", "10007", tuple(number_forms(10_007)))])
    assert list(search.find("here", b"shape 10007x30011"))
    assert list(search.find("here", b'{"dim":10007}'))
    assert not list(search.find("here", b"c4a10007e1"))


def test_units_of_work_say_how_much() -> None:
    assert "flops" in found(b'"units":2.081456e-6')
    assert "flops" in found(b'"units":0.000002081456,')
    assert "flops" in found(b'"units":0.0002081456,')
    assert "flops" not in found(b'"units":2.08e-6')


def test_random_data_holds_none() -> None:
    noise = RNG.randbytes(4_000_000)
    for text in (noise, noise.hex().encode(), base64.b64encode(noise), bytes(1_000_000)):
        assert [str(hit) for hit in SEARCH.find("noise", text)] == []


def test_only_strong_forms_in_memory() -> None:
    search = Search(canaries(), strong_only=True)
    assert not list(search.find("memory", struct.pack("<q", NUMBER)))
    assert {hit.canary.what for hit in search.find("memory", b"(1299709, 3)")} == {"dimension"}
    assert {hit.canary.what for hit in search.find("memory", HASH)} == {"hash"}


def test_forms_that_are_too_short_are_refused() -> None:
    with pytest.raises(ValueError, match="too short"):
        Search([Canary("dimension", "11", (Form("decimal", b"11", 1),))])


def test_short_and_empty_data() -> None:
    for size in range(5):
        assert not list(SEARCH.find("here", bytes(size)))
