"""The lab node's pages in a real browser: sign in, watch a job, cancel it, sign out.

The node is real (doors, certificate, database, checks); volunteers speak its protocol over TLS and
compute with the interpreter. Scripts are on, so that what the policy forbids would be seen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpugoblin.wire.messages.job import ArrayCreate, ArrayInfo, JobInfo, JobSubmit, OutputSave
from gpugoblin.wire.messages.task import Constraints
from gpugoblin.wire.transport import Endpoint, Transport
from server_stub.node import users
from tests.helpers.browser import Reader, serious_faults, the_chromium
from tests.helpers.lab import Lab, fresh_hex, grid_settings, product, until
from tests.helpers.node import LabNode
from tests.helpers.trainings import Linear
from tests.helpers.trainings import submit as submit_training

# Chromium's own threads and processes are ended by playwright, after the last test of this file.
pytestmark = pytest.mark.timeout(240)

MAX_PAGE_BYTES = 100 * 1024


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    yield from the_chromium()


class Stage:
    """A lab with researchers ann and bob, and jobs of theirs."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        service = lab.node.service
        assert service.tls is not None
        self.base = f"https://127.0.0.1:{service.port}"
        self.pin = service.tls.sha256
        self.tokens = {name: self.add(name) for name in ("ann", "bob")}

    def add(self, name: str) -> str:
        node = self.lab.node

        async def write() -> str:
            return await node.node.store.write(lambda tx: users.add(tx, 1.0, name, users.SCOPES))

        return node.call(write())

    def revoke(self, name: str) -> None:
        node = self.lab.node

        async def write() -> None:
            await node.node.store.write(lambda tx: users.revoke(tx, 2.0, name))

        node.call(write())

    def submit(self, name: str, job: str, rows: int = 1500) -> JobInfo:
        """A product of this user, for volunteers."""
        a, b, graph = product(rows, 64, 600)
        with contextlib.closing(Transport(Endpoint(self.base, self.tokens[name], self.pin))) as ask:
            inputs = tuple(self._send(ask, array) for array in (a, b))
            message = JobSubmit(
                graph, inputs, (OutputSave(),), name=job, executor="grid", force=True,
                constraints=Constraints(sandbox="none"),
            )  # fmt: skip
            return ask.call("POST", "/v1/jobs", JobInfo, body=message)

    def _send(self, ask: Transport, array: np.ndarray) -> Any:
        message = ArrayCreate("upload", "float32", array.shape, fresh_hex())
        info = ask.call("POST", "/v1/arrays", ArrayInfo, body=message)
        ask.upload(f"/v1/arrays/{info.array}/bytes", memoryview(array).cast("B"), ArrayInfo)
        return info.array

    def verified(self, job: JobInfo) -> int:
        ((count,),) = self.lab.node.read("select verified from job where id = ?", job.job)
        return int(count)

    def sign_in(self, reader: Reader, name: str) -> None:
        reader.open("/signin")
        reader.page.fill("#secret", self.tokens[name])
        reader.page.click("main button")
        reader.page.wait_for_url("**/jobs")


@pytest.fixture
def stage(short_path: Path) -> Iterator[Stage]:
    root = short_path
    with LabNode(root, **grid_settings()) as node, Lab(node, root) as lab:
        yield Stage(lab)


def test_a_running_job_moves_on_the_page_and_is_cancelled(chromium: Any, stage: Stage) -> None:
    job = stage.submit("ann", "gram")
    reader = Reader(chromium, stage.base)
    stage.sign_in(reader, "ann")
    reader.page.click("text=gram")
    assert reader.page.inner_text("h1") == "gram"
    assert "0 of" in reader.page.inner_text(".counts")
    reader.page.click("summary >> text=As a table")
    with stage.lab.device(owner_pseudonym="owner_mossy") as device:
        until(lambda: device.work(1) and stage.verified(job) >= 1)
        # Nobody loads the page again: the page does.
        reader.page.wait_for_function(
            "n => +document.querySelector('progress').value >= n", arg=stage.verified(job)
        )
    assert "owner_mossy" in reader.page.inner_text("main")
    assert reader.page.get_attribute("details#plan", "open") is not None
    reader.page.click("text=Cancel")
    assert reader.page.inner_text(".title .state") == "cancelled"
    assert stage.lab.node.read("select state from job where id = ?", job.job) == [("cancelled",)]
    reader.page.click("text=Go on with it")
    assert reader.page.inner_text(".title .state") == "running"
    reader.close()


def test_another_researchers_job_is_not_there(chromium: Any, stage: Stage) -> None:
    job = stage.submit("bob", "secret")
    reader = Reader(chromium, stage.base)
    stage.sign_in(reader, "ann")
    assert "secret" not in reader.page.inner_text("main")
    for path in (f"/jobs/{job.job}", f"/jobs/{job.job}/certificate", "/jobs/job_none"):
        reply = reader.page.goto(stage.base + path)
        assert reply.status == 404
    reader.close()


@pytest.mark.slow
def test_without_scripts_the_page_reloads_itself(chromium: Any, stage: Stage) -> None:
    stage.submit("ann", "plain")
    reader = Reader(chromium, stage.base, java_script_enabled=False)
    stage.sign_in(reader, "ann")
    reader.page.click("text=plain")
    assert reader.page.locator("noscript meta[http-equiv=refresh]").count() == 1
    reader.page.click("text=Cancel")
    assert reader.page.inner_text(".title .state") == "cancelled"
    reader.close()


def test_a_token_that_is_revoked_ends_the_visit(chromium: Any, stage: Stage) -> None:
    stage.tokens["eve"] = stage.add("eve")
    reader = Reader(chromium, stage.base)
    stage.sign_in(reader, "eve")
    stage.revoke("eve")
    reader.open("/jobs")
    assert reader.page.url.endswith("/signin")
    stage.sign_in(reader, "ann")
    reader.page.click("text=Sign out")
    reader.page.wait_for_url("**/signin")
    reader.open("/jobs")
    assert reader.page.url.endswith("/signin")
    reader.close()


@pytest.fixture
def paths(stage: Stage) -> list[str]:
    """Pages of all kinds of jobs: running, done, a training."""
    running, done = stage.submit("ann", "running"), stage.submit("ann", "done", 1000)
    with stage.lab.device() as device:
        until(lambda: device.work() == 0 or stage.verified(done) == done.tasks)
    node = stage.lab.node
    training = submit_training(stage.lab, Linear(), executor="local")
    stage.lab.wait(training)

    def give(step: Any) -> None:
        step.tx.change("update job set owner = 'ann' where id = ?", (training.job,))

    node.call(node.node.handle(give))
    jobs = [f"/jobs/{one.job}" for one in (running, done, training)]
    return ["/jobs", "/node", *jobs]


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (390, "dark"),
        pytest.param(1200, "light", marks=pytest.mark.slow),
        pytest.param(390, "light", marks=pytest.mark.slow),
        pytest.param(1200, "dark", marks=pytest.mark.slow),
    ],
)
def test_pages_hold_for_everybody(
    chromium: Any, stage: Stage, paths: list[str], width: int, scheme: str
) -> None:
    """No page is wider than the screen, heavy, or closed to people who do not see it."""
    screen: Any = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
    reader = Reader(chromium, stage.base, **screen)
    stage.sign_in(reader, "ann")
    for path in paths:
        assert reader.open(path) <= MAX_PAGE_BYTES, path
        assert reader.is_inside(width), path
    reader.close()
    # axe is put into the page by the test, which our policy rightly forbids to others.
    seer = Reader(chromium, stage.base, bypass_csp=True, **screen)
    seer.open("/signin")
    assert serious_faults(seer) == []
    stage.sign_in(seer, "ann")
    for path in paths:
        seer.open(path)
        assert serious_faults(seer) == [], path
    seer.close()


def test_a_training_shows_its_loss(chromium: Any, stage: Stage, paths: list[str]) -> None:
    reader = Reader(chromium, stage.base)
    stage.sign_in(reader, "ann")
    reader.open(paths[-1])
    assert reader.page.locator(".curve0 polyline").count() == 1
    with reader.page.expect_download() as waiting:
        reader.page.click("text=Download the certificate")
    assert '"signature"' in Path(waiting.value.path()).read_text()
    reader.close()
