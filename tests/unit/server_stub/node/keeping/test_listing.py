"""The list of a backup: whole or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpugoblin.errors import NodeError
from server_stub.node.keeping.listing import LIST_NAME, MAX_LINE_BYTES, File, Heading, read, write

__all__: list[str] = []

HEADING = Heading(1, "1.0", "4", 1.5, "/srv/node", "lab_a", ("00" * 32,))
FILES = [File("node.sqlite", 7, "ab" * 32), File("blobs/ab/" + "ab" * 32, 0, "cd" * 32)]


def listed(*files: File, heading: Heading = HEADING) -> bytes:
    return write(heading, list(files))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    (tmp_path / LIST_NAME).write_bytes(listed(*FILES))
    assert read(tmp_path) == (HEADING, FILES)


@pytest.mark.parametrize("path", ["/etc/passwd", "../node.key", "a/../../b", "a\0b", ""])
def test_no_path_leads_out_of_the_backup(tmp_path: Path, path: str) -> None:
    (tmp_path / LIST_NAME).write_bytes(listed(File(path, 1, "ab" * 32)))
    refused(tmp_path, "its list names")


def test_a_list_that_was_cut_or_changed_is_refused(tmp_path: Path) -> None:
    place = tmp_path / LIST_NAME
    refused(tmp_path, LIST_NAME)
    whole = listed(*FILES)
    place.write_bytes(whole[: whole.rindex(b'{"files"')])
    refused(tmp_path, "no end")
    place.write_bytes(whole[:-30])
    refused(tmp_path, "cannot be read")
    place.write_bytes(whole.replace(b'"files":2', b'"files":3'))
    refused(tmp_path, "does not fit its end")
    place.write_bytes(whole + whole)
    refused(tmp_path, "does not fit its end")
    place.write_bytes(b"x" * (MAX_LINE_BYTES + 1))
    refused(tmp_path, "too long")
    place.write_bytes(b"")
    refused(tmp_path, "cannot be read")
    place.write_bytes(whole.replace(b'"format":1', b'"format":9'))
    refused(tmp_path, "format 9")


def refused(root: Path, reason: str) -> None:
    with pytest.raises(NodeError) as caught:
        read(root)
    assert caught.value.code == "backup_incomplete"
    assert reason in str(caught.value)
