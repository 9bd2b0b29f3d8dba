"""The processor as a backend. Owns its tables and its name; kernels are in the files beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from app.engine.backends.cpu.elementwise import ChainBuilder, Operand
from app.engine.backends.cpu.exact import EXACT_KERNELS
from app.engine.backends.cpu.kernels import KERNELS, VIEWS
from app.engine.backends.cpu.product import blas_ready
from app.engine.backends.spec import Kernel, View
from app.engine.compile import compile_graph
from app.engine.context import Context
from app.engine.program import Program
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.graph.classes import CLASSES
from gpugoblin.graph.dtypes import EVERY_DTYPE
from gpugoblin.graph.ir import Graph, Node

__all__ = ["CpuBackend"]


class CpuBackend:
    """NumPy with cache-blocked formulas and one BLAS call a block."""

    name = "cpu"
    classes = frozenset(CLASSES)
    dtypes = EVERY_DTYPE

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        return KERNELS

    @property
    def exact_kernels(self) -> Mapping[str, Kernel]:
        return EXACT_KERNELS

    @property
    def views(self) -> Mapping[str, View]:
        return VIEWS

    def readable(self, operator: str, array_like: Array) -> bool:
        if operator == "matmul@1":
            return array_like.dtype.kind != "f" or blas_ready(array_like)
        # These reshape their operands, which must not copy.
        whole = ("gather@1", "reshape@1", "scatter@1")
        return operator not in whole or array_like.flags.c_contiguous

    def chain(
        self,
        nodes: Sequence[Node],
        results: Sequence[int],
        reads: Sequence[int],
        kept: Sequence[int],
        specs: Sequence[TensorSpec],
    ) -> Callable[[Sequence[Array], Sequence[Array], Context], None]:
        builder = ChainBuilder(len(reads), len(kept))
        known: dict[int, tuple[Operand, str]] = {
            value: (("external", place), specs[value].dtype) for place, value in enumerate(reads)
        }
        for node, result in zip(nodes, results, strict=True):
            tree = node.attrs["tree"]
            if not isinstance(tree, Formula):
                raise TypeError("the attribute tree of formula must be a Formula")
            known[result] = builder.add(tree, [known[value] for value in node.inputs])
        for place, value in enumerate(kept):
            builder.store(*known[value], place)
        return builder.build().run

    def compile(self, graph: Graph, numeric_class: str) -> Program:
        return compile_graph(graph, self, numeric_class)

    def driver(self) -> str:
        """`numpy-2.4.6:scipy-openblas-0.3.31.188.0`."""
        blas = np.__config__.CONFIG["Build Dependencies"]["blas"]
        return f"numpy-{np.__version__}:{blas['name']}-{blas['version']}"[:64]
