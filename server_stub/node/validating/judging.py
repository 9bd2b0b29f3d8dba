"""Which results go to a validator, and what its word is worth.

Owns: independence, and what is repeated here. A refusal convicts nobody: the node's own validator
repeats it. So it does with some of a partner's acceptances, at random; a partner that accepted what
the node refuses is not asked again. The node alone folds.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from gpugoblin.errors import GoblinError
from server_stub.node import items
from server_stub.node.state import validators
from server_stub.node.state.validators import Validator
from server_stub.node.state.words import Rules, RunWork, Step
from server_stub.node.store.protocol import Store, Tx
from server_stub.node.validating.desk import Desk
from server_stub.node.work import Check, Checked, Compare, Fold, Recompute, Reply, Work
from server_stub.node.workrunner import Pool

__all__ = ["Judging", "independent", "makers"]

Run = Callable[[RunWork, Work], Awaitable[Reply]]
Maker = tuple[str, str, str]

log = logging.getLogger("gpugoblin.node.validators")

_NO_GRANT: Final = ""


class Host(Protocol):
    """What is asked of the node."""

    @property
    def store(self) -> Store: ...

    @property
    def rules(self) -> Rules: ...

    @property
    def rng(self) -> random.Random: ...

    async def handle(self, handler: Callable[[Step], Any]) -> Any: ...


def makers(tx: Tx, effect: RunWork) -> list[Maker] | None:
    """Owner, network bucket and grant of everybody who returned a result of the task; None where
    one whom the instruction names is not known, and for a task about whose results there is a
    dispute."""
    if tx.one("select 1 from task where id = ? and state = 'suspect'", (effect.task,)) is not None:
        return None
    rows = tx.rows(
        "select l.id, l.owner, l.bucket, l.grant_id from lease l where l.task = ? and (l.id in"
        " (?, ?) or exists (select 1 from vote v where v.lease = l.id))",
        (effect.task, effect.lease, effect.second),
    )
    named = {lease for lease in (effect.lease, effect.second) if lease}
    if not named or not named <= {row[0] for row in rows}:
        return None
    return [(owner, bucket, grant) for _, owner, bucket, grant in rows]


def independent(validator: Validator, made_by: list[Maker]) -> bool:
    """Whether a validator has nothing to do with the makers of a result. Results of the lab's own
    machines, which have no grant, are the node's and its cluster's to judge."""
    return all(
        grant != _NO_GRANT and owner not in validator.owners and bucket not in validator.buckets
        for owner, bucket, grant in made_by
    )


class Judging:
    """Runs items as `inner` does, those that judge volunteers on a validator where one is free."""

    def __init__(self, host: Host, desk: Desk, pool: Pool, inner: Run) -> None:
        self._host = host
        self._desk = desk
        self._pool = pool
        self._inner = inner

    async def run(self, effect: RunWork, item: Work) -> Reply:
        """Raises GoblinError: as `inner`."""
        validator = await self._chosen(effect, item)
        packed = None
        if validator is not None:
            packed = await self._host.store.read(lambda tx: items.build_packed(tx, effect))
        if validator is None or packed is None:
            return await self._inner(effect, item)
        try:
            reply = await self._desk.do(validator.name, packed)
        except GoblinError as error:
            log.warning("%s of task %s: %s", effect.purpose, effect.task, error)
            return await self._inner(effect, item)
        return await self._concluded(effect, item, reply, validator)

    async def _chosen(self, effect: RunWork, item: Work) -> Validator | None:
        if not isinstance(item, (Check, Recompute, Compare)):
            return None
        if not isinstance(item, Compare) and not item.committed:
            return None
        present = self._desk.present()
        if not present:
            return None
        made_by, known = await self._host.store.read(
            lambda tx: (makers(tx, effect), validators.listed(tx))
        )
        if made_by is None:
            return None
        # What the administrator changed since the validator was last heard holds already.
        return next((one for one in present if one in known and independent(one, made_by)), None)

    async def _concluded(
        self, effect: RunWork, item: Work, reply: Reply, validator: Validator
    ) -> Reply:
        if not isinstance(reply, Checked) or not reply.accepted:
            return await self._inner(effect, item)
        if validator not in await self._host.store.read(validators.listed):
            return await self._inner(effect, item)  # removed, caught or changed meanwhile
        if not validator.ours and self._host.rng.random() < self._host.rules.audit_fraction:
            own = await self._inner(effect, item)
            if isinstance(own, Checked) and not own.accepted:
                log.error("the validator %s accepted what is wrong; it is not asked again",
                          validator.name)  # fmt: skip
                self._desk.send_away([validator.name])
                await self._host.handle(lambda step: validators.caught(step, validator.name))
            return own
        if isinstance(item, (Check, Recompute)) and item.fold:
            await self._pool.run(Fold(item.work, item.committed, item.outputs))
        # Its word, and nothing that it says besides: tolerances are measured here.
        return Checked(item.work, True, "", 0.0, 0.0)
