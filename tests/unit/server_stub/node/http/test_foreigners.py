"""What is one user's is not there for another, whichever way the other asks.

Every route of researchers, devices and pages is asked, with a token of somebody else. A route that
is added and not named here fails the first test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from starlette.routing import Route

from gpugoblin.wire.codec import encode
from gpugoblin.wire.messages.job import ArrayCreate, JobSubmit, OutputSave
from gpugoblin.wire.messages.sharing import JobShare
from gpugoblin.wire.messages.training import GraphSlot, NamedTensor, TrainingSubmit
from server_stub.node.http.clients import Clients
from server_stub.node.http.devices import EXCHANGE_PATH, Devices
from server_stub.node.web.site import PAGES
from tests.helpers.lab import Lab, fresh_hex, on_grid, product, until
from tests.helpers.node_pages import Browser, make_user

__all__: list[str] = []

UNKNOWN = {"unknown_job", "unknown_array"}
ABSENT_JOB, ABSENT_ARRAY = "job_" + "a" * 26, "array_" + "a" * 26
NOTHING_OF_OTHERS = {("POST", "/v1/arrays"), ("GET", "/v1/jobs"), ("POST", "/v1/pace")}
"""Routes by which nobody can name what is another's; what they say is looked at below."""


@dataclass(frozen=True)
class Owned:
    """What ann has: a running job, its result, and an input."""

    graph: bytes
    job: str
    output: str
    inputs: tuple[str, str]

    def absent(self) -> Owned:
        return Owned(self.graph, ABSENT_JOB, ABSENT_ARRAY, (ABSENT_ARRAY, ABSENT_ARRAY))


@dataclass
class Case:
    grid: Lab
    owned: Owned
    ann: str
    eve: str
    browser: Browser

    def say(self, token: str, method: str, path: str, body: bytes = b"") -> tuple[int, str, str]:
        """Status, code of an error, and the whole text."""
        reply = self.browser.session.request(
            method, self.browser.base + path, data=body, timeout=20, allow_redirects=False,
            headers={"Authorization": f"Bearer {token}"},
        )  # fmt: skip
        code = reply.json()["code"] if reply.status_code >= 400 else ""
        return reply.status_code, code, "" if reply.status_code < 400 else reply.text

    def state(self) -> list[Any]:
        tables = ("job", "array", "share", "quota", "lease", "event")
        return [self.grid.node.read(f"select * from {name} order by 1, 2") for name in tables]  # noqa: S608 - words


@pytest.fixture
def case(grid: Lab) -> Iterator[Case]:
    a, b, graph = product(8, 8, 8)
    inputs = [grid.file(array, f"{name}.npy") for array, name in ((a, "a"), (b, "b"))]
    job = on_grid(grid, graph, *inputs, name="secret")
    until(lambda: grid.node.read("select 1 from task where state = 'ready'") != [])
    ann, eve = make_user(grid, "ann"), make_user(grid, "eve")

    async def give() -> None:
        def body(tx: Any) -> None:
            tx.change("update job set owner = 'ann'")
            tx.change("update array set owner = 'ann'")

        await grid.node.node.store.write(body)

    grid.node.call(give())
    owned = Owned(graph, job.job, job.outputs[0].array, (inputs[0].array, inputs[1].array))
    with Browser(grid) as browser:
        yield Case(grid, owned, ann, eve, browser)


def training(owned: Owned, data: str) -> bytes:
    return encode(TrainingSubmit(
        owned.graph, (GraphSlot("parameter"), GraphSlot("data")), (),
        (NamedTensor("parameter", "w", 0, (8, 8)),), data, None, None, (), data, data, (data,), (),  # type: ignore[arg-type]
        '{"name": "sgd"}', 1, 1, 1,
    ))  # fmt: skip


def requests_for(owned: Owned, one: str) -> dict[tuple[str, str], list[tuple[str, bytes]]]:
    """For each route the ways to name what is ann's. `one`: how the job is named."""
    array, output, at = owned.inputs[0], owned.output, f"/v1/jobs/{one}"
    own = (OutputSave(),)
    return {
        ("GET", "/v1/arrays/{array}"): [(f"/v1/arrays/{each}", b"") for each in (array, output)],
        ("PUT", "/v1/arrays/{array}/bytes"): [(f"/v1/arrays/{array}/bytes?offset=0", b"x")],
        ("GET", "/v1/arrays/{array}/region"): [
            (f"/v1/arrays/{each}/region?start=0,0&stop=1,1", b"") for each in (array, output)
        ],
        ("POST", "/v1/trainings"): [("/v1/trainings", training(owned, array))],
        ("GET", "/v1/trainings/{job}"): [(f"/v1/trainings/{one}", b"")],
        ("GET", "/v1/trainings/{job}/rounds"): [(f"/v1/trainings/{one}/rounds", b"")],
        ("GET", "/v1/trainings/{job}/weights"): [(f"/v1/trainings/{one}/weights", b"")],
        ("POST", "/v1/jobs"): [
            ("/v1/jobs", encode(JobSubmit(owned.graph, owned.inputs, own))),  # type: ignore[arg-type]
            ("/v1/jobs", encode(JobSubmit(owned.graph, (output, array), own))),  # type: ignore[arg-type]
        ],
        ("GET", "/v1/jobs/{job}/events"): [(f"{at}/events", b"")],
        ("GET", "/v1/jobs/{job}/summary"): [(f"{at}/summary", b"")],
        ("GET", "/v1/jobs/{job}/sharing"): [(f"{at}/sharing", b"")],
        ("POST", "/v1/jobs/{job}/share"): [(f"{at}/share", encode(JobShare(("eve",))))],
        ("POST", "/v1/jobs/{job}/retry"): [(f"{at}/retry", b"")],
        ("POST", "/v1/jobs/{job}/cancel"): [(f"{at}/cancel", b"")],
        ("GET", "/v1/jobs/{job}/certificate"): [(f"{at}/certificate", b"")],
        ("GET", "/v1/jobs/{job}/outputs.safetensors"): [(f"{at}/outputs.safetensors", b"")],
        ("GET", "/v1/jobs/{job:path}"): [(at, b""), (f"{at}?wait_s=1&after=9", b"")],
        ("DELETE", "/v1/jobs/{job:path}"): [(at, b"")],
    }


def of(routes: list[Any]) -> set[tuple[str, str]]:
    return {
        (method, route.path)
        for route in routes
        if isinstance(route, Route)
        for method in (route.methods or ())
        if method != "HEAD"
    }


def test_every_route_of_researchers_is_asked(case: Case) -> None:
    asked = set(requests_for(case.owned, case.owned.job)) | NOTHING_OF_OTHERS
    assert of(Clients(case.grid.node.node).routes()) == asked


@pytest.mark.parametrize("name", ["", "secret", "ann/secret"])
def test_what_is_anothers_is_answered_as_what_is_not_there(case: Case, name: str) -> None:
    before = case.state()
    one = name or case.owned.job
    for (method, path), asked in requests_for(case.owned, one).items():
        if "/" in one and path not in ("/v1/jobs/{job:path}", "/v1/jobs"):
            continue  # no such path: jobs are named so where the path may be longer
        absent = requests_for(case.owned.absent(), ABSENT_JOB)[method, path]
        for (target, body), (other, nobody) in zip(asked, absent, strict=True):
            status, code, text = case.say(case.eve, method, target, body)
            assert (status, code in UNKNOWN) == (404, True), (method, target, code)
            told = case.say(case.eve, method, other, nobody)
            for mine, theirs in ((one, ABSENT_JOB), (case.owned.inputs[0], ABSENT_ARRAY),
                                 (case.owned.output, ABSENT_ARRAY)):  # fmt: skip
                text = text.replace(mine, theirs)
            assert (status, code, text) == told, (method, target)
    assert case.state() == before


def test_the_same_requests_of_the_owner_find_it(case: Case) -> None:
    """Or the refusals above would say nothing."""
    for (method, _), asked in requests_for(case.owned, case.owned.job).items():
        for target, body in asked:
            if target == "/v1/jobs" and case.owned.output.encode() in body:
                continue  # not complete yet, which is another refusal
            status, code, text = case.say(case.ann, method, target, body)
            assert code not in UNKNOWN | {"not_found", "not_authenticated", "not_permitted"}, text
            assert status < 500, (method, target, text)


def test_lists_and_new_work_name_nothing_of_others(case: Case) -> None:
    for path in ("/v1/jobs", "/v1/jobs?all=1"):
        reply = case.browser.session.get(
            case.browser.base + path, headers={"Authorization": f"Bearer {case.eve}"}, timeout=20
        )
        assert reply.status_code == 200
        assert b"secret" not in reply.content
        assert case.owned.job not in reply.text
    child = JobSubmit(case.owned.graph, (), (), parent=case.owned.job)
    assert case.say(case.eve, "POST", "/v1/jobs", encode(child))[0] == 400
    ((theirs,),) = case.grid.node.read(
        "select fingerprint from array where id = ?", case.owned.inputs[0]
    )
    equal = ArrayCreate("upload", "float32", (8, 8), theirs)
    reply = case.browser.session.post(
        case.browser.base + "/v1/arrays", data=encode(equal), timeout=20,
        headers={"Authorization": f"Bearer {case.eve}"},
    )  # fmt: skip
    made = msgspec.json.decode(reply.content)
    assert made["array"] not in (*case.owned.inputs, case.owned.output)
    assert not made["complete"]


def test_a_job_of_another_is_no_parent(case: Case) -> None:
    own = [
        case.browser.session.post(
            case.browser.base + "/v1/arrays", timeout=20,
            data=encode(ArrayCreate("upload", "float32", (8, 8), fresh_hex())),
            headers={"Authorization": f"Bearer {case.eve}"},
        ).json()["array"]
        for _ in range(2)
    ]  # fmt: skip
    for each in own:
        path = f"/v1/arrays/{each}/bytes?offset=0"
        assert case.say(case.eve, "PUT", path, bytes(256))[0] == 200
    for parent in (case.owned.job, "secret", "ann/secret", ABSENT_JOB):
        child = JobSubmit(
            case.owned.graph, tuple(own), (OutputSave(),), name="child", parent=parent,  # type: ignore[arg-type]
            executor="local",
        )  # fmt: skip
        assert case.say(case.eve, "POST", "/v1/jobs", encode(child))[1] == "unknown_job"


def test_a_researchers_token_is_nothing_to_the_routes_of_devices(case: Case) -> None:
    service = case.grid.node.service
    routes = of(Devices(case.grid.node.node, service.tickets).routes()) | {("POST", EXCHANGE_PATH)}
    ((blob,), *_) = case.grid.node.read("select hash from blob where refs > 0")
    asked = 0
    for method, path in routes:
        for key, value in (("{blob}", blob), ("{lease}", "lease_x"), ("{slot:int}", "0")):
            path = path.replace(key, value)
        for token in (case.eve, case.ann):
            status, code, _ = case.say(token, method, path, b"" if method == "GET" else b"{}")
            assert status == 401, (method, path, code)
            asked += 1
    assert asked == 2 * len(routes)


def test_no_page_shows_or_does_anything_with_a_job_of_another(case: Case) -> None:
    before = case.state()
    pages = [page for page in PAGES if "{job}" in page.path]
    assert len(pages) == sum("{" in page.path for page in PAGES), "another parameter: ask it, too"
    with Browser(case.grid) as eve:
        eve.sign_in(case.eve)
        for name in (case.owned.job, "secret"):
            for page in pages:
                path = page.path.replace("{job}", name)
                replies = [eve.get(path), *([eve.post(path)] if page.act else [])]
                for reply in replies:
                    assert reply.status_code == 404, path
                    assert "ann" not in reply.text
        for page in (page for page in PAGES if "{" not in page.path):
            text = eve.get(page.path).text
            assert case.owned.job not in text
            assert "secret" not in text.replace('name="secret"', "").replace('id="secret"', "")
    assert case.state() == before
    with Browser(case.grid) as ann:
        ann.sign_in(case.ann)
        found = [ann.get(page.path.replace("{job}", case.owned.job)).status_code for page in pages]
        assert 404 not in found
