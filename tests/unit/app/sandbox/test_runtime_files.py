"""The choice of files for a runtime."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from app.sandbox import runtime_files
from app.sandbox.runtime_files import PYTHON, chosen_files, system_libraries
from gpugoblin.errors import SandboxError


@pytest.fixture(scope="module")
def targets() -> dict[str, Path]:
    return {file.target: file.source for file in chosen_files()}


def test_what_an_engine_needs_is_there(targets: dict[str, Path]) -> None:
    needed = {
        f"bin/{PYTHON}",
        f"lib/{PYTHON}/os.py",
        f"lib/{PYTHON}/encodings/utf_8.py",
        "app/numpy/__init__.py",
        "app/msgspec/__init__.py",
        "app/blake3/__init__.py",
        "app/app/engine/child.py",
        "app/app/sandbox/inside.py",
        "app/app/sandbox/selftest.py",
        "app/gpugoblin/errors.py",
        "app/gpugoblin/graph/ir.py",
    }
    assert needed <= set(targets)
    assert any(target.startswith("app/numpy.libs/") for target in targets)
    assert any("lib-dynload/_ctypes" in target for target in targets)


def test_what_it_must_not_have_is_left_out(targets: dict[str, Path]) -> None:
    parts = {part for target in targets for part in target.split("/")}
    assert not parts & {"tests", "test", "site-packages", "idlelib", "asyncio", "ensurepip"}
    names = {target.rpartition("/")[2].partition(".")[0] for target in targets}
    assert not names & {"socket", "_socket", "ssl", "_ssl", "_sqlite3", "_tkinter", "smtplib"}
    house = {target for target in targets if target.startswith(("app/app/", "app/gpugoblin/"))}
    assert not {t for t in house if "/client/" in t or "/wire/" in t or "/agent/" in t}
    outside = {f"app/app/sandbox/{name}.py" for name in ("launch", "plain", "probe")}
    assert not house & outside  # the host's side of the walls


def test_packages_are_the_few_that_an_engine_imports(targets: dict[str, Path]) -> None:
    tops = {target.split("/")[1] for target in targets if target.startswith("app/")}
    assert tops - {"numpy.libs"} == {"numpy", "msgspec", "blake3", "app", "gpugoblin"}


def test_only_code_is_taken(targets: dict[str, Path]) -> None:
    rest = {t for t in targets if not t.endswith(".py") and ".so" not in t}
    assert rest == {f"bin/{PYTHON}"}


def test_walls_import_nothing_that_is_left_out(targets: dict[str, Path]) -> None:
    """Every module of the house that a staged module names is staged too."""
    import ast

    house = {t.removeprefix("app/") for t in targets if t.startswith(("app/app/", "app/gpugob"))}
    modules = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in house
    }
    missing: set[str] = set()
    for target, source in targets.items():
        if not target.startswith(("app/app/", "app/gpugoblin/")) or source.suffix != ".py":
            continue
        for node in ast.parse(source.read_bytes()).body:  # what is imported at once
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                top = node.module.partition(".")[0]
                if top in ("app", "gpugoblin") and node.module not in modules:
                    missing.add(f"{target}: {node.module}")
    assert missing == set()


def test_libraries_are_those_that_the_files_do_not_bring() -> None:
    files = [f for f in chosen_files() if "_ctypes" in f.target or f.executable]
    found = {file.target for file in system_libraries(files)}
    assert {"system/ld-linux-x86-64.so.2", "system/libc.so.6"} <= found
    assert any("libffi" in target for target in found)
    assert not {target for target in found if "libpython" in target and "system" in target}


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_files, "PACKAGES", ("gg_no_such_package",))
    with pytest.raises(SandboxError, match="gg_no_such_package") as refusal:
        chosen_files()
    assert refusal.value.code == "runtime_package_missing"


def test_extensions_outside_the_standard_library_are_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "_extra.cpython.so").touch()
    monkeypatch.setattr(runtime_files.sysconfig, "get_config_var", lambda name: str(tmp_path))
    targets = {file.target for file in runtime_files._standard_library()}
    assert f"lib/{PYTHON}/lib-dynload/_extra.cpython.so" in targets


def test_the_interpreter_of_a_virtual_environment_is_its_base() -> None:
    interpreter = runtime_files._interpreter()
    assert not interpreter.is_symlink()
    assert importlib.util.find_spec("numpy") is not None
    assert Path(sys.base_prefix) in interpreter.parents
