"""Loads all attacks, so that the table is whole. Owns the list of their files."""

from __future__ import annotations

import importlib

__all__ = ["load"]

FILES = ("network", "files", "identity", "kernel", "memory", "processes", "channel")


def load() -> None:
    for name in FILES:
        importlib.import_module(f"{__package__}.{name}")
