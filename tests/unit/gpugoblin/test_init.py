"""Importing the package: fast, light, on any system; every public name is there."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import typing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import gpugoblin as gg

BLOCKED = """
import builtins, os, socket, sys
for name in ("fcntl", "pwd", "grp", "resource", "termios", "torch", "zarr", "jax", "PySide6",
             "server_stub", "app", "cryptography", "psutil", "uvicorn"):
    sys.modules[name] = None
del socket.AF_UNIX
if hasattr(os, "memfd_create"):
    del os.memfd_create
for name in ("getuid", "geteuid", "fork", "eventfd", "pidfd_open", "sched_getaffinity"):
    if hasattr(os, name):
        delattr(os, name)
"""

EVERYTHING = (
    BLOCKED
    + """
import gpugoblin as gg
for name in gg.__all__:
    getattr(gg, name)
import gpugoblin.cli, gpugoblin.client.commands
import numpy as np
x = gg.exp(gg.array(np.ones((2, 3), np.float32)) @ np.ones((3, 2), np.float32))
assert x.shape == (2, 2)
try:
    gg.connect("local")
except gg.errors.ClientError as error:
    print(error.code)
"""
)

LIGHT = """
import sys
import gpugoblin
heavy = ("numpy", "torch", "zarr", "requests", "rich", "msgspec", "socket", "ssl", "server_stub",
         "app", "PySide6", "asyncio", "fcntl")
print([name for name in heavy if name in sys.modules])
"""

NOTHING_OF_OTHERS = """
import sys
import gpugoblin as gg
for name in gg.__all__:
    getattr(gg, name)
wrong = ("torch", "zarr", "jax", "PySide6", "server_stub", "app", "IPython", "cryptography")
print([name for name in wrong if name in sys.modules])
"""


def run(program: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


def test_all_of_it_loads_where_little_is_there() -> None:
    assert run(EVERYTHING) == "local_unsupported"


def test_importing_loads_nothing_heavy() -> None:
    assert run(LIGHT) == "[]"


def test_all_names_load_no_server_no_torch_no_window() -> None:
    assert run(NOTHING_OF_OTHERS) == "[]"


@pytest.mark.parametrize("name", gg.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(gg, name)
    assert name in ("__version__", "newaxis") or inspect.getdoc(value)
    assert name in dir(gg)


def test_every_public_function_has_complete_type_hints() -> None:
    for name in gg.__all__:
        value = getattr(gg, name)
        if inspect.isfunction(value):
            hints = typing.get_type_hints(value) if name != "function" else value.__annotations__
            assert set(inspect.signature(value).parameters) - set(hints) == set() or name == "where"
            assert "return" in hints, name


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = gg.nonsense


def test_the_package_is_typed() -> None:
    spec = find_spec("gpugoblin")
    assert spec is not None
    assert spec.origin is not None
    assert (Path(spec.origin).parent / "py.typed").exists()


def test_type_checkers_see_every_name_that_resolves() -> None:
    tree = ast.parse(Path(gg.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {"__version__"}
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            starred = [alias.name for alias in node.names] == ["*"]
            module = import_module(str(node.module))
            seen |= set(module.__all__) if starred else {alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            seen |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    assert set(gg.__all__) - seen == set()
