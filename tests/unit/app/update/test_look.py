"""What a repository, or somebody in between, may do to the update check, and what comes of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.update import look as module
from app.update.announcement import Announcement
from app.update.look import look
from app.update.trust import Trust, read_trust
from gpugoblin.errors import AgentError
from tests.helpers.updates import Served, served


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as made:
        made.repository.announce("1.2.0", "https://example.org/1.2.0")
        yield made


def trust_of(repository: Served) -> Trust:
    trust = read_trust(repository.trust)
    assert trust is not None
    return trust


def looked(repository: Served, tmp_path: Path, limit_s: float = 20.0) -> Announcement:
    return look(tmp_path / "state", trust_of(repository), limit_s)


def refusal(repository: Served, tmp_path: Path, limit_s: float = 20.0) -> str:
    with pytest.raises(AgentError) as error:
        looked(repository, tmp_path, limit_s)
    return error.value.code


def keep(repository: Served, tmp_path: Path) -> Path:
    """A copy of what is served now."""
    return Path(shutil.copytree(repository.folder, tmp_path / "kept"))


def put_back(repository: Served, kept: Path, *names: str) -> None:
    for name in names:
        shutil.copy(kept / "metadata" / name, repository.folder / "metadata" / name)


def test_what_is_announced_is_found_and_what_is_new_is_found_next(
    repository: Served, tmp_path: Path
) -> None:
    assert looked(repository, tmp_path) == Announcement("1.2.0", "https://example.org/1.2.0")
    repository.repository.announce("1.3.0")
    assert looked(repository, tmp_path) == Announcement("1.3.0")
    repository.repository.refresh()
    assert looked(repository, tmp_path) == Announcement("1.3.0")


def test_another_key_than_the_shipped_one_says_nothing(repository: Served, tmp_path: Path) -> None:
    with served(tmp_path / "other") as other:
        other.repository.announce("9.9.9")
        shutil.rmtree(repository.folder / "metadata")
        shutil.copytree(other.folder / "metadata", repository.folder / "metadata")
        assert refusal(repository, tmp_path) == "update_refused"


def test_rollback_an_older_announcement_is_refused(repository: Served, tmp_path: Path) -> None:
    kept = keep(repository, tmp_path)
    repository.repository.announce("1.3.0")
    looked(repository, tmp_path)
    put_back(repository, kept, "timestamp.json")
    assert refusal(repository, tmp_path) == "update_refused"


def test_freeze_signatures_that_have_expired_are_spoken_of(tmp_path: Path) -> None:
    with served(tmp_path, datetime.now(UTC) - timedelta(days=20)) as old:
        old.repository.announce("1.2.0")  # its timestamp ended six days ago
        assert refusal(old, tmp_path) == "update_stale"
        old.at(datetime.now(UTC)).refresh()
        assert looked(old, tmp_path).version == "1.2.0"


def test_mix_and_match_parts_of_two_times_are_refused(repository: Served, tmp_path: Path) -> None:
    kept = keep(repository, tmp_path)
    repository.repository.announce("1.3.0")
    # The targets of before under the name of those of now.
    older = (kept / "metadata" / "2.targets.json").read_bytes()
    (repository.folder / "metadata" / "3.targets.json").write_bytes(older)
    assert refusal(repository, tmp_path) == "update_refused"


def test_an_announcement_with_other_bytes_is_refused(repository: Served, tmp_path: Path) -> None:
    for path in (repository.folder / "targets").iterdir():
        path.write_bytes(path.read_bytes().replace(b"1.2.0", b"6.6.6"))
    assert refusal(repository, tmp_path) == "update_refused"


@pytest.mark.parametrize(
    "text", [b"{}", b'{"version": "1.2; rm"}', b'{"version": "1.2", "page": "http://x"}', b"\xff"]
)
def test_a_signed_announcement_that_is_none_is_refused(
    repository: Served, tmp_path: Path, text: bytes
) -> None:
    repository.repository.announce_bytes(text)
    assert refusal(repository, tmp_path) == "update_refused"


def test_endless_metadata_is_cut_off(repository: Served, tmp_path: Path) -> None:
    repository.answer = lambda path: (
        (200, b" " * 10_000_000) if path.endswith("timestamp.json") else None
    )
    assert refusal(repository, tmp_path) == "update_away"


@pytest.mark.parametrize("status", [301, 404, 500])
def test_no_answer_is_no_announcement(repository: Served, tmp_path: Path, status: int) -> None:
    repository.answer = lambda path: (status, b"")
    assert refusal(repository, tmp_path) == "update_away"


def test_it_takes_no_longer_than_it_may(repository: Served, tmp_path: Path) -> None:
    assert refusal(repository, tmp_path, limit_s=-1.0) == "update_away"


def test_a_rotated_root_is_followed(repository: Served, tmp_path: Path) -> None:
    from tuf.api.metadata import Metadata, Root

    path = repository.folder / "metadata" / "1.root.json"
    root = Metadata[Root].from_file(str(path)).signed
    root.version = 2
    repository.repository._write(root, "2.root.json", "root-2", "root-3")
    assert looked(repository, tmp_path).version == "1.2.0"
    root.version = 3
    repository.repository._write(root, "3.root.json", "root-1")  # one of two signatures
    assert refusal(repository, tmp_path) == "update_refused"


def test_the_program_prints_one_line_whatever_happens(repository: Served, tmp_path: Path) -> None:
    def printed(trust: Path) -> object:
        words = ["-I", "-m", module.__name__, str(tmp_path / "state"), str(trust)]
        done = subprocess.run([sys.executable, *words], capture_output=True, check=True)
        assert done.stderr == b""
        return json.loads(done.stdout)

    found = {"version": "1.2.0", "page": "https://example.org/1.2.0"}
    assert printed(repository.trust) == found
    assert printed(tmp_path / "nothing") == {}
    (repository.folder / "metadata" / "timestamp.json").write_bytes(b"{")
    answer = printed(repository.trust)
    assert isinstance(answer, dict)
    assert answer["code"] == "update_refused"
