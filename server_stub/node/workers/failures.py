"""What a worker answers when an item fails. Owns: the translation of any exception."""

from __future__ import annotations

import logging

from gpugoblin.errors import GoblinError, StoreError, VerifyError
from server_stub.node.work import Failed
from server_stub.node.workers.frames import failed

__all__ = ["failure"]

log = logging.getLogger("gpugoblin.node.worker")


def failure(work: str, error: Exception) -> Failed:
    """The answer to an item that ended with `error`; what nobody expected is also logged."""
    if isinstance(error, GoblinError):
        return failed(work, error)
    log.error("an item failed", exc_info=error)
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        return failed(work, StoreError("disk_failed", path=str(error.filename), reason=reason))
    reason = f"{type(error).__name__}: {error}"
    return failed(work, VerifyError("item_failed", reason=reason[:500]))
