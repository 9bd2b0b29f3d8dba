"""Whether the world reaches this node, as its coordinator sees it, and what to do if not.

Owns: the question and the advice. Must not: change anything.
"""

from __future__ import annotations

import ipaddress
import time
from typing import Final

import psutil
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.wire.codec import encode
from gpugoblin.wire.messages.probe import Probe, ProbeReply
from server_stub.node.coordinator_link import SignedHttp
from server_stub.node.settings import NodeSettings

__all__ = ["MOST_SKEW_S", "ask", "explained", "is_behind_nat", "skew_s"]

PATH: Final = "/v1/node/probe"
MOST_SKEW_S: Final = 30.0
"""Signed requests and tickets are refused where clocks differ by minutes."""

_ADVICE: Final = {
    "name_unknown": "its name is in no directory (DNS): correct the registered address",
    "refused": "nothing listens there: is the node running, and is the port the registered one?",
    "timed_out": "no answer comes: a firewall drops the packets, or a router does not pass them on",
    "unreachable": "there is no way to that address, or its name stands for a private one: correct"
    " the registered address, or the name in DNS",
    "tls_failed": "what answers there speaks no TLS that can be trusted: another program, or a"
    " proxy that ends TLS, must not stand before the node",
    "certificate_differs": "another certificate is shown there than the registered one: have the"
    " operator register the new one",
}
_NAT: Final = (
    "; this machine has private addresses only, so it is behind NAT: pass TCP port {port} of the"
    " router on to it, or run the node on a machine with a public address, or have a public"
    " machine pass the port through without ending TLS (`stream` of nginx, `mode tcp` of HAProxy)"
)


def ask(key: Ed25519PrivateKey, address: str, certificate_sha256: str) -> ProbeReply:
    """Has the coordinator look. Raises GoblinError: `coordinator_away`, or what it said."""
    http = SignedHttp(address, certificate_sha256, key, time.time)
    try:
        return http.call("POST", PATH, encode(Probe()), ProbeReply)
    finally:
        http.close()


def explained(found: ProbeReply, settings: NodeSettings) -> tuple[bool, str]:
    """Whether the node is reached, and a sentence that says so or what to do."""
    if found.outcome == "reached":
        return True, f"the coordinator reaches {found.address} in {found.took_s * 1000:.0f} ms"
    advice = _ADVICE[found.outcome]
    if settings.listen_host in ("127.0.0.1", "::1", "localhost"):
        advice += f"; listen_host is {settings.listen_host}: set it to 0.0.0.0"
    if found.outcome in ("refused", "timed_out", "unreachable") and is_behind_nat():
        advice += _NAT.format(port=settings.listen_port)
    return False, f"the coordinator does not reach {found.address}: {advice}"


def skew_s(found: ProbeReply) -> float:
    """How far this machine's clock is before the coordinator's."""
    return time.time() - found.now_s


def is_behind_nat() -> bool:
    """Whether no address of this machine is one of the Internet's."""
    for addresses in psutil.net_if_addrs().values():
        for each in addresses:
            try:
                if ipaddress.ip_address(each.address.split("%")[0]).is_global:
                    return False
            except ValueError:
                continue  # of a link, not of the network
    return True
