"""The pages to sign in with a token, and to sign out.

Owns: those and their cookies. The answers are the same for every token that is not right.
"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from gpugoblin.errors import NodeError, WebError
from server_stub.node import users
from server_stub.node.node import Node
from server_stub.node.store.protocol import Tx
from server_stub.node.web import sessions
from server_stub.node.web.visit import Page, Visit, render
from server_stub.web import forms
from server_stub.web.pages import go

__all__ = ["PAGES", "PATH", "SESSION", "VISITOR", "user_of"]

PATH: Final = "/signin"
# Other names than the coordinator's: cookies do not tell two ports of one host apart.
SESSION: Final = "__Host-node-session"
VISITOR: Final = "__Host-node-visitor"
MAX_TOKEN: Final = 128


def user_of(tx: Tx, token: str, now_s: float) -> users.User | None:
    """Whose token this is; None also where it has ended: a page does not say which."""
    try:
        return users.by_token(tx, token, now_s)
    except NodeError:
        return None


async def _first(node: Node, visit: Visit) -> Response:
    return go("/jobs" if visit.user is not None else PATH)


async def _signin(node: Node, visit: Visit) -> Response:
    if visit.user is not None and visit.error is None:
        return go("/jobs")
    visit.given = {}  # a secret is not shown again
    return render(visit, "signin.html", lab=node.settings.lab)


async def _signin_act(node: Node, visit: Visit) -> Response:
    token = visit.given.get("secret", "").strip()[:MAX_TOKEN]

    def look(tx: Tx) -> bool:
        user = user_of(tx, token, visit.now_s)
        return user is not None and "read" in user.scopes

    if not await node.store.read(look):
        raise WebError("signin_refused")

    def begin(tx: Tx) -> str:
        if visit.session:
            sessions.end(tx, visit.session)
        return sessions.begin(tx, visit.now_s, token)

    secret = await node.handle(lambda step: begin(step.tx))
    response = go("/jobs")
    forms.set_cookie(response, SESSION, secret, sessions.LASTS_S, "strict")
    return response


async def _signout(node: Node, visit: Visit) -> Response:
    return go("/jobs")


async def _signout_act(node: Node, visit: Visit) -> Response:
    await node.handle(lambda step: sessions.end(step.tx, visit.session))
    response = go(PATH)
    forms.set_cookie(response, SESSION, "", site="strict")
    return response


PAGES: Final = (
    Page("/", _first, open=True),
    Page(PATH, _signin, _signin_act, open=True),
    Page("/signout", _signout, _signout_act),
)
