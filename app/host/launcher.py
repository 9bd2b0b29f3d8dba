"""Who starts an engine, by level. Owns that choice and nothing else."""

from __future__ import annotations

from app.host.spec import Process
from app.sandbox.plain import launch_plain
from app.sandbox.spec import EngineLaunch

__all__ = ["default_launcher"]


def default_launcher(spec: EngineLaunch) -> Process:
    """The plain child for level `none`, the sandbox for every other."""
    if spec.level == "none":
        return launch_plain(spec)
    from app.sandbox.launch import launch

    return launch(spec)
