"""Cards and users by the kernel's books, from trees like its own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from app.policy.snapshot import ForeignUse
from app.probes.gpus import drm
from app.probes.gpus.drm import DrmUses, drm_cards
from gpugoblin.units import MIB


def card(root: Path, number: int, address: str, vendor: str = "0x1002") -> None:
    device = root / "devices" / address
    device.mkdir(parents=True)
    (device / "vendor").write_text(vendor)
    (device / "mem_info_vram_total").write_text(str(8192 * MIB))
    (root / "drm" / f"card{number}").mkdir(parents=True)
    (root / "drm" / f"card{number}" / "device").symlink_to(device)


def test_cards_by_address_and_no_connectors(tmp_path: Path) -> None:
    card(tmp_path, 0, "0000:03:00.0")
    card(tmp_path, 1, "0000:04:00.0")
    (tmp_path / "drm" / "card0-DP-1").mkdir()
    (tmp_path / "drm" / "version").write_text("x")
    found = drm_cards(tmp_path / "drm")
    assert [each.address for each in found] == ["0000:03:00.0", "0000:04:00.0"]
    assert found[0].memory_bytes == 8192 * MIB
    assert drm_cards(tmp_path / "nowhere") == ()


def client(root: Path, pid: int, name: str, text: str, device: str = "/dev/dri/renderD128") -> None:
    (root / str(pid) / "fd").mkdir(parents=True, exist_ok=True)
    (root / str(pid) / "fdinfo").mkdir(exist_ok=True)
    (root / str(pid) / "comm").write_text(f"{name}\n")
    (root / str(pid) / "fd" / "5").unlink(missing_ok=True)
    (root / str(pid) / "fd" / "5").symlink_to(device)
    (root / str(pid) / "fdinfo" / "5").write_text(text)


AMD = "drm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t{id}\n" \
      "drm-memory-vram:\t{kib} KiB\ndrm-engine-gfx:\t{ns} ns\n"  # fmt: skip


def test_users_and_their_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = iter([100.0, 102.0])
    # The module's own name for it: other threads of this process ask the real clock.
    monkeypatch.setattr(drm, "time", SimpleNamespace(monotonic=lambda: next(now_s)))
    client(tmp_path, 7, "game", AMD.format(id=1, kib=409_600, ns=0))
    client(tmp_path, 8, "gnome-shell", AMD.format(id=2, kib=409_600, ns=0))
    client(tmp_path, 9, "ours", AMD.format(id=3, kib=409_600, ns=0))
    client(tmp_path, 10, "other", "pos:\t0\n", "/dev/null")
    client(tmp_path, 11, "broken", "drm-pdev:\nnonsense\0\n")
    uses = DrmUses(lambda: [9], tmp_path)
    assert uses.look() == {"0000:03:00.0": (ForeignUse("game", 400 * MIB, 0.0),)}
    client(tmp_path, 7, "game", AMD.format(id=1, kib=409_600, ns=1_000_000_000))
    assert uses.look()["0000:03:00.0"] == (ForeignUse("game", 400 * MIB, 50.0),)
