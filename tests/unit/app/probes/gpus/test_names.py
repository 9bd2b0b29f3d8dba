"""Names of programs: the desktop's own, cut by the kernel or not."""

from __future__ import annotations

import os

from app.probes.gpus.names import is_desktop, program_of


def test_names() -> None:
    assert is_desktop("gnome-shell")
    assert is_desktop("kscreenlocker_g")
    assert not is_desktop("blender")
    assert program_of(os.getpid())
    assert program_of(2**22 + 1) == ""
