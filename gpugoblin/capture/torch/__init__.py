"""Capture from PyTorch: a module or a function becomes a graph of catalog operators.

Owns: `gg.capture`, `gg.check` and what they need. torch is imported on first use, in one place
(`library.py`). Must not: keep anything of the traced program but the graph, its inputs by name and
the lines it came from.
"""
