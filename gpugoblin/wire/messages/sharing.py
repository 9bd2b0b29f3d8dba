"""Who may see a job: the researcher's client and the lab node.

Owns: the dialogue `job.share*`.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from gpugoblin.wire.bounds import JobIdField
from gpugoblin.wire.registry import message

__all__ = ["MAX_SHARED", "JobShare", "JobSharing"]

MAX_SHARED: Final = 100

UserName = Annotated[str, Meta(min_length=1, max_length=64)]
UserNames = Annotated[tuple[UserName, ...], Meta(max_length=MAX_SHARED)]


@message("job.share", sender="client", receiver="node", max_bytes=64 * 1024)
class JobShare(Struct, frozen=True, forbid_unknown_fields=True):
    """From now on these users, or everybody in the lab, may see a job and its results."""

    users: UserNames = ()
    lab: bool = False


@message("job.sharing", sender="node", receiver="client", max_bytes=64 * 1024)
class JobSharing(Struct, frozen=True, forbid_unknown_fields=True):
    """Who may see a job beside its owner and the lab's administrators."""

    job: JobIdField
    owner: UserName
    users: UserNames = ()
    lab: bool = False
