"""The lab node that the operator runs beside the coordinator, for researchers without a machine.

Owns: what is said of it: the setting `hosted_lab` names a registered lab, and its row says where it
is. The node is another process, with a store and a key of its own; here it is a lab like any other,
and nothing more is known of it. Must not: reach into it.
"""

from __future__ import annotations

from typing import NamedTuple

from gpugoblin.ids import LabId
from server_stub.coordinator.house import House
from server_stub.coordinator.store import Transaction

__all__ = ["HostedLab", "hosted"]


class HostedLab(NamedTuple):
    """A lab node that researchers without one may ask the operator for."""

    lab: LabId
    name: str
    address: str
    certificate_sha256: str | None
    is_suspended: bool


def hosted(house: House, tx: Transaction) -> HostedLab | None:
    """The hosted lab; None when there is none, or the operator registered none of that name.

    A researcher's lab never is it, though one may be registered under that name first: our pages
    would send others' data there.
    """
    name = house.settings.hosted_lab
    row = tx.row(
        "SELECT lab, name, address, certificate_sha256, suspended_s FROM lab"
        " WHERE name = ? AND application IS NULL",
        name,
    )
    if not name or row is None:
        return None
    lab, name, address, certificate, suspended_s = row
    return HostedLab(LabId(lab), name, address, certificate, suspended_s is not None)
