"""Writes the tables of docs/reference from the registries; `--check` fails when they are stale.

Owns: the tables of operators, scalar functions, messages, error codes, settings and figures.
Everything in them is read from the code or from `benchmarks/results`; nothing is typed twice.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    heads = list(heads)
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for row in rows:
        lines.append("| " + " | ".join(_cell(value) for value in row) + " |")
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def operators() -> str:
    from gpugoblin.catalog.registry import OPERATORS
    from gpugoblin.catalog.scalars import SCALARS

    rows = [
        (
            f"`{operator.key}`",
            operator.summary,
            ", ".join(f"`{attribute.name}`" for attribute in operator.attributes) or "none",
            len(operator.samples),
        )
        for operator in OPERATORS.values()
    ]
    scalars = [
        (f"`{name}`", scalar.arity, scalar.flops) for name, scalar in sorted(SCALARS.items())
    ]
    return (
        "# Operators\n\nThe catalog: everything that a contributor's machine can be asked to "
        "compute.\n\n"
        + table(("operator", "meaning", "attributes", "samples"), rows)
        + "\n## Scalar functions of `formula`\n\n"
        + table(("function", "operands", "flops"), scalars)
    )


def _type_name(kind: Any) -> str:
    if get_origin(kind) is not None and get_origin(kind).__name__ in ("Annotated", "Literal"):
        return str(get_args(kind)[0])
    return getattr(kind, "__name__", str(kind))


def messages() -> str:
    import gpugoblin.wire.messages  # noqa: F401 - fills the registry
    from gpugoblin.wire.registry import MESSAGES

    rows = [
        (
            f"`{entry.key}`",
            f"{entry.sender} to {entry.receiver}",
            entry.max_bytes,
            ", ".join(f"`{field.encode_name}`" for field in msgspec.structs.fields(entry.struct)),
            (entry.struct.__doc__ or "").split("\n")[0],
        )
        for entry in sorted(MESSAGES.values(), key=lambda entry: entry.key)
    ]
    return (
        "# Messages\n\nJSON, deterministic; unknown fields are refused; a body over the bound is "
        "refused before it is read.\n\n"
        + table(("message", "way", "most bytes", "fields", "meaning"), rows)
    )


def errors() -> str:
    from gpugoblin.error_codes import FAMILIES

    parts = ["# Error codes\n\nA code never changes its meaning once released.\n"]
    for family, codes in FAMILIES.items():
        if codes:
            rows = [(f"`{code}`", spec.what, spec.next_step) for code, spec in codes.items()]
            parts.append(f"\n## {family}\n\n" + table(("code", "what", "next step"), rows))
    return "".join(parts)


def settings() -> str:
    from app.agent.settings import SETTINGS as agent
    from server_stub.coordinator.settings import SETTINGS as coordinator
    from server_stub.node.settings import SETTINGS as node

    parts = ["# Settings\n\nEach program reads one TOML file.\n"]
    for title, declared in (("Lab node", node), ("Coordinator", coordinator), ("Agent", agent)):
        rows = [
            (f"`{one.name}`", one.kind, f"`{one.default!r}`", one.unit or "", one.description)
            for one in declared
        ]
        parts.append(
            f"\n## {title}\n\n" + table(("name", "type", "default", "unit", "meaning"), rows)
        )
    return "".join(parts)


def performance() -> str:
    parts = [
        "# Performance\n\nWritten by `scripts/bench AREA`; every figure beside its bar and its "
        "peer, measured in one run.\n"
    ]
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        machine = ", ".join(f"{key} {value}" for key, value in record["machine"].items())
        parts.append(f"\n## {record['area']}\n\n{record['date']}; {machine}.\n\n")
        rows = [
            (
                row["what"],
                _figure(row["value"], row["unit"]),
                row["bar"],
                f"{row['peer']} {_figure(row['peer_value'], row['unit'])}" if row["peer"] else "",
                "" if row["ratio"] is None else f"{row['ratio']:.3g}",
                "yes" if row["meets"] else "no",
                row["note"],
            )
            for row in record["rows"]
        ]
        parts.append(table(("what", "measured", "bar", "peer", "ratio", "met", "note"), rows))
    return "".join(parts)


def _figure(value: object, unit: str) -> str:
    if value is None:
        return "not run"
    return f"{value:.4g} {unit}" if isinstance(value, float) else f"{value} {unit}"


PAGES: dict[str, Callable[[], str]] = {
    "operators.md": operators,
    "messages.md": messages,
    "errors.md": errors,
    "settings.md": settings,
    "performance.md": performance,
}


def main() -> int:
    check = "--check" in sys.argv[1:]
    REFERENCE.mkdir(parents=True, exist_ok=True)
    stale = []
    for name, make in PAGES.items():
        text = make()
        path = REFERENCE / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if check:
            stale.append(name)
        else:
            path.write_text(text, encoding="utf-8")
    if stale:
        print(f"docs: {', '.join(stale)} stale; run .venv/bin/python scripts/gen_docs.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
