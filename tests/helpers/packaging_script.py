"""Scripts of `packaging/`, which are no package: that name belongs to a library."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

__all__ = ["PACKAGING", "script"]

PACKAGING = Path(__file__).parents[2] / "packaging"


def script(name: str) -> Any:
    """The module of `packaging/NAME.py`."""
    place = PACKAGING / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name.replace("/", "_"), place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
