from __future__ import annotations

import ast
from pathlib import Path

import gpugoblin
from gpugoblin.error_codes.graph import CODES


def raised_codes() -> set[str]:
    """The first argument of every GraphError(...) in the catalog and the graph."""
    root = Path(gpugoblin.__file__).parent
    found: set[str] = set()
    for path in [*root.glob("catalog/**/*.py"), *root.glob("graph/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "GraphError":
                assert isinstance(node.args[0], ast.Constant), path
                found.add(str(node.args[0].value))
    return found


def test_every_declared_code_is_raised_and_no_other() -> None:
    assert raised_codes() == set(CODES)
