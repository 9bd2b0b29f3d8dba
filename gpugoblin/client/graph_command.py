"""`gpugoblin graph FILE`: what is in a file of a graph, for people.

Owns: the words of the command and its output. It reads the canonical bytes of a graph, or an ONNX
model where the extra `onnx` is installed; it connects to nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from gpugoblin.errors import ClientError
from gpugoblin.graph.canonical import canonicalise
from gpugoblin.graph.check import LIMITS
from gpugoblin.graph.compare import difference
from gpugoblin.graph.ir import Graph, Names, View
from gpugoblin.graph.serialize import decode, graph_hash
from gpugoblin.graph.statistics import statistics

__all__ = ["graph"]

DIFFERENT_STATUS = 1


def graph(words: Sequence[str]) -> int:
    """Shows what is in the file of a graph, draws it, or compares two.

    Returns:
        0; with `--against` 1 where the graphs differ.
    """
    parser = argparse.ArgumentParser(
        prog="gpugoblin graph", description="Shows what is in a file of a graph."
    )
    parser.add_argument("file", type=Path, help="canonical bytes of a graph, or a .onnx file")
    parser.add_argument("--canonical", action="store_true", help="in its canonical form")
    parser.add_argument("--svg", type=Path, metavar="PICTURE", help="write a picture to this file")
    parser.add_argument(
        "--against", type=Path, metavar="OTHER", help="show how another graph differs"
    )
    given = parser.parse_args(words)
    found, names = _read(given.file)
    if given.canonical:
        found, names = canonicalise(found), Names()
    if given.svg is not None:
        given.svg.write_text(View(found, names).svg(), encoding="utf-8")
        print(f"wrote {given.svg}")
        return 0
    if given.against is not None:
        other, _ = _read(given.against)
        text = difference(found, canonicalise(other) if given.canonical else other)
        print(text or "the graphs are equal")
        return DIFFERENT_STATUS if text else 0
    print(View(found, names))
    print(f"\n{statistics(found)}\nhash {graph_hash(found)}")
    return 0


def _read(path: Path) -> tuple[Graph, Names]:
    if path.suffix == ".onnx":
        model = import_module("gpugoblin.capture.onnx.model").from_onnx(path)
        view = model.graph()
        return view.graph, view.names
    try:
        if path.stat().st_size > LIMITS.encoded_bytes:
            reason = f"it is larger than a graph can be, {LIMITS.encoded_bytes} bytes"
            raise ClientError("file_unreadable", path=str(path), reason=reason)
        return decode(path.read_bytes()), Names()
    except OSError as cause:
        raise ClientError("file_unreadable", path=str(path), reason=str(cause)) from cause
