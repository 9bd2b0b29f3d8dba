"""The documentation holds: its links lead somewhere, its commands are ones that exist."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from app.agent.settings import read_settings
from app.main import _parser as agent_parser
from app.ui.main import _parser as app_parser
from gpugoblin.client import commands as client_commands
from server_stub.coordinator.cli import _parser as coordinator_parser
from server_stub.node import commands as node_commands
from server_stub.node.settings import parse as parse_node
from server_stub.node.validating.main import _parser as validator_parser

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCES = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = FENCES.sub("", page.read_text())
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCES.sub("", page.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target


def test_pages_that_the_code_and_the_docs_name_are_there() -> None:
    listed = subprocess.run(
        ["git", "grep", "-hoE", r"docs/[a-z]+/[A-Za-z0-9._-]+\.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert len(listed) > 10
    assert [name for name in sorted(set(listed)) if not (ROOT / name).exists()] == []


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Every command `gpugoblin ...` that a page shows, with the page's name."""
    for page in PAGES:
        for language, block in FENCES.findall(page.read_text()):
            if language not in ("", "console"):
                continue
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line.removeprefix("$ ").partition(" > ")[0], comments=True)
                if words[:1] == ["gpugoblin"]:
                    yield name_of(page), words[1:]


class Parsed(Exception):
    """The words were understood; nothing was done."""


def _client(run: Callable[[Sequence[str]], int]) -> Callable[[list[str]], object]:
    def understand(words: list[str]) -> None:
        with pytest.raises(Parsed):
            run(words)

    return understand


def _node_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    node_commands.register(parser)
    return parser


PROGRAMS: dict[str, Callable[[list[str]], object]] = {
    "doctor": lambda words: agent_parser().parse_args(["doctor", *words]),
    "agent": lambda words: agent_parser().parse_args(words),
    "app": lambda words: app_parser().parse_args(words),
    "coordinator": lambda words: coordinator_parser().parse_args(words),
    "job": _client(client_commands.job),
    "jobs": _client(client_commands.jobs),
    "node": lambda words: _node_parser().parse_args(words),
    "validator": lambda words: validator_parser().parse_args(words),
}


def test_commands_are_ones_that_exist(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def parsed(_: argparse.Namespace) -> None:
        raise Parsed

    monkeypatch.setattr(client_commands, "_connect", parsed)
    shown = list(command_lines())
    assert {words[0] for _, words in shown} == set(PROGRAMS)
    assert len(shown) > 20
    for page, words in shown:
        try:
            PROGRAMS[words[0]](words[1:])
        except SystemExit:
            pytest.fail(f"{page}: gpugoblin {shlex.join(words)}: {capsys.readouterr().err}")


def test_words_after_gpugoblin_are_commands() -> None:
    commands = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    shown = {
        (name_of(page), word)
        for page in PAGES
        for word in re.findall(r"`gpugoblin ([a-z]+)", page.read_text())
    }
    assert len(shown) > 20
    assert [one for one in sorted(shown) if one[1] not in commands["gpugoblin.commands"]] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_heading_is_without_text(page: Path) -> None:
    lines = [line for line in FENCES.sub("code", page.read_text()).splitlines() if line.strip()]
    depths = [len(line) - len(line.lstrip("#")) for line in lines] + [1]
    empty = [
        line
        for line, depth, after in zip(lines, depths, depths[1:], strict=False)
        if 0 < after <= depth
    ]
    assert empty == []


def toml_blocks(page: Path) -> list[str]:
    return [block for language, block in FENCES.findall(page.read_text()) if language == "toml"]


def test_configurations_are_ones_that_are_read(tmp_path: Path) -> None:
    (agent,) = toml_blocks(ROOT / "docs" / "contributor" / "start.md")
    (tmp_path / "agent.toml").write_text(agent)
    assert read_settings(tmp_path / "agent.toml").number("processor.threads") == 2
    (node,) = toml_blocks(ROOT / "docs" / "lab" / "ray.md")
    values = {"state_dir": str(tmp_path), **tomllib.loads(node)}
    assert parse_node(values).executor == "local, grid, ray"


def test_the_list_of_pages_has_every_page() -> None:
    listed = re.findall(r"\]\(([a-z]+/[^)#]+\.md)", (ROOT / "docs" / "README.md").read_text())
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").glob("*/*.md")}
    missing = pages - set(listed)
    assert sorted(name for name in missing if not name.startswith("decisions/")) == []


def test_every_page_is_reachable_from_the_readme() -> None:
    waiting, seen = [ROOT / "README.md"], {ROOT / "README.md"}
    while waiting:
        page = waiting.pop()
        for target in re.findall(r"\]\(([^)#\s]+\.md)[^)]*\)", page.read_text()):
            found = (page.parent / target).resolve()
            if found not in seen and found.exists():
                seen.add(found)
                waiting.append(found)
    assert [name_of(page) for page in PAGES if page not in seen] == []
