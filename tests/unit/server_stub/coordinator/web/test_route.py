"""Every page has an address of its own."""

from __future__ import annotations

from server_stub.coordinator.web.site import PAGES


def test_addresses_are_unique_and_lower_case() -> None:
    paths = [page.path for page in PAGES]
    assert len(set(paths)) == len(paths)
    assert all(path == path.lower() and path.startswith("/") for path in paths)


def test_operators_pages_lie_below_one_address() -> None:
    for page in PAGES:
        assert page.path.startswith("/operator") == (page.who == "operator"), page.path
