"""What stands before every page: headers, forms that are ours, sessions that hold."""

from __future__ import annotations

from pathlib import Path

from server_stub.node import users
from server_stub.node.web.site import PAGES
from tests.helpers.lab import Lab, grid_settings
from tests.helpers.node import LabNode
from tests.helpers.node_pages import Browser, make_user

__all__: list[str] = []


def test_every_answer_has_the_policy(grid: Lab) -> None:
    with Browser(grid) as ann:
        paths = ["/signin", "/jobs", "/static/site.css", "/static/none", "/jobs/none"]
        before = [ann.get(path) for path in paths]
        ann.sign_in(make_user(grid, "ann"))
        after = [ann.get(path) for path in [*paths, "/node"]]
        assert [one.status_code for one in before] == [200, 303, 200, 404, 303]
        assert [one.status_code for one in after] == [303, 200, 200, 404, 404, 200]
        for reply in before + after:
            policy = reply.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert reply.headers["x-content-type-options"] == "nosniff"
            assert "style=" not in reply.text
            assert "<style" not in reply.text
            assert "onclick" not in reply.text


def test_a_form_of_another_place_does_nothing(grid: Lab) -> None:
    with Browser(grid) as ann:
        ann.sign_in(make_user(grid, "ann"))
        assert ann.post("/signout", token="x" * 43).status_code == 403
        evil = {"Origin": "https://evil.example"}
        assert ann.post("/signout", headers=evil).status_code == 403
        assert ann.post("/signout", headers={"Sec-Fetch-Site": "same-site"}).status_code == 403
        json = {"Content-Type": "application/json"}
        assert ann.post("/signout", headers=json).status_code == 400
        assert ann.post("/signout", big="x" * 100_000).status_code == 413
        assert ann.get("/jobs").status_code == 200
        own = {"Origin": ann.base, "Sec-Fetch-Site": "same-origin"}
        assert ann.post("/signout", headers=own).status_code == 303


def test_a_token_that_is_revoked_ends_its_sessions(grid: Lab) -> None:
    with Browser(grid) as ann, Browser(grid) as bob:
        ann.sign_in(make_user(grid, "ann"))
        bob.sign_in(make_user(grid, "bob"))

        async def revoke() -> None:
            await grid.node.node.store.write(lambda tx: users.revoke(tx, 2.0, "ann"))

        grid.node.call(revoke())
        assert ann.get("/jobs").headers["location"] == "/signin"
        assert bob.get("/jobs").status_code == 200


def test_a_session_survives_a_restart(tmp_path: Path) -> None:
    given = grid_settings()
    with LabNode(tmp_path, **given) as node, Lab(node, tmp_path) as lab, Browser(lab) as first:
        first.sign_in(make_user(lab, "ann"))
    with LabNode(tmp_path, **given) as node, Lab(node, tmp_path) as lab, Browser(lab) as again:
        again.session.cookies.update(first.session.cookies)
        again.token = first.token
        assert again.get("/jobs").status_code == 200
        assert again.post("/signout").status_code == 303


def test_a_link_from_elsewhere_comes_twice(grid: Lab) -> None:
    with Browser(grid) as ann:
        reply = ann.get("/jobs", **{"Sec-Fetch-Site": "cross-site"})
        assert reply.status_code == 200
        assert 'http-equiv="refresh"' in reply.text
        assert ann.get("/jobs", **{"Sec-Fetch-Site": "same-origin"}).status_code == 303


def test_pages_can_be_switched_off(tmp_path: Path) -> None:
    with (
        LabNode(tmp_path, **grid_settings(), pages=False) as node,
        Lab(node, tmp_path) as lab,
        Browser(lab) as ann,
    ):
        assert ann.get("/signin").status_code == 404
        assert ann.get("/v1/health").status_code == 200


def test_only_signing_in_is_open() -> None:
    assert [page.path for page in PAGES if page.open] == ["/", "/signin"]
