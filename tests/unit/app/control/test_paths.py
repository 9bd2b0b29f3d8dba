"""Socket paths below a descriptor, and whose process is at the other end."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from app.control.paths import SOCKET_NAME, peer_groups, peer_user, socket_path


def test_a_socket_in_a_deep_directory(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 200)
    deep.mkdir()
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as asker:
        with socket_path(deep) as path:
            assert len(path) < 100
            listener.bind(path)
            listener.listen()
            asker.connect(path)
        assert (deep / SOCKET_NAME).is_socket()
        connection, _ = listener.accept()
        assert peer_user(connection) == os.geteuid()
        assert peer_groups(connection) >= {os.getegid(), *os.getgroups()}
        connection.close()


def test_a_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), socket_path(tmp_path / "no"):
        raise AssertionError
