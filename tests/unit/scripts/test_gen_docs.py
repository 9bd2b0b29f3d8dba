"""The generated pages are fresh, and say what the registries say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal

import msgspec
import msgspec.inspect
import pytest

from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import DTYPES
from gpugoblin.error_codes import ALL_CODES
from gpugoblin.wire.registry import MESSAGES

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def gen_docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gen_docs", ROOT / "scripts" / "gen_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_fresh(gen_docs: ModuleType) -> None:
    for name, make in gen_docs.PAGES.items():
        page = (DOCS / name).read_text(encoding="utf-8")
        assert page == make(), f"run scripts/gen_docs.py: {name} is stale"


def test_stale_pages_are_named_and_rewritten(
    gen_docs: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(gen_docs, "DOCS", tmp_path)
    monkeypatch.setattr(gen_docs, "PAGES", {"reference/one.md": lambda: "new\n"})
    assert gen_docs.main(["--check"]) == 1
    assert "reference/one.md" in capsys.readouterr().out
    assert gen_docs.main([]) == 0
    assert (tmp_path / "reference" / "one.md").read_text() == "new\n"
    assert gen_docs.main(["--check"]) == 0


def test_nothing_of_the_registries_is_missing() -> None:
    pages = {name: (DOCS / "reference" / name).read_text() for name in
             ("operators.md", "messages.md", "errors.md")}  # fmt: skip
    for key in (*OPERATORS, *SCALARS):
        assert f"| `{key}` |" in pages["operators.md"], key
    for key in MESSAGES:
        assert f"| `{key}` |" in pages["messages.md"], key
    for code in ALL_CODES:
        assert f"| `{code}` |" in pages["errors.md"], code


def test_dtypes_are_those_that_the_operator_takes(gen_docs: ModuleType) -> None:
    taken = gen_docs.accepted_dtypes(OPERATORS["matmul@1"])
    assert set(taken) == {"float32", "float64", "int8", "int16", "int32", "int64", "uint8"}
    assert gen_docs.accepted_dtypes(OPERATORS["reshape@1"]) == list(DTYPES)


class Inner(msgspec.Struct):
    """Inside."""

    number: int


class Outer(msgspec.Struct):
    """Outside."""

    inner: Inner
    words: Annotated[
        tuple[Annotated[str, msgspec.Meta(max_length=5)], ...], msgspec.Meta(max_length=3)
    ]
    choice: Literal["a", "b"] | None = None
    share: Annotated[float, msgspec.Meta(le=1)] = 0.0
    flag: bool = False


def test_types_are_said_in_words(gen_docs: ModuleType) -> None:
    nested: dict[str, type[msgspec.Struct]] = {}
    declared = msgspec.inspect.type_info(Outer)
    assert isinstance(declared, msgspec.inspect.StructType)
    words = [gen_docs.type_words(field.type, nested) for field in declared.fields]
    assert words == [
        "Inner",
        "list of up to 3: text (5)",
        '"a" or "b" or null',
        "number (1)",
        "true or false",
    ]
    assert nested == {"Inner": Inner}
    with pytest.raises(LookupError, match="no words"):
        gen_docs.type_words(msgspec.inspect.AnyType(), nested)
