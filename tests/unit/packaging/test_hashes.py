from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.helpers.packaging_script import PACKAGING, script

HASHES = script("hashes")


def test_every_wheel_of_a_project_has_its_hash(tmp_path: Path) -> None:
    (tmp_path / "Some_Thing-1.2-cp311-cp311-any.whl").write_bytes(b"a")
    (tmp_path / "Some_Thing-1.2-cp312-cp312-any.whl").write_bytes(b"b")
    (tmp_path / "alone-3-py3-none-any.whl").write_bytes(b"c")
    of = {text: hashlib.sha256(text).hexdigest() for text in (b"a", b"b", b"c")}
    first, second = sorted((of[b"a"], of[b"b"]))
    assert HASHES.requirements(tmp_path) == HASHES.HEAD + (
        f"alone==3 \\\n    --hash=sha256:{of[b'c']}\n"
        f"some-thing==1.2 \\\n    --hash=sha256:{first} \\\n    --hash=sha256:{second}\n"
    )


def test_two_versions_are_refused(tmp_path: Path) -> None:
    for name in ("a-1-py3-none-any.whl", "a-2-py3-none-any.whl"):
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match="a comes in the versions 1, 2"):
        HASHES.requirements(tmp_path)


def test_the_packages_take_the_versions_that_are_tested() -> None:
    """requirements/package.txt is of the same versions as requirements/constraints.txt."""
    folder = PACKAGING.parent / "requirements"

    def pins(name: str) -> dict[str, str]:
        found = {}
        for line in (folder / name).read_text().splitlines():
            project, equals, version = line.partition("==")
            if equals and not line.startswith((" ", "#")):
                key = project.strip().lower().replace("_", "-")
                found[key] = version.removesuffix("\\").strip()
        return found

    tested, packaged = pins("constraints.txt"), pins("package.txt")
    assert {"numpy", "pyside6-essentials", "tuf", "vulkan", "dbus-fast"} <= set(packaged)
    assert {name: tested.get(name) for name in packaged} == packaged
