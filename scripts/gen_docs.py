"""Writes the generated pages of docs; `--check` fails when one is stale.

Owns: the tables of operators, scalar functions, messages, error codes, settings, figures,
attacks, complaints and security items, and the list of decisions. Everything in them is read from
the code, from `benchmarks/results` and from the titles of the decisions; nothing is typed twice.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

import msgspec
import msgspec.inspect as kinds

if TYPE_CHECKING:
    from gpugoblin.catalog.scalars import ScalarFunction
    from gpugoblin.catalog.spec import Attribute, Operator

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    heads = list(heads)
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for row in rows:
        lines.append("| " + " | ".join(_cell(value) for value in row) + " |")
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def operators() -> str:
    from gpugoblin.catalog.registry import OPERATORS, catalog_hash
    from gpugoblin.catalog.scalars import SCALARS
    from gpugoblin.catalog.spec import DTYPES

    rows = [
        (
            f"`{operator.key}`",
            operator.summary,
            _span(*operator.arity),
            ", ".join(accepted_dtypes(operator)),
            "<br>".join(map(_attribute, operator.attributes)) or "none",
            len(operator.samples),
        )
        for operator in OPERATORS.values()
    ]
    scalars = [
        (
            f"`{name}`",
            scalar.arity,
            ", ".join(dtype for dtype in DTYPES if dtype in scalar.accepts),
            _result_dtypes(scalar),
            scalar.flops,
        )
        for name, scalar in sorted(SCALARS.items())
    ]
    return (
        "# Operators\n\nThe catalog: everything that a contributor's machine can be asked to "
        "compute. Catalogs are\ntold apart by a hash of all declarations; this one is "
        f"`{catalog_hash()}`.\n\n"
        "Samples are the cases with which every backend is compared with the operator's own "
        "reference.\nThe dtypes are those of the first input; indices are int32 or int64.\n\n"
        + table(("operator", "meaning", "inputs", "dtypes", "attributes", "samples"), rows)
        + "\n## Scalar functions of `formula`\n\nOperands of one function have one dtype; "
        "flops are its weight in the cost, with an addition as 1.\n\n"
        + table(("function", "operands", "dtypes", "result", "flops"), scalars)
    )


def accepted_dtypes(operator: Operator) -> list[str]:
    """The dtypes that the operator's own rule takes: its samples are tried in each dtype."""
    import numpy as np

    from gpugoblin.catalog.attributes import normalize_attributes
    from gpugoblin.catalog.prove import specs_of
    from gpugoblin.catalog.spec import DTYPES, TensorSpec
    from gpugoblin.errors import GraphError

    found = []
    for dtype in DTYPES:
        for sample in operator.samples:
            specs = specs_of(sample.inputs(np.random.default_rng(0)))
            all_of_it = [TensorSpec(dtype, spec.shape) for spec in specs]
            for tried in (all_of_it, [*all_of_it[:1], *specs[1:]]):
                with contextlib.suppress(GraphError):
                    operator.infer(tried, dict(normalize_attributes(operator, sample.attributes)))
                    found.append(dtype)
    return [dtype for dtype in DTYPES if dtype in found]


def _result_dtypes(scalar: ScalarFunction) -> str:
    leading = ("bool",) if scalar.name == "where" else ()
    results = {
        scalar.dtype_rule((*leading, *(dtype,) * (scalar.arity - len(leading))))
        for dtype in scalar.accepts
    }
    return "bool" if results == {"bool"} and scalar.accepts != ("bool",) else "the operands'"


def _attribute(attribute: Attribute) -> str:
    kind = f"one of {', '.join(attribute.choices)}" if attribute.choices else attribute.kind
    default = "" if attribute.required else f", default {attribute.default}".lower()
    return f"`{attribute.name}`: {kind}{default}"


def _span(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"


def messages() -> str:
    import gpugoblin.wire.messages  # noqa: F401 - fills the registry
    from gpugoblin.wire.registry import MESSAGES

    entries = sorted(MESSAGES.values(), key=lambda entry: entry.key)
    nested: dict[str, type[msgspec.Struct]] = {}
    rows = [
        (
            f"`{entry.key}`",
            f"{entry.sender} to {entry.receiver}",
            entry.max_bytes,
            _fields(entry.struct, nested),
            _first_paragraph(entry.struct),
        )
        for entry in entries
    ]
    waiting = list(nested)
    parts = []
    for name in waiting:  # grows while structures name others
        parts.append((f"`{name}`", _fields(nested[name], nested), _first_paragraph(nested[name])))
        waiting += [other for other in nested if other not in waiting]
    return (
        "# Messages\n\nJSON, deterministic; unknown fields are refused; a body over the bound is "
        "refused before it is read.\nThe largest length or number that is accepted stands behind "
        "a type where it is small; fields with\na question mark may be left out.\n\n"
        + table(("message", "way", "most bytes", "fields", "meaning"), rows)
        + "\n## Structures in them\n\n"
        + table(("structure", "fields", "meaning"), sorted(parts))
    )


def _first_paragraph(struct: type[msgspec.Struct]) -> str:
    return (inspect.getdoc(struct) or "").split("\n\n")[0]


def _fields(struct: type[msgspec.Struct], nested: dict[str, type[msgspec.Struct]]) -> str:
    """The fields of a structure with their types; the structures it names go into `nested`."""
    declared = cast(kinds.StructType, kinds.type_info(struct))
    return "<br>".join(
        f"`{field.encode_name}{'' if field.required else '?'}`: {type_words(field.type, nested)}"
        for field in declared.fields
    )


def type_words(kind: kinds.Type, nested: dict[str, type[msgspec.Struct]]) -> str:
    """A type of a field in words, with its bound."""
    match kind:
        case kinds.StructType():
            nested[kind.cls.__name__] = kind.cls
            return kind.cls.__name__
        case kinds.VarTupleType():
            bound = "" if kind.max_length is None else f" of up to {kind.max_length}"
            return f"list{bound}: {type_words(kind.item_type, nested)}"
        case kinds.TupleType():
            return " and ".join(type_words(one, nested) for one in kind.item_types)
        case kinds.DictType():
            value = type_words(kind.value_type, nested)
            return f"map of up to {kind.max_length} names to {value}"
        case kinds.LiteralType():
            return " or ".join(f'"{value}"' for value in kind.values)
        case kinds.UnionType():
            return " or ".join(type_words(one, nested) for one in kind.types)
        case kinds.StrType() | kinds.BytesType():
            return ("text" if isinstance(kind, kinds.StrType) else "bytes") + _most(kind.max_length)
        case kinds.IntType() | kinds.FloatType():
            return ("integer" if isinstance(kind, kinds.IntType) else "number") + _most(kind.le)
        case kinds.BoolType():
            return "true or false"
        case kinds.NoneType():
            return "null"
    raise LookupError(f"no words for {kind}")


def _most(bound: float | None) -> str:
    return "" if bound is None or bound > 1e9 else f" ({bound:.0f})"


def errors() -> str:
    from gpugoblin.error_codes import FAMILIES

    parts = [
        "# Error codes\n\nA code never changes its meaning once released. Words in braces are "
        "filled in when the error is\nraised.\n"
    ]
    for family, codes in FAMILIES.items():
        if codes:
            rows = [(f"`{code}`", spec.what, spec.next_step) for code, spec in codes.items()]
            parts.append(f"\n## {family}\n\n" + table(("code", "what", "next step"), rows))
    return "".join(parts)


def settings() -> str:
    from app.agent.settings import AGENT as agent
    from app.policy.settings import POLICY, PRICES
    from gpugoblin.client.config import SETTINGS as client
    from gpugoblin.settings import rows
    from server_stub.coordinator.settings import SETTINGS as coordinator
    from server_stub.node.settings import SETTINGS as node

    parts = [
        "# Settings\n\nEach program reads one TOML file of at most 64 KiB. An unknown name or a "
        "value that is not of\nits kind stops it at once, with the name. A name with a dot lies in "
        "a table: `cache.limit_bytes` is\n`limit_bytes` in `[cache]`. A path may begin with `~`; a "
        "relative one starts at the directory of the\nfile.\n"
    ]
    for title, declared in (
        ("Lab node", node),
        ("Coordinator", coordinator),
        ("Agent", agent),
        ("Agent: when it lends", (*POLICY, *PRICES)),
    ):
        shown = [
            (f"`{name}`", takes, default if default == "required" else f"`{default}`", unit, words)
            for name, takes, default, unit, words in rows(declared)
        ]
        heads = ("name", "takes", "default", "unit", "meaning")
        parts.append(f"\n## {title}\n\n" + table(heads, shown))
    parts.append(
        "\n## Researcher\n\nThe file `client.toml`: see "
        "[configuration](../researcher/configuration.md). All are texts without a default.\n\n"
        + table(
            ("name", "variable", "meaning"),
            [(f"`{one.key}`", f"`{one.variable}`", one.meaning) for one in client],
        )
    )
    return "".join(parts)


def rules() -> str:
    from app.policy.choices import PROFILES
    from app.policy.rules import RULES

    profiles = [
        (
            f"`{name}`",
            ", ".join(f"`{key} = {_toml(value)}`" for key, value in fixed.items())
            or "nothing: your own values hold",
        )
        for name, fixed in PROFILES.items()
    ]
    return (
        "# When it lends\n\nEvery rule in one sentence. The strictest rule wins; a card that no "
        "rule stops is lent. What a rule\nneeds to know and cannot find out stops the card, too: "
        "unknown never lends. Your own word (pause,\nfinish, stop) stands above all rules. "
        "`gpugoblin why` says in one line for each card which rule\nholds and when that changes; "
        "all settings are in [the table](../reference/settings.md#agent-when-it-lends).\n\n"
        + table(("rule", "what it does"), [(f"`{rule.name}`", rule.sentence) for rule in RULES])
        + "\n## Profiles\n\n`profile` decides these settings, whatever they say themselves:\n\n"
        + table(("profile", "what it decides"), profiles)
        + "\nOn a machine without a desktop (a server that runs `--console`) the sources of "
        "idleness are its\nterminals and remote sessions: where nobody types "
        "for `away.after_minutes`, it lends.\n"
    )


def _toml(value: object) -> str:
    from gpugoblin.settings import toml

    return toml(value)


def performance() -> str:
    parts = [
        "# Performance\n\nWritten by `scripts/bench AREA`; every figure beside its bar and its "
        "peer, measured in one run.\n"
    ]
    found = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
    if not found:
        parts.append("\nNo run is recorded.\n")
    for path in found:
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


def array_api() -> str:
    from gpugoblin.capture.standard import SECTIONS, reason

    answers = {n: reason(n) for names in SECTIONS.values() for n in names.split()}
    said = sum(not answer for answer in answers.values())
    text = (
        "# The Python array API standard\n\nWhich names of version 2024.12 can be said here: "
        f"{said} of {len(answers)}. The others raise an\nerror that gives the reason and the line "
        "of the program. `x.__array_namespace__()` is `gpugoblin`\nitself, so code that is "
        "written for the standard runs as it is. Arrays have the operators and\nattributes of the "
        "standard; indexing takes ints, slices, `None`, `...` and arrays of positions.\n"
    )
    for section, names in SECTIONS.items():
        rows = [(f"`{n}`", "yes" if not answers[n] else f"no: {answers[n]}") for n in names.split()]
        text += f"\n## {section}\n\n" + table(("name", "said"), rows)
    return text


def onnx_tests() -> str:
    record = json.loads((ROOT / "benchmarks/onnx_nodes.json").read_text(encoding="utf-8"))
    rows = [
        (reason, len(names), ", ".join(f"`{name.removeprefix('test_')}`" for name in names))
        for reason, names in sorted(record["reasons"].items(), key=lambda item: -len(item[1]))
    ]
    return (
        "# The node tests of ONNX\n\nOf the "
        f"{record['tests']} node tests of the package `onnx`, {record['equal']} are imported by "
        "`gg.from_onnx` and give\nits numbers. The others, by reason; made by "
        "`scripts/bench catalog onnx_nodes`.\n\n" + table(("reason", "tests", "which"), rows)
    )


def attacks() -> str:
    return str(_of_tests("tests.attacks.report").page())


def complaints() -> str:
    return str(_of_tests("tests.helpers.complaints").page())


def asvs() -> str:
    return str(_of_tests("tests.helpers.asvs").page())


def openapi() -> str:
    from server_stub.coordinator.openapi import page

    return page()


def _of_tests(name: str) -> ModuleType:
    sys.path.insert(0, str(ROOT))  # tests are no part of what is installed
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROOT))


def decisions() -> str:
    lines = [
        "# Decisions\n\nOne short page each: the question, what was weighed with measured figures, "
        "the choice. Numbers\nhave gaps, so that each part of the house has room for its own.\n\n"
    ]
    for path in sorted((DOCS / "decisions").glob("[0-9]*.md")):
        number, _, title = path.read_text(encoding="utf-8").partition("\n")[0][2:].partition(": ")
        if number != path.name[:3] or not title:
            raise LookupError(f"{path.name} does not begin with '# {path.name[:3]}: ' and a title")
        lines.append(f"- {number}: [{title}]({path.name})\n")
    return "".join(lines)


def zoo() -> str:
    path = ROOT / "benchmarks" / "results" / "programs" / "zoo.json"
    programs = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    captured = sum(one["captured"] for one in programs)
    text = (
        "# The zoo\n\nPrograms of PyTorch users that were tried, by `scripts/bench zoo`: image and "
        "language models (tiny, random\nweights) and scientific programs. Errors are over the "
        "largest number of the result, or the largest gradient;\nvalues are of the CPU backend "
        "against eager, gradients against PyTorch in float64.\n\n"
        f"{captured} of {len(programs)} are captured.\n\n"
    )
    rows = [
        (
            f"`{one['name']}`",
            one["rung"] if one["captured"] else f"no: `{one['code']}` {one['operator']}",
            one["nodes"] or "",
            _error(one["backend_error"], one["backend_refusal"], one["captured"], "random"),
            _error(one["gradient_error"], one["gradient_refusal"], False, "")
            if one["compared"]
            else "not run",
        )
        for one in programs
    ]
    return text + table(("program", "captured by", "operators", "values", "gradients"), rows)


def _error(value: float | None, refusal: str, captured: bool, otherwise: str) -> str:
    if refusal:
        return "refused"
    return f"{value:.1e}" if value is not None else otherwise if captured else ""


PAGES: dict[str, Callable[[], str]] = {
    "contributor/complaints.md": complaints,
    "contributor/rules.md": rules,
    "decisions/README.md": decisions,
    "researcher/array-api.md": array_api,
    "researcher/onnx-tests.md": onnx_tests,
    "researcher/zoo.md": zoo,
    "reference/operators.md": operators,
    "reference/messages.md": messages,
    "reference/asvs.md": asvs,
    "reference/attacks.md": attacks,
    "reference/errors.md": errors,
    "reference/settings.md": settings,
    "reference/openapi.json": openapi,
    "reference/performance.md": performance,
}


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    stale = []
    for name, make in PAGES.items():
        text = make()
        path = DOCS / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if check:
            stale.append(name)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if stale:
        print(f"docs: {', '.join(stale)} stale; run .venv/bin/python scripts/gen_docs.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
