"""Bad input and bad machines, with the real programs: what the user sees, and that nothing is lost.

Tested elsewhere, and not again here:

* lying, silent, dying and greedy engines: `tests/unit/app/host/test_engine.py`; engines that cannot
  start or die under the lab's own work: `tests/unit/server_stub/node/workers/test_compute.py`,
  `test_engine_room.py`;
* every cause for which the walls cannot be had: `tests/unit/app/sandbox/test_refusals.py`,
  `test_launch.py`;
* signatures, tickets that are expired, revoked or somebody else's, blobs and results of others:
  `tests/unit/server_stub/node/http/`, `tests/unit/gpugoblin/wire/`;
* hostile labs and coordinators: `tests/e2e/test_agent_hostile.py`; the coordinator's own port,
  database and clock: `tests/e2e/test_coordinator.py`;
* jobs that do not fit engine, disk, class or executor: `tests/unit/server_stub/node/
  test_submission.py`; what a job that ended keeps: `test_resuming.py`;
* files of the node that are cut, empty or noise: `tests/unit/server_stub/node/test_service.py`; of
  the agent, and its full disk: `tests/unit/app/agent/test_state.py`, `test_journal.py`; the
  coordinator's full disk: `tests/unit/server_stub/coordinator/test_store.py`;
* peers that never finish a handshake or a request: `tests/unit/gpugoblin/wire/test_entrance.py`,
  `test_guard.py`;
* the notice before the first job that leaves the lab: `tests/unit/gpugoblin/client/
  test_session.py`, and the lab's confirmation: `test_submission.py`.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import gpugoblin as gg
from gpugoblin.client.session import Session
from gpugoblin.error_codes import ALL_CODES
from gpugoblin.errors import GoblinError
from gpugoblin.units import MIB
from tests.helpers import chaos_machine
from tests.helpers.chaos_lab import Lab
from tests.helpers.chaos_network import NODE_SETTINGS
from tests.helpers.network import AGENT, NODE, Network
from tests.helpers.network_processes import patience

pytestmark = pytest.mark.timeout(240)
RNG = np.random.default_rng(11)
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount or make such users")


def numbers(rows: int, columns: int) -> np.ndarray:
    return RNG.standard_normal((rows, columns), dtype=np.float32)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> None:
    """In the place of the usual look after each test: workers and engines of the module's network
    come and go with the work. What it leaves is looked for when it ends."""


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    root = Path(tempfile.mkdtemp(prefix="gg-"))
    root.chmod(0o755)
    own = psutil.Process()
    before = {child.pid for child in own.children(recursive=True)}
    try:
        with Network(root, {"agent": "ann"}, node=NODE_SETTINGS) as running:
            yield running
            family = own.children(recursive=True)
        waiting = patience("workers and engines end with whom they belong to")
        while waiting():
            if not any(each.is_running() for each in family if each.pid not in before):
                break
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def session(network: Network) -> Iterator[Session]:
    with gg.connect(f"unix:{network.node_socket}") as connected:
        yield connected


def refused(code: str, does: Callable[[], object]) -> GoblinError:
    """What a researcher sees: an error with this code, words and a next step."""
    with pytest.raises(GoblinError) as caught:
        does()
    error = caught.value
    assert error.code == code, error
    assert error.what
    assert error.next_step
    assert code in str(error)
    return error


# -- what a researcher may get wrong -------------------------------------------------------------


def test_what_is_wrong_before_anything_is_sent(tmp_path: Path, session: Session) -> None:
    x = gg.array(numbers(8, 4))
    np.save(tmp_path / "complex.npy", np.ones((2, 2), np.complex64))
    np.save(tmp_path / "good.npy", numbers(8, 4))
    good = (tmp_path / "good.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(good[:-8])
    (tmp_path / "noise.npy").write_bytes(b"\x93NUMPY" + bytes(100))
    (tmp_path / "text.txt").write_text("no numbers")
    rows: dict[str, Callable[[], object]] = {
        "shapes_differ": lambda: x @ x,
        "dtype_refused": lambda: gg.open(tmp_path / "complex.npy"),
        "file_unreadable": lambda: gg.open(tmp_path / "missing.npy"),
        "file_truncated": lambda: gg.open(tmp_path / "cut.npy"),
        "file_malformed": lambda: gg.open(tmp_path / "noise.npy"),
        "file_kind_unknown": lambda: gg.open(tmp_path / "text.txt"),
        "index_refused": lambda: x[0, 0, 0],
        "target_malformed": lambda: (x * 2).save(tmp_path / "no" / "c.npy", name="nowhere"),
    }
    for code, does in rows.items():
        refused(code, does)
    opened = gg.open(tmp_path / "good.npy")
    np.save(tmp_path / "good.npy", numbers(8, 4))
    refused("file_changed", lambda: (opened * 2).compute())
    assert session.jobs() == []


def test_numbers_that_are_not_finite_are_recomputed(session: Session) -> None:
    """No product check can decide them: the validator does, and the result is NumPy's."""
    a = numbers(600, 64)
    a[3, 4], a[300, 9], a[5, 5], a[5, 6] = np.nan, np.inf, -np.inf, np.inf
    with np.errstate(invalid="ignore"):
        expected = a @ a.T
    for executor in ("local", "grid"):
        x = gg.array(a)
        job = (x @ x.T).save(name=f"nan-{executor}", executor=executor, force=True).wait(60)
        assert job.info.verified_by.recompute > 0
        np.testing.assert_allclose(job.array[...], expected, rtol=1e-3, atol=1e-3)
        job.delete()


def running_product(path: Path, name: str) -> gg.Job:
    """A job of many tiles on a file, when some of them are verified and most are not."""
    x = gg.open(path)
    job = (x @ x.T).save(name=name, executor="local")
    waiting = patience("some tiles are verified")
    while waiting():
        if job.refresh().verified >= 2:
            break
    assert job.info.verified < job.info.tasks
    return job


@pytest.mark.parametrize("wrong", ["array_bytes_changed", "array_truncated", "array_unreadable"])
def test_an_input_that_changes_while_its_job_runs(
    session: Session, tmp_path: Path, wrong: str
) -> None:
    path = tmp_path / "x.npy"
    values = numbers(4096, 64)
    np.save(path, values)
    job = running_product(path, "moving")
    if wrong == "array_bytes_changed":
        np.save(tmp_path / "other.npy", numbers(4096, 64))
        os.replace(tmp_path / "other.npy", path)
    elif wrong == "array_truncated":
        os.truncate(path, 2000)
    else:
        path.unlink()
    error = refused(wrong, lambda: job.wait(60))
    assert str(path) in str(error)
    assert job.info.state == "failed"
    np.save(path, values)
    x = gg.open(path)
    again = (x @ x.T).save(name="moving", executor="local").wait(60)
    assert again.id != job.id
    np.testing.assert_allclose(again.array[:9, :9], values[:9] @ values[:9].T, rtol=1e-3, atol=1e-4)
    again.delete()
    session.get(job.id).delete()


# -- messages ------------------------------------------------------------------------------------


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=20)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


def over_tls(address: str) -> http.client.HTTPSConnection:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, port = address.removeprefix("https://").split(":")
    return http.client.HTTPSConnection(host, int(port), timeout=20, context=context)


def answer(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes
) -> tuple[int, dict[str, Any]]:
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        connection.close()


HUGE = b"[" * (9 * MIB)
NODE_ROWS = [
    ("POST", "/v1/jobs", b"{", 400, "message_malformed"),
    ("POST", "/v1/jobs", b"[" * 50_000, 400, "message_malformed"),
    ("POST", "/v1/jobs", b'{"graph": 7}', 400, "message_malformed"),
    ("POST", "/v1/jobs", HUGE, 413, "message_too_large"),
    ("POST", "/v1/arrays", b'{"a free text": "x"}', 400, "message_malformed"),
    ("PUT", "/v1/arrays/array_a/bytes?offset=all", b"x", 400, "parameter_invalid"),
    ("GET", "/v1/jobs/nobody", b"", 404, "unknown_job"),
    ("GET", "/v1/nothing", b"", 404, "not_found"),
    ("PATCH", "/v1/jobs", b"", 405, "method_not_allowed"),
]
TLS_ROWS = [
    ("GET", "/v1/jobs", b"", 401, "not_authenticated"),
    ("POST", "/v1/lease/exchange", b"{}", 401, "signature_missing"),
    ("POST", "/v1/lease/exchange", HUGE, 413, "body_too_large"),
    ("PUT", "/v1/results/lease_a/0?offset=0", b"x", 401, "grant_missing"),
    ("GET", "/v1/blobs/" + "0" * 64, b"", 401, "signature_missing"),
]
COORDINATOR_ROWS = [
    ("POST", "/v1/contact", b"{}", 401, "signature_missing"),
    ("POST", "/v1/node/receipts", b"{", 401, "signature_missing"),
    ("POST", "/v1/contact", HUGE, 413, "message_too_large"),
    ("GET", "/v1/nothing", b"", 404, "coordinator_route_unknown"),
]


def doors(network: Network) -> list[tuple[Callable[[], http.client.HTTPConnection], list[Any]]]:
    words = (network.root / "node.toml").read_text(encoding="utf-8").splitlines()
    given = dict(line.split(" = ", 1) for line in words if " = " in line and line[0] != "#")
    node = f"https://127.0.0.1:{given['listen_port']}"
    coordinator = json.loads(given["coordinator_address"])
    return [
        (lambda: UnixConnection(network.node_socket), NODE_ROWS),
        (lambda: over_tls(node), TLS_ROWS),
        (lambda: over_tls(coordinator), COORDINATOR_ROWS),
    ]


def test_messages_that_are_malformed_or_too_large(network: Network, session: Session) -> None:
    for connect, rows in doors(network):
        for method, path, body, status, code in rows:
            found, error = answer(connect(), method, path, body)
            assert (found, error["code"]) == (status, code), (method, path)
            assert code in ALL_CODES
            assert error["what"]
            assert error["next_step"]
        raw = connect()
        raw.connect()
        raw.sock.sendall(bytes(range(256)) * 40 + b"\r\n\r\n")
        raw.close()
    assert (gg.array(numbers(5, 3)) * 2).compute().shape == (5, 3)
    for name in ("node", "coordinator"):
        assert "Traceback" not in network.programs.log(name)


# -- machines ------------------------------------------------------------------------------------


def test_a_coordinator_that_is_away(network: Network, session: Session) -> None:
    """Local jobs and running grants go on; receipts wait for it."""
    before = network.receipts()
    network.programs.kill("coordinator")
    x = gg.array(numbers(1200, 64))
    for executor in ("local", "grid"):
        job = (x @ x.T).save(name=f"away-{executor}", executor=executor, force=True).wait(60)
        assert job.info.verified == job.info.tasks
    earned = job.info.tasks
    waiting = patience("the node says that the coordinator is away")
    while waiting():
        if "coordinator_away" in session.health["coordinator"]:
            break
    network.start_coordinator()
    waiting = patience("every receipt is booked")
    while waiting():
        if network.receipts() >= before + earned:
            break
    assert network.receipts() == before + earned


WRONGS = [
    pytest.param("no-bubblewrap", "apt install bubblewrap", True, id="no-bubblewrap"),
    pytest.param(
        "no-namespaces", "user.max_user_namespaces", True, id="no-namespaces", marks=ROOT_ONLY
    ),
    pytest.param("clock+7200", "timedatectl set-ntp true", True, id="fast-clock"),
    pytest.param("clock-7200", "timedatectl set-ntp true", True, id="slow-clock"),
]


@pytest.mark.parametrize(("wrong", "fix", "ill"), WRONGS)
@pytest.mark.slow  # each starts a whole agent; too slow beside other tests
def test_a_contributors_machine_that_is_not_right(
    network: Network, session: Session, wrong: str, fix: str, ill: bool
) -> None:
    """It lends nothing, says why and what to do; when that is done it works as before."""
    config = str(network.root / "agent.toml")
    words = [chaos_machine.__file__, wrong]
    network.programs.await_line("agent", "The agent runs")  # before it, SIGTERM just kills
    network.stop("agent")
    network.programs.start(wrong, [*words, "--console", "--config", config])
    network.programs.await_line(wrong, fix.replace(".", r"\."))
    network.stop(wrong)
    assert "Traceback" not in network.programs.log(wrong)
    if ill:
        network.programs.start("doctor", [*words, "agent", "doctor", "--config", config])
        network.programs.await_end("doctor", status=3)
        assert fix.split()[-1] in network.programs.log("doctor")
    network.programs.start("agent", [*AGENT, "--config", config])
    x = gg.array(numbers(700, 64))
    job = (x @ x.T).save(name=wrong, executor="grid", force=True).wait(60)
    assert job.info.state == "done"


def test_a_port_and_a_state_directory_in_use(network: Network, tmp_path: Path) -> None:
    text = (network.root / "node.toml").read_text(encoding="utf-8")
    (tmp_path / "same.toml").write_text(text, encoding="utf-8")
    other = text.replace(f'"{network.node_state}"', f'"{tmp_path / "other"}"')
    (tmp_path / "other").mkdir()
    shutil.copy(network.node_state / "node.key", tmp_path / "other")
    (tmp_path / "port.toml").write_text(other, encoding="utf-8")
    for name, code in (("same", "state_dir_taken"), ("port", "address_in_use")):
        words = [*NODE, "serve", "--config", str(tmp_path / f"{name}.toml")]
        network.programs.start(name, words)
        network.programs.await_end(name, status=1)
        said = network.programs.log(name).strip().splitlines()
        assert code in said[-1]
        assert len(said) == 2, "what it is, and the next step"


def test_a_cancelled_job_goes_on_after_its_node_was_killed(tmp_path: Path) -> None:
    """Nothing that was verified is computed again, and the bytes are those of one job."""
    root = Path(tempfile.mkdtemp(prefix="gg-"))
    root.chmod(0o755)
    values, place = numbers(4096, 256), tmp_path / "gram.npy"
    np.save(tmp_path / "x.npy", values)
    try:
        with Lab(root) as lab:
            for kill in (False, True):
                with gg.connect(lab.address) as session:
                    x = gg.open(tmp_path / "x.npy")
                    job = (x @ x.T).save(place, name="gram")
                    waiting = patience("some more tiles are verified")
                    begun = job.info.verified
                    while waiting():
                        if job.refresh().verified >= begun + 2:
                            break
                    job.cancel()
                    known = session.get("gram").info.verified
                    refused("job_cancelled", job.wait)
                if kill:
                    lab.programs.kill("node")
                    lab.start()
            with gg.connect(lab.address):
                again = (x @ x.T).save(place, name="gram")
                assert (again.id, again.info.attached) == (job.id, False)
                assert known <= again.info.verified < again.info.tasks
                again.wait(90)
                used = [event.task_index for event in again.events() if event.kind == "used"]
                assert sorted(used) == list(range(again.info.tasks)), "each task is used once"
        np.testing.assert_allclose(np.load(place), values @ values.T, rtol=1e-3, atol=1e-3)
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
        assert "Traceback" not in lab.programs.log("node")
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk of 90 MiB, which can be filled without harm."""
    root = Path(tempfile.mkdtemp(prefix="gg-"))
    root.chmod(0o755)
    disk = root / "disk"
    disk.mkdir()
    options = ["-t", "tmpfs", "-o", "size=90m,mode=755", "tmpfs", str(disk)]
    try:
        done = subprocess.run(["mount", *options], capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
        yield disk
        subprocess.run(["umount", str(disk)], check=True)
    finally:
        shutil.rmtree(root, ignore_errors=True)


@ROOT_ONLY
def test_a_disk_that_fills_while_a_job_runs(small_disk: Path, tmp_path: Path) -> None:
    """The job waits, says for what, and goes on when there is space; a new one is refused."""
    values = numbers(4096, 256)
    np.save(tmp_path / "x.npy", values)
    lab = Lab(small_disk.parent, state_dir=str(small_disk / "node"), reserve_bytes=MIB)
    with lab, gg.connect(lab.address):
        x = gg.open(tmp_path / "x.npy")
        job = (x @ x.T).save(name="gram")
        waiting = patience("some tiles are verified")
        while waiting():
            if job.refresh().verified >= 2:
                break
        fill(small_disk / "filler")
        waiting = patience("the job says what it waits for")
        while waiting():
            if job.refresh().error_code in ("disk_full", "database_failed"):
                break
        assert job.info.state == "running"
        assert "space" in str(job.progress())
        verified = job.info.verified
        codes = ("results_do_not_fit", "database_failed", "disk_full")
        with pytest.raises(GoblinError) as caught:
            (x * 2).save(name="another", executor="local")
        assert caught.value.code in codes
        (small_disk / "filler").unlink()
        job.wait(90)
        assert job.info.verified == job.info.tasks > verified
        assert job.info.error_code == ""
        found = job.array[:99, :99]
        np.testing.assert_allclose(found, values[:99] @ values[:99].T, rtol=1e-3, atol=1e-3)
    assert "Traceback" not in lab.programs.log("node")


def fill(path: Path) -> None:
    """Takes all the space that is left, and goes on for a while as it is freed elsewhere."""
    with path.open("wb", buffering=0) as file:
        ends_s = time.monotonic() + 1.0
        while time.monotonic() < ends_s:
            try:
                file.write(bytes(64 * 1024))
            except OSError:
                time.sleep(0.02)
