"""Which tests a file has, for tables that name them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["ROOT", "named_tests"]

ROOT: Final = Path(__file__).resolve().parents[2]


@cache
def named_tests(file: str) -> frozenset[str]:
    """The names of the tests of a file, which is named from the root of the repository."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    found = (node.name for node in tree.body if isinstance(node, ast.FunctionDef))
    return frozenset(name for name in found if name.startswith("test_"))
