"""The page of public names is what the package says of itself."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np

import gpugoblin as gg

CONSTANTS = ("__array_api_version__", "e", "inf", "nan", "newaxis", "pi")
PAGE = Path(__file__).parents[4] / "docs" / "researcher" / "functions.md"


def row(name: str) -> str:
    """One line of the page: signature and the first sentence of the docstring."""
    value = getattr(gg, name)
    if name in CONSTANTS:
        return f"| `gg.{name}` | The standard's constant: {value!r}. |"
    if isinstance(value, np.dtype):
        return f"| `gg.{name}` | The dtype. |"
    first = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
    parameters = ""
    if inspect.isfunction(value):
        signature = inspect.signature(value)
        bare = [
            p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()
        ]
        parameters = str(signature.replace(parameters=bare, return_annotation=signature.empty))
    return f"| `gg.{name}{parameters}` | {first} |"


def page() -> str:
    """The whole page."""
    names = sorted((n for n in gg.__all__ if n not in ("__version__", "errors")), key=str.lower)
    return "\n".join(
        [
            "# Public names",
            "",
            "Functions of arrays follow the Python array API standard. Arrays are lazy arrays,",
            "ndarrays or nested lists; see the [guide](guide.md). Errors are in `gg.errors`.",
            "",
            "| name | what it is |",
            "|---|---|",
            *(row(name) for name in names),
            "",
        ]
    )


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == page(), f"write it anew: {__name__}.page()"
