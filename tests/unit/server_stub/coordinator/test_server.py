"""The server's socket and certificate; its whole life is in `tests/e2e/test_coordinator.py`."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import uvicorn

from gpugoblin.errors import CoordinatorError, WireError
from gpugoblin.wire.tls import TlsFiles, make_self_signed
from server_stub.coordinator import server
from tests.helpers.coordinator import settings


def test_the_address_is_the_one_that_was_bound() -> None:
    with contextlib.closing(server._listen(settings(port=0))) as listener:
        port = listener.getsockname()[1]
        assert server._address(listener, with_tls=True) == f"https://127.0.0.1:{port}"
        assert server._address(listener, with_tls=False) == f"http://127.0.0.1:{port}"
        with pytest.raises(CoordinatorError) as caught:
            server._listen(settings(port=port))
    assert caught.value.code == "coordinator_port_in_use"
    assert caught.value.fields["port"] == port


def test_an_address_that_is_not_ours() -> None:
    with pytest.raises(CoordinatorError) as caught:
        server._listen(settings(host="192.0.2.1", port=0))
    assert caught.value.code == "coordinator_port_in_use"


def test_a_key_that_does_not_fit_its_certificate(tmp_path: Path) -> None:
    first = make_self_signed(tmp_path / "a", ["localhost"])
    second = make_self_signed(tmp_path / "b", ["localhost"])
    mixed = TlsFiles(first.certificate, second.key, first.sha256)
    config = uvicorn.Config(
        "none:app", log_config=None, ssl_certfile=mixed.certificate, ssl_keyfile=mixed.key
    )
    with pytest.raises(WireError) as caught:
        server._load_tls(config, mixed)
    assert caught.value.code == "certificate_unreadable"
