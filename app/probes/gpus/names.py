"""Programs that belong to a desktop and use a card all the time without meaning it.

Owns: the list. An owner adds to it by `foreign.ignore`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from app.probes.files import read_text

__all__ = ["DESKTOP_PROGRAMS", "is_desktop", "program_of"]

PROC: Final = Path("/proc")

DESKTOP_PROGRAMS: Final = frozenset(
    {
        "Hyprland", "Xorg", "Xwayland", "X", "budgie-wm", "chrome", "chromium", "cinnamon",
        "code", "cosmic-comp", "cosmic-panel", "ksmserver", "kwin_wayland", "kwin_x11", "labwc",
        "firefox", "firefox-bin", "firefox-esr", "gala", "gnome-shell", "kscreenlocker_greet",
        "ksplashqml", "marco", "muffin", "mutter", "niri", "nautilus", "picom", "plasma-discover",
        "plasmashell", "river", "sddm-greeter", "gdm-x-session", "slack", "sway", "swaylock",
        "systemsettings", "thunderbird", "wayfire", "weston", "wireplumber", "pipewire", "xfwm4",
        "xfdesktop", "xdg-desktop-portal", "gnome-control-center", "nvidia-persistenced",
        "nvidia-settings", "steamwebhelper",
    }
)  # fmt: skip
_KERNEL_CHARACTERS: Final = 15
_SHORT: Final = frozenset(name[:_KERNEL_CHARACTERS] for name in DESKTOP_PROGRAMS)


def is_desktop(program: str) -> bool:
    """True for a program of the desktop. Names of the kernel end after 15 characters."""
    return program in DESKTOP_PROGRAMS or program in _SHORT


def program_of(pid: int, root: Path = PROC) -> str:
    """The name of a process's program; empty when it is gone."""
    return read_text(root / str(pid) / "comm", 64) or ""
