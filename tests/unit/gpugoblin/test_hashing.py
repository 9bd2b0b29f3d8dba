"""One hash, kept apart by domain."""

from __future__ import annotations

from gpugoblin import hashing


def test_known_digest_of_each_domain() -> None:
    # Fixed on the day of the first release format: a change breaks every stored name.
    assert {
        domain: hashing.digest(domain, b"goblin")[:16]
        for domain in (hashing.CHUNK, hashing.BLOB, hashing.GRAPH)
    } == {
        hashing.CHUNK: "8e8b6deab14bffb2",
        hashing.BLOB: "5e6e3dc743c11f35",
        hashing.GRAPH: "3b4c497961d5b9e0",
    }


def test_parts_equal_the_whole() -> None:
    whole = hashing.digest(hashing.CHUNK, b"abcdef")
    assert hashing.digest(hashing.CHUNK, [b"abc", b"", b"def"]) == whole
    hasher = hashing.Hasher(hashing.CHUNK)
    hasher.update(memoryview(b"abc"))
    hasher.update(bytearray(b"def"))
    assert hasher.hexdigest() == whole


def test_domains_do_not_share_names() -> None:
    domains = (
        hashing.CHUNK,
        hashing.BLOB,
        hashing.GRAPH,
        hashing.CATALOG,
        hashing.JOB,
        hashing.REQUEST,
    )
    assert len({hashing.digest(domain, b"x") for domain in domains}) == len(domains)


def test_a_raw_digest_is_the_digest() -> None:
    for data in (b"", b"x", memoryview(b"y" * 5000)):
        assert hashing.raw_digest(hashing.JOB, data).hex() == hashing.digest(hashing.JOB, data)
