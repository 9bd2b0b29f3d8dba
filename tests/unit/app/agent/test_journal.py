"""The journal: what was held is known again after any end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.agent.journal import Journal
from gpugoblin.errors import AgentError
from gpugoblin.ids import GrantId, LabId, LeaseId
from gpugoblin.wire.messages.contact import GrantOffer

G, H = GrantId("grant_a"), GrantId("grant_b")
OFFER = GrantOffer("a.b.c", LabId("lab_a"), 0, "https://127.0.0.1:1", "ab" * 32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def test_grants_and_leases_come_back(path: Path) -> None:
    journal = Journal(path)
    journal.open_grant(G, OFFER, 100.0)
    journal.remember(LeaseId("lease_a"), G)
    journal.remember(LeaseId("lease_b"), G)
    journal.forget(LeaseId("lease_a"))
    journal.close()
    again = Journal(path)
    recall = again.recall(50.0)
    again.close()
    assert recall.grants == ((G, OFFER),)
    assert recall.leases == ((LeaseId("lease_b"), G),)
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_over_is_struck(path: Path) -> None:
    journal = Journal(path)
    journal.open_grant(G, OFFER, 100.0)
    journal.open_grant(H, OFFER, 300.0)
    journal.remember(LeaseId("lease_a"), G)
    journal.remember(LeaseId("lease_b"), H)
    recall = journal.recall(200.0)
    journal.close()
    assert recall.grants == ((H, OFFER),)
    assert recall.leases == ((LeaseId("lease_b"), H),)


def test_a_closed_grant_takes_its_leases_along(path: Path) -> None:
    journal = Journal(path)
    journal.open_grant(G, OFFER, 100.0)
    journal.remember(LeaseId("lease_a"), G)
    journal.close_grant(G)
    recall = journal.recall(0.0)
    journal.close()
    assert recall.grants == ()
    assert recall.leases == ()


def test_changes_together_are_all_there_or_none(path: Path) -> None:
    journal = Journal(path)

    def breaks_off() -> None:
        with journal.together():
            journal.open_grant(G, OFFER, 100.0)
            raise KeyError

    with pytest.raises(KeyError):
        breaks_off()
    assert journal.recall(0.0).grants == ()
    with journal.together():
        journal.open_grant(G, OFFER, 100.0)
    assert journal.recall(0.0).grants == ((G, OFFER),)
    journal.close()


def test_a_file_that_is_no_journal_is_said_and_kept(path: Path) -> None:
    path.write_bytes(b"these are my holiday notes" * 100)
    with pytest.raises(AgentError) as caught:
        Journal(path)
    assert caught.value.code == "state_damaged"
    assert str(path) in str(caught.value)
    assert path.read_bytes().startswith(b"these are my")


def test_a_damaged_offer_is_said(path: Path) -> None:
    journal = Journal(path)
    journal.open_grant(G, OFFER, 100.0)
    journal._database.execute("update grants set offer = x'00'")
    with pytest.raises(AgentError) as caught:
        journal.recall(0.0)
    journal.close()
    assert caught.value.code == "state_damaged"


def test_a_kill_in_the_middle_loses_nothing_that_was_said_to_be_kept(path: Path) -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from app.agent.journal import Journal\n"
        "from gpugoblin.wire.messages.contact import GrantOffer\n"
        "journal = Journal(Path(sys.argv[1]))\n"
        "journal.open_grant('grant_a', GrantOffer('a', 'lab_a', 0, 'https://x'), 1e10)\n"
        "for number in range(100000):\n"
        "    journal.remember(f'lease_{number}', 'grant_a')\n"
        "    print(number, flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(50)]
        os.kill(process.pid, signal.SIGKILL)
        said += process.stdout.readlines()
    journal = Journal(path)
    kept = {lease for lease, _ in journal.recall(0.0).leases}
    journal.close()
    assert {f"lease_{line.strip()}" for line in said if line.endswith("\n")} <= kept


def full(journal: Journal) -> None:
    """From here on the file may not grow, as on a full disk."""
    pages = journal._database.execute("pragma page_count").fetchone()[0]
    journal._database.execute(f"pragma max_page_count = {pages}")


def test_a_full_disk_is_said_and_nothing_is_kept_by_halves(path: Path) -> None:
    journal = Journal(path)
    journal.open_grant(GrantId("grant_a"), OFFER, 1e10)
    full(journal)

    def remember_many() -> None:
        with journal.together():
            for number in range(2000):
                journal.remember(LeaseId(f"lease_{number}"), GrantId("grant_a"))

    with pytest.raises(AgentError) as caught:
        remember_many()
    assert caught.value.code == "state_unwritable"
    assert "disk is full" in caught.value.what
    assert journal.held() == 0
    journal._database.execute("pragma max_page_count = 1000000")
    with journal.together():
        journal.remember(LeaseId("lease_a"), GrantId("grant_a"))
    assert journal.held() == 1
    journal.close()


def test_a_journal_that_cannot_be_written_is_not_called_damaged(path: Path) -> None:
    path.mkdir()
    with pytest.raises(AgentError) as caught:
        Journal(path)
    assert caught.value.code == "state_unwritable"
