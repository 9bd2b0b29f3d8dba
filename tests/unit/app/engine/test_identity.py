"""Names that travel with every result."""

from __future__ import annotations

import re

from app.engine import identity
from gpugoblin.catalog.registry import catalog_hash


def test_names() -> None:
    assert re.fullmatch(r"engine-[0-9.]+", identity.build_name())
    assert identity.catalog() == catalog_hash()
    assert re.fullmatch(r"[0-9a-f]{64}", identity.kernel_set("cpu"))


def test_the_kernel_set_follows_the_sources() -> None:
    assert identity.kernel_set("cpu") != identity.kernel_set("none")
