"""The table of error codes: one file a family, merged here.

Owns: the declarations that messages, docs and translations are made from. Must not: import
anything of gpugoblin. Two files that declare one code are a programming error, found at import.
"""

from __future__ import annotations

from gpugoblin.error_codes import (
    agent,
    client,
    coordinator,
    engine,
    graph,
    node,
    plan,
    sandbox,
    settings,
    store,
    verify,
    web,
    wire,
)
from gpugoblin.error_codes.spec import ErrorCode

__all__ = ["ALL_CODES", "FAMILIES", "ErrorCode"]

FAMILIES: dict[str, dict[str, ErrorCode]] = {
    "agent": agent.CODES,
    "client": client.CODES,
    "coordinator": coordinator.CODES,
    "engine": engine.CODES,
    "graph": graph.CODES,
    "node": node.CODES,
    "plan": plan.CODES,
    "sandbox": sandbox.CODES,
    "settings": settings.CODES,
    "store": store.CODES,
    "verify": verify.CODES,
    "web": web.CODES,
    "wire": wire.CODES,
}


def _merge() -> dict[str, ErrorCode]:
    merged: dict[str, ErrorCode] = {}
    for family, codes in FAMILIES.items():
        for code, declared in codes.items():
            if code in merged:
                raise LookupError(f"error code {code!r} is declared twice, again in {family}")
            merged[code] = declared
    return merged


ALL_CODES: dict[str, ErrorCode] = _merge()
