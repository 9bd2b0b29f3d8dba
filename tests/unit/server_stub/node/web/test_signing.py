"""Signing in and out with a token."""

from __future__ import annotations

from server_stub.node import users
from server_stub.node.web.signing import SESSION
from tests.helpers.lab import Lab
from tests.helpers.node_pages import Browser, make_user

__all__: list[str] = []


def test_in_and_out(grid: Lab) -> None:
    token = make_user(grid, "ann")
    with Browser(grid) as ann:
        assert ann.get("/").headers["location"] == "/signin"
        assert ann.get("/jobs").headers["location"] == "/signin"
        reply = ann.sign_in(f"  {token} ")
        assert (reply.status_code, reply.headers["location"]) == (303, "/jobs")
        cookie = reply.headers["set-cookie"]
        for words in ("Secure", "HttpOnly", "SameSite=strict", "Path=/", "Max-Age=43200"):
            assert words in cookie
        assert token not in cookie
        assert "ann" in ann.get("/jobs").text
        assert ann.get("/signin").headers["location"] == "/jobs"
        kept = ann.session.cookies[SESSION]
        assert ann.post("/signout").headers["location"] == "/signin"
        assert SESSION not in ann.session.cookies
        ann.session.cookies.set(SESSION, kept, domain="127.0.0.1", path="/", secure=True)
        assert ann.get("/jobs").headers["location"] == "/signin", "the server has ended it, too"


def test_every_wrong_token_has_the_same_answer(grid: Lab) -> None:
    gone, blind = make_user(grid, "gone"), make_user(grid, "blind", "submit")

    async def revoke() -> None:
        await grid.node.node.store.write(lambda tx: users.revoke(tx, 2.0, "gone"))

    grid.node.call(revoke())
    with Browser(grid) as somebody:
        answers = set()
        for wrong in ("goblin_wrong", "", "x" * 1000, gone, blind):
            somebody.get("/signin")
            reply = somebody.post("/signin", secret=wrong)
            assert (reply.status_code, SESSION in somebody.session.cookies) == (403, False)
            assert wrong == "" or wrong not in reply.text
            answers.add(reply.text)
        assert len(answers) == 1


def test_guessing_is_slowed_down(grid: Lab) -> None:
    with Browser(grid) as guesser:
        guesser.get("/signin")
        codes = [guesser.post("/signin", secret=f"goblin_{n}").status_code for n in range(14)]
        assert codes[:10] == [403] * 10
        assert codes[-1] == 429
        token = make_user(grid, "ann")
        assert guesser.post("/signin", secret=token).status_code == 429
