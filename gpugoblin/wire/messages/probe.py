"""Whether the world reaches a lab node: the node asks, its coordinator looks.

Owns: the dialogue `node.probe*`. The question says nothing: the signature says which lab it is, and
the coordinator looks at the address that its operator has registered, at no other.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpugoblin.wire.bounds import Hex64, LabIdField, PublicKey, Seconds
from gpugoblin.wire.registry import message

__all__ = ["Probe", "ProbeOutcome", "ProbeReply"]

ProbeOutcome = Literal[
    "reached", "name_unknown", "refused", "timed_out", "unreachable", "tls_failed",
    "certificate_differs",
]  # fmt: skip
"""`unreachable`: the network has no way there. `tls_failed`: somebody answers, without TLS that can
be trusted. `certificate_differs`: TLS with another certificate than the registered one."""


@message("node.probe", sender="node", receiver="coordinator", max_bytes=1024)
class Probe(Struct, frozen=True, forbid_unknown_fields=True):
    """Can you reach me? Signed by the lab node's key."""


@message("node.probe_reply", sender="coordinator", receiver="node", max_bytes=4096)
class ProbeReply(Struct, frozen=True, forbid_unknown_fields=True):
    """What is registered of the lab, and what the coordinator saw there.

    Args:
        certificate_sha256: the registered one.
        took_s: to connect, TLS included. now_s: the coordinator's clock.
    """

    lab: LabIdField
    address: Annotated[str, Meta(max_length=200, pattern=r"\Ahttps?://[A-Za-z0-9.:\[\]-]+\Z")]
    outcome: ProbeOutcome
    took_s: Seconds
    now_s: Seconds
    coordinator_key: PublicKey
    certificate_sha256: Hex64 | None = None
