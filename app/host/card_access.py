"""What an engine must be given to reach one found card, and nothing of any other.

Owns: from a card to its device nodes and the kernel's directories, per kind of driver. Must not:
open a node, or start anything.

AMD and Intel (`drm`): the render node of that PCI device, never the one that sets display modes,
and its own directory below /sys/devices. NVIDIA: the node of its minor number, those that all cards
share (`nvidiactl`, `nvidia-uvm`) and its render node.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from app.host.cards import NVIDIA, FoundCard
from app.sandbox.spec import CardAccess
from gpugoblin.errors import EngineError

__all__ = ["access_to"]

_RENDER: Final = re.compile(r"renderD\d{1,4}")
_MINOR: Final = re.compile(r"^Device Minor:\s*(\d{1,4})$", re.MULTILINE)
_MOST_BYTES: Final = 64 * 1024


def access_to(card: FoundCard, memory_bytes: int, root: Path = Path("/")) -> CardAccess:
    """Nodes and directories of one card.

    Args:
        memory_bytes: of the card's own memory one task may take.
        root: of the machine; another one is for tests.

    Raises:
        EngineError: `card_node_missing`.
    """
    if card.kind == "software":
        return CardAccess("software")
    device = root / "sys/bus/pci/devices" / card.address
    if not card.address or not device.exists():
        raise _missing(card, f"/sys/bus/pci/devices/{card.address}")
    place = Path(os.path.realpath(device))
    render = _render(place)
    if card.vendor == NVIDIA:
        nodes = [*_nvidia(card, root), *(render[:1])]
        shown = ["proc/driver/nvidia"]
    elif render:
        nodes, shown = render[:1], []
    else:
        raise _missing(card, "/dev/dri/renderD*")
    for node in nodes:
        _require(card, root, node)
    inside = place.relative_to(os.path.realpath(root))
    return CardAccess(
        "nvidia" if card.vendor == NVIDIA else "drm",
        nodes=tuple(f"/{node}" for node in nodes),
        shown=tuple(f"/{path}" for path in (inside, *shown)),
        links=_links(place, f"/{inside}", card.address),
        memory_bytes=memory_bytes,
    )


def _render(place: Path) -> list[str]:
    try:
        names = sorted(os.listdir(place / "drm"))
    except OSError:
        return []
    return [f"dev/dri/{name}" for name in names if _RENDER.fullmatch(name)]


def _links(place: Path, inside: str, address: str) -> tuple[tuple[str, str], ...]:
    """How libraries find the directory: by the PCI address, and by the number of the node."""
    links = [(inside, f"/sys/bus/pci/devices/{address}")]
    for node in _render(place)[:1]:
        name = node.rpartition("/")[2]
        try:
            number = (place / "drm" / name / "dev").read_text(encoding="ascii").strip()
        except OSError:
            continue
        if re.fullmatch(r"\d{1,4}:\d{1,6}", number):
            links.append((f"{inside}/drm/{name}", f"/sys/dev/char/{number}"))
    return tuple(links)


def _nvidia(card: FoundCard, root: Path) -> list[str]:
    path = root / "proc/driver/nvidia/gpus" / card.address / "information"
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            minor = _MINOR.search(file.read(_MOST_BYTES))
    except OSError:
        minor = None
    if minor is None:
        raise _missing(card, f"/proc/driver/nvidia/gpus/{card.address}/information")
    return [f"dev/nvidia{minor[1]}", "dev/nvidiactl", "dev/nvidia-uvm"]


def _require(card: FoundCard, root: Path, node: str) -> None:
    if not os.access(root / node, os.R_OK | os.W_OK):
        raise _missing(card, f"/{node}")


def _missing(card: FoundCard, node: str) -> EngineError:
    return EngineError("card_node_missing", card=card.name, node=node)
