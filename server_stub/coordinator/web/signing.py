"""The pages to sign in and out: a mail address, then the code of the letter.

Owns: the two steps and their cookies, and what the log says of them. The answers are the same for
every mail address. The log has neither mail addresses nor codes: what belongs to one letter carries
the same tag.
"""

from __future__ import annotations

import logging
from typing import Final

from starlette.responses import Response

from gpugoblin.errors import CoordinatorError
from server_stub.coordinator.gate import Service
from server_stub.coordinator.handlers import signin
from server_stub.coordinator.web.route import Page
from server_stub.coordinator.web.visit import Visit, go, render
from server_stub.web import forms

__all__ = ["PAGES"]

_log = logging.getLogger("gpugoblin.coordinator.signing")


async def _signin(service: Service, visit: Visit) -> Response:
    return render(visit, "signin.html", is_off=not service.house.settings.mail_host)


async def _signin_act(service: Service, visit: Visit) -> Response:
    mailbox = visit.given.get("mailbox", "")
    ask = await service.transact(
        lambda tx: signin.ask_code(
            service.house,
            tx,
            visit.now_s,
            service.rng,
            mailbox,
            visit.language,
            visit.address,
        )
    )
    _log.info("sign-in: a code was asked for [%s]", signin.tag_of(ask))
    response = go("/signin/code")
    forms.set_cookie(response, forms.ASK, ask, service.house.settings.login_s)
    return response


async def _code(service: Service, visit: Visit) -> Response:
    if not visit.request.cookies.get(forms.ASK):
        return go("/signin")
    return render(visit, "code.html", minutes=round(service.house.settings.login_s / 60))


async def _code_act(service: Service, visit: Visit) -> Response:
    ask = visit.request.cookies.get(forms.ASK, "")
    found = await service.transact(
        lambda tx: signin.redeem(
            service.house, tx, visit.now_s, service.rng, ask, visit.given.get("code", "")
        )
    )
    if isinstance(found, CoordinatorError):
        _log.warning("sign-in: refused, %s [%s]", found.code, signin.tag_of(ask))
        raise found
    person = await service.transact(
        lambda tx: signin.person_of(service.house, tx, visit.now_s, found)
    )
    account = "" if person is None else person.account
    _log.info("sign-in: %s, session %s [%s]", account, signin.tag_of(found), signin.tag_of(ask))
    if visit.session:
        await service.transact(lambda tx: signin.sign_out(tx, visit.session))
    response = go("/account")
    forms.set_cookie(response, forms.SESSION, found, service.house.settings.session_s)
    forms.set_cookie(response, forms.ASK, "")
    return response


async def _signout(service: Service, visit: Visit) -> Response:
    return go("/account")


async def _signout_act(service: Service, visit: Visit) -> Response:
    person = visit.person
    if person is not None and visit.given.get("everywhere") == "1":
        await service.transact(lambda tx: signin.sign_out_all(tx, person.account))
    else:
        await service.transact(lambda tx: signin.sign_out(tx, visit.session))
    response = go("/")
    forms.set_cookie(response, forms.SESSION, "")
    return response


PAGES: Final = (
    Page("/signin", _signin, _signin_act),
    Page("/signin/code", _code, _code_act),
    Page("/signout", _signout, _signout_act, "person"),
)
