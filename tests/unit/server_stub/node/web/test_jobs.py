"""The pages of jobs: one's own, their figures, cancel and retry."""

from __future__ import annotations

from gpugoblin.client.certificate import JobCertificate
from gpugoblin.wire.messages.job import JobInfo
from server_stub.node import users
from server_stub.node.state import tolerances
from tests.helpers.lab import Lab, gate, product, until
from tests.helpers.node_pages import Browser, give_job, make_user

__all__: list[str] = []


def begun(lab: Lab, owner: str, name: str = "gram") -> JobInfo:
    """A job of this owner whose only task is computing."""
    lab.node.workers.hold = lab.node.call(gate())
    a, b, graph = product(30, 4, 7)
    job = lab.submit(graph, lab.file(a, "a.npy"), lab.file(b, "b.npy"), name=name, executor="local")
    until(lambda: lab.job(job.job).leased == 1)
    give_job(lab, owner, job.job)
    return job


def go_on(lab: Lab) -> None:
    lab.node.loop.call_soon_threadsafe(lab.node.workers.hold.set)


def test_a_job_is_seen_by_its_owner_alone(grid: Lab) -> None:
    job = begun(grid, "ann", "the <b>gram</b>")
    with Browser(grid) as ann, Browser(grid) as bob:
        ann.sign_in(make_user(grid, "ann"))
        bob.sign_in(make_user(grid, "bob"))
        assert "the &lt;b&gt;gram&lt;/b&gt;" in ann.get("/jobs").text
        page = ann.get(f"/jobs/{job.job}")
        assert page.status_code == 200
        assert "<b>gram" not in page.text
        assert "0 of 1 tasks verified" in page.text
        assert "the &lt;b" not in bob.get("/jobs").text
        for path in ("", "/certificate"):
            assert bob.get(f"/jobs/{job.job}{path}").status_code == 404
        for path in ("/cancel", "/retry"):
            assert bob.post(f"/jobs/{job.job}{path}").status_code == 404
        assert grid.node.read("select state from job") == [("running",)]


def test_an_administrator_sees_all(grid: Lab) -> None:
    job = begun(grid, "ann")
    with Browser(grid) as boss:
        boss.sign_in(make_user(grid, "boss"))
        assert boss.get(f"/jobs/{job.job}").status_code == 404

        async def promote() -> None:
            await grid.node.node.store.write(
                lambda tx: users.set_role(tx, 3.0, "boss", "administrator")
            )

        grid.node.call(promote())
        assert "gram" in boss.get("/jobs").text
        assert boss.get(f"/jobs/{job.job}").status_code == 200


def test_the_page_shows_what_the_api_says(grid: Lab) -> None:
    job = begun(grid, "ann")
    go_on(grid)
    until(lambda: grid.node.read("select state from job") == [("done",)])
    with Browser(grid) as ann:
        ann.sign_in(make_user(grid, "ann"))
        page = ann.get(f"/jobs/{job.job}").text
        for words in ("100.0 %", "1 of 1 tasks verified", "this lab", "<svg", "in place"):
            assert words in page
        ((product_checks, recomputed),) = grid.node.read("select by_product, by_recompute from job")
        assert product_checks + recomputed == 1
        assert ("product check</th>" in page) == bool(product_checks)
        assert ("recomputed by the validator</th>" in page) == bool(recomputed)
        assert "Cancel" not in page
        reply = ann.get(f"/jobs/{job.job}/certificate")
        assert "attachment" in reply.headers["content-disposition"]
        found = JobCertificate.from_json(reply.text)
        assert (found.body.job, found.body.tasks) == (job.job, 1)


def test_cancel_and_going_on(grid: Lab) -> None:
    job = begun(grid, "ann")
    with Browser(grid) as ann:
        ann.sign_in(make_user(grid, "ann"))
        assert "Cancel" in ann.get(f"/jobs/{job.job}").text
        assert ann.get(f"/jobs/{job.job}/certificate").status_code == 409
        assert ann.post(f"/jobs/{job.job}/cancel").headers["location"] == f"/jobs/{job.job}"
        assert grid.node.read("select state from job") == [("cancelled",)]
        assert "Go on with it" in ann.get(f"/jobs/{job.job}").text
        assert ann.post(f"/jobs/{job.job}/retry").status_code == 303
        assert ann.post(f"/jobs/{job.job}/retry").status_code == 409
        go_on(grid)
        until(lambda: grid.node.read("select state from job") == [("done",)])


def test_who_may_only_read_may_not_cancel(grid: Lab) -> None:
    job = begun(grid, "ann")
    with Browser(grid) as ann:
        ann.sign_in(make_user(grid, "ann", "read"))
        page = ann.get(f"/jobs/{job.job}").text
        assert "Cancel" not in page
        assert ann.post(f"/jobs/{job.job}/cancel").status_code == 403
        assert grid.node.read("select state from job") == [("running",)]


def test_a_failure_is_told(grid: Lab) -> None:
    job = begun(grid, "ann")

    async def fail() -> None:
        await grid.node.node.store.write(lambda tx: tx.change(
            "update job set state = 'failed', error_text = 'The disk <i>burnt</i>.'"
        ))  # fmt: skip

    grid.node.call(fail())
    with Browser(grid) as ann:
        ann.sign_in(make_user(grid, "ann"))
        assert "The disk &lt;i&gt;burnt&lt;/i&gt;." in ann.get(f"/jobs/{job.job}").text


def test_a_measured_tolerance_is_shown(grid: Lab) -> None:
    job = begun(grid, "ann")
    with Browser(grid) as ann:
        ann.sign_in(make_user(grid, "ann"))
        assert "tolerance" not in ann.get(f"/jobs/{job.job}").text

        grid.node.call(grid.node.node.handle(
            lambda step: tolerances.note(step, job.job, "a" * 64, 1, ((1e-7, 3e-7),))
        ))  # fmt: skip
        page = ann.get(f"/jobs/{job.job}").text
        assert "at most 3.0e-07 (measured, 1 graph)" in page
