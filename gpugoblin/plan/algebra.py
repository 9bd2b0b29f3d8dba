"""Programs of linear algebra larger than any engine, node by node on grids of blocks.

Owns: which node becomes which blocked algorithm, and the sizes of blocks. Must not: know how tasks
are run. What fits an engine is one task; what does not is a product by tiles, a factorization
(`triangular.py`, `tall.py`), or elementwise.

All axes of one extent are cut alike, so that blocks meet. Blocks start at a size that keeps engines
busy, and shrink until every task fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Final, Protocol

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import DTYPES, TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.cost import node_cost
from gpugoblin.graph.ir import Graph, Node
from gpugoblin.plan.grids import Box, Grid, shape_of
from gpugoblin.plan.listed import Draft, ListedPlan, TaskWriter, pruned
from gpugoblin.plan.spans import Loop, make_loop
from gpugoblin.plan.spec import Limits, OutputPlace, Region, TaskOutputRef
from gpugoblin.plan.tall import FAN, tall_qr
from gpugoblin.plan.triangular import cholesky_blocks, solve_blocks
from gpugoblin.units import MIB

__all__ = ["BLOCKED", "needs_algebra", "plan_algebra"]

BLOCKED: Final = frozenset({"cholesky", "triangular_solve", "qr"})
"""Operators that this planner can cut and tiles cannot."""

_BLOCK_BYTES: Final = 32 * MIB
_CHAIN: Final = 16
"""Products that add to one block one after the other; beyond, several sums are made side by side
and added."""

_ATTEMPTS: Final = 12


def needs_algebra(graph: Graph, limits: Limits) -> bool:
    """Whether a factorization of one matrix does not fit an engine by itself."""
    specs = graph.specs()
    for node in graph.nodes:
        if node.operator in BLOCKED and node.outputs[0].rank == 2:
            tensors = [*(specs[value] for value in node.inputs), *node.outputs]
            scratch = node_cost(node, specs).scratch_bytes
            if sum(spec.nbytes for spec in tensors) + scratch > limits.memory_bytes:
                return True
            if max(spec.nbytes for spec in tensors) > limits.slot_bytes:
                return True
    return False


def plan_algebra(graph: Graph, limits: Limits) -> ListedPlan | None:
    """The plan of a graph with an operator of `BLOCKED`; None for other graphs, and for those with
    operators that are not known on grids.

    Raises:
        PlanError: `plan_does_not_fit`, `plan_too_many_tasks`, when small blocks do not help.
    """
    if not any(node.operator in BLOCKED for node in graph.nodes):
        return None
    budget = min(_BLOCK_BYTES, limits.memory_bytes // 6)
    last: PlanError | None = None
    tried: tuple[dict[int, int], int] | None = None
    for attempt in range(_ATTEMPTS):
        now = _steps(graph, budget), max(2, FAN >> attempt)
        if now != tried:
            tried = now
            try:
                return _Algebra(graph, limits, *now).run()
            except PlanError as error:
                if last is not None and error.code == "plan_too_many_tasks":
                    break
                last = error
            except NotImplementedError:
                return None
        budget //= 2
    if last is not None:
        raise last
    return None


def _steps(graph: Graph, budget: int) -> dict[int, int]:
    """For each extent the step in which axes of that extent are cut."""
    specs = graph.specs()
    steps = {extent: max(1, extent) for spec in specs for extent in spec.shape}
    pinned: set[int] = set()
    for node in graph.nodes:
        operands = [specs[value] for value in node.inputs]
        if node.operator == "qr":
            pinned.add(operands[0].shape[-1])
    while True:
        large = max(specs, key=lambda spec: _block_bytes(spec, steps), default=None)
        if large is None or _block_bytes(large, steps) <= budget:
            return steps
        free = [extent for extent in large.shape if extent not in pinned and steps[extent] > 1]
        if not free:
            return steps
        longest = max(free, key=lambda extent: steps[extent])
        halved = -(-steps[longest] // 2)
        if any(halved < extent for extent in pinned) and longest > max(pinned):
            # Blocks of rows must have at least as many rows as columns.
            halved = max(halved, *pinned)
            if halved == steps[longest]:
                return steps
        steps[longest] = halved


def _block_bytes(spec: TensorSpec, steps: dict[int, int]) -> int:
    size = DTYPES[spec.dtype].itemsize
    for extent in spec.shape:
        size *= min(extent, steps[extent])
    return size


class _Place(Protocol):
    """Where a block of a value goes; by its place in the grid, or its box."""

    def __call__(self, at: tuple[int, ...], box: Box | None = None) -> OutputPlace: ...


class _Algebra:
    """One plan in the making: a grid for every value that is there."""

    def __init__(self, graph: Graph, limits: Limits, steps: dict[int, int], fan: int) -> None:
        self._graph, self._steps, self._fan = graph, steps, fan
        self._specs = graph.specs()
        self._writer = TaskWriter(limits)
        self._grids: dict[int, Grid] = {}
        self._read = {value for node in graph.nodes for value in node.inputs}
        self._delivered: set[int] = set()

    def run(self) -> ListedPlan:
        graph = self._graph
        for number, spec in enumerate(graph.inputs):
            self._grids[number] = Grid(spec, self._loops(spec), array=number)
        for first, node in graph.numbered_nodes():
            self._node(first, node)
        for output, value in enumerate(graph.outputs):
            if output not in self._delivered:
                self._copy(output, value)
        return ListedPlan(graph, "algebra", pruned(self._writer.tasks), self._tile())

    def _node(self, first: int, node: Node) -> None:
        match node.operator:
            case "matmul":
                self._product(first, node)
            case "cholesky" if node.outputs[0].rank == 2 and not self._small(node):
                grid = self._grids[node.inputs[0]]
                placed = self._placed(first)
                self._grids[first] = cholesky_blocks(self._writer, grid, placed)
            case "triangular_solve" if node.outputs[0].rank == 2 and not self._small(node):
                self._solve(first, node)
            case "qr" if self._is_tall(node):
                self._tall(first, node)
            case "formula" | "cast" if not self._small(node):
                self._elementwise(first, node)
            case "permute" if node.outputs[0].rank == 2 and not self._small(node):
                self._turn(first, node)
            case _:
                self._whole(first, node)

    def _solve(self, first: int, node: Node) -> None:
        attributes = node.attrs
        self._grids[first] = solve_blocks(
            self._writer,
            self._grids[node.inputs[0]],
            self._grids[node.inputs[1]],
            lower=bool(attributes["lower"]),
            transpose=bool(attributes["transpose"]),
            unit_diagonal=bool(attributes["unit_diagonal"]),
            placed=self._placed(first),
        )

    def _tall(self, first: int, node: Node) -> None:
        wanted = [
            value in self._read or value in self._graph.outputs for value in (first, first + 1)
        ]
        columns = node.outputs[1].shape[1]
        q, r = tall_qr(
            self._writer,
            self._grids[node.inputs[0]],
            fan=self._fan,
            q_placed=self._placed(first) if wanted[0] else None,
            r_place=self._placed(first + 1)((0, 0), ((0, columns), (0, columns)))
            if wanted[1]
            else None,
        )
        for value, grid in ((first, q), (first + 1, r)):
            if grid is not None:
                self._grids[value] = grid

    def _product(self, first: int, node: Node) -> None:
        """By tiles; sums over many blocks in several chains, as those of one are in sequence."""
        spec = node.outputs[0]
        left, right = (self._grids[value] for value in node.inputs)
        if spec.rank != 2 or left.spec.rank != 2 or right.spec.rank != 2:
            raise NotImplementedError
        turned = bool(node.attrs["transpose_a"]), bool(node.attrs["transpose_b"])
        depth = left.loops[0 if turned[0] else 1]
        loops = left.loops[1 if turned[0] else 0], right.loops[0 if turned[1] else 1]
        grid = Grid(spec, loops)
        placed = self._placed(first)
        parts: dict[tuple[int, ...], TaskOutputRef] = {}
        for place in grid.places():
            chains = [
                range(at, min(at + _CHAIN, depth.count)) for at in range(0, depth.count, _CHAIN)
            ]
            alone = len(chains) == 1
            box = grid.box(place)
            end = placed(place, box)
            refs = [
                self._chain(left, right, turned, box, [depth.piece(k) for k in chain],
                            end if alone else _inner(box))
                for chain in chains
            ]  # fmt: skip
            while len(refs) > 1:
                groups = [refs[at : at + _CHAIN] for at in range(0, len(refs), _CHAIN)]
                top = len(groups) == 1
                refs = [self._sum(spec.dtype, box, group, end if top else _inner(box))
                        for group in groups]  # fmt: skip
            parts[place] = refs[0]
        self._grids[first] = Grid(spec, loops, parts=parts)

    def _chain(
        self, left: Grid, right: Grid, turned: tuple[bool, bool], box: Box,
        pieces: Sequence[tuple[int, int]], end: OutputPlace,
    ) -> TaskOutputRef:  # fmt: skip
        carry: TaskOutputRef | None = None
        rows, columns = box
        for number, piece in enumerate(pieces):
            draft = Draft()
            a = draft.box(left, (piece, rows) if turned[0] else (rows, piece))
            b = draft.box(right, (columns, piece) if turned[1] else (piece, columns))
            made = draft.add("matmul", a, b, transpose_a=turned[0], transpose_b=turned[1])
            if carry is not None:
                known = draft.block(_lone(left.spec.dtype, shape_of(box), carry), (0, 0))
                made = draft.build.add("formula", [made, known], tree=call_formula("add"))
            place = end if number == len(pieces) - 1 else _inner(box)
            carry = self._writer.write(draft, [made], [place])[0]
        if carry is None:
            raise NotImplementedError
        return carry

    def _sum(
        self, dtype: str, box: Box, refs: Sequence[TaskOutputRef], place: OutputPlace
    ) -> TaskOutputRef:
        if len(refs) == 1 and place.array is None:
            return refs[0]
        draft = Draft()
        values = [draft.block(_lone(dtype, shape_of(box), ref), (0, 0)) for ref in refs]
        while len(values) > 1:
            pairs = [values[at : at + 2] for at in range(0, len(values), 2)]
            values = [
                draft.build.add("formula", pair, tree=call_formula("add"))
                if len(pair) == 2
                else pair[0]
                for pair in pairs
            ]
        return self._writer.write(draft, values, [place])[0]

    def _elementwise(self, first: int, node: Node) -> None:
        spec = node.outputs[0]
        grid = Grid(spec, self._loops(spec))
        placed = self._placed(first)
        parts: dict[tuple[int, ...], TaskOutputRef] = {}
        for place in grid.places():
            box, draft = grid.box(place), Draft()
            values = [self._under(draft, value, box) for value in node.inputs]
            made = draft.build.apply(node.operator, node.version, values, {**node.attrs})
            parts[place] = self._writer.write(draft, made, [placed(place, box)])[0]
        self._grids[first] = Grid(spec, grid.loops, parts=parts)

    def _under(self, draft: Draft, value: int, box: Box) -> int:
        """What an elementwise operator reads of an operand for a box of its result."""
        spec = self._specs[value]
        own = box[len(box) - spec.rank :]
        part = tuple(
            (0, 1) if extent == 1 else piece for extent, piece in zip(spec.shape, own, strict=True)
        )
        return self._operand(draft, value, part)

    def _operand(self, draft: Draft, value: int, box: Box) -> int:
        outside = len(self._graph.inputs)
        if outside <= value < outside + len(self._graph.constants):
            array = self._graph.constants[value - outside].array()
            return draft.constant(array[tuple(slice(*piece) for piece in box)])
        return draft.box(self._grids[value], box)

    def _turn(self, first: int, node: Node) -> None:
        source = self._grids[node.inputs[0]]
        spec = node.outputs[0]
        axes = node.attrs["axes"]
        if axes == (0, 1) or not isinstance(axes, tuple):
            raise NotImplementedError
        grid = Grid(spec, (source.loops[1], source.loops[0]))
        placed = self._placed(first)
        parts: dict[tuple[int, ...], TaskOutputRef] = {}
        for place in grid.places():
            draft = Draft()
            value = draft.block(source, (place[1], place[0]))
            made = draft.add("permute", value, axes=(1, 0))
            parts[place] = self._writer.write(draft, [made], [placed(place, grid.box(place))])[0]
        self._grids[first] = Grid(spec, grid.loops, parts=parts)

    def _whole(self, first: int, node: Node) -> None:
        """One task; `TaskWriter` refuses it where it does not fit."""
        draft = Draft()
        values = [
            self._operand(draft, value, tuple((0, extent) for extent in self._specs[value].shape))
            for value in node.inputs
        ]
        made = draft.build.apply(node.operator, node.version, values, {**node.attrs})
        wanted = [
            place
            for place in range(len(made))
            if first + place in self._read or first + place in self._graph.outputs
        ]
        places = []
        for place in wanted:
            spec = node.outputs[place]
            box = tuple((0, extent) for extent in spec.shape)
            places.append(self._placed(first + place)((0,) * spec.rank, box))
        refs = self._writer.write(draft, [made[place] for place in wanted], places)
        for place, ref in zip(wanted, refs, strict=True):
            spec = node.outputs[place]
            loops = tuple(Loop(extent, max(1, extent), extent) for extent in spec.shape)
            self._grids[first + place] = Grid(spec, loops, parts={(0,) * spec.rank: ref})

    def _placed(self, value: int) -> _Place:
        """Where blocks of a value go: into the job's array where nothing else wants them."""
        outputs = [n for n, one in enumerate(self._graph.outputs) if one == value]
        direct = outputs[0] if len(outputs) == 1 and value not in self._read else None
        if direct is not None:
            self._delivered.add(direct)
        loops = self._loops(self._specs[value])

        def place(at: tuple[int, ...], box: Box | None = None) -> OutputPlace:
            box = box or tuple(loop.piece(n) for loop, n in zip(loops, at, strict=True))
            return _inner(box) if direct is None else OutputPlace(direct, _region(box))

        return place

    def _copy(self, output: int, value: int) -> None:
        """Brings a value that others read, too, into the job's array."""
        grid = self._grids.get(value)
        if grid is None:
            raise NotImplementedError
        for place in grid.places():
            draft = Draft()
            made = draft.block(grid, place)
            self._writer.write(draft, [made], [OutputPlace(output, _region(grid.box(place)))])

    def _small(self, node: Node) -> bool:
        """Whether all that a node reads and writes is one block each."""
        specs = [*(self._specs[value] for value in node.inputs), *node.outputs]
        return all(loop.count == 1 for spec in specs for loop in self._loops(spec))

    def _is_tall(self, node: Node) -> bool:
        spec = self._specs[node.inputs[0]]
        return spec.rank == 2 and spec.shape[0] >= spec.shape[1] and not self._small(node)

    def _loops(self, spec: TensorSpec) -> tuple[Loop, ...]:
        return tuple(_loop(extent, self._steps[extent]) for extent in spec.shape)

    def _tile(self) -> tuple[int, ...]:
        """Chunks into which no two tasks write: as large as what is cut allows."""
        specs = self._graph.output_specs()
        rank = max(spec.rank for spec in specs)
        extents, cuts = [1] * rank, [0] * rank
        for spec in specs:
            for axis, loop in enumerate(self._loops(spec)):
                at = rank - spec.rank + axis
                extents[at] = max(extents[at], loop.extent)
                if loop.count > 1:
                    cuts[at] = gcd(cuts[at], loop.step)
        return tuple(cut or extent for cut, extent in zip(cuts, extents, strict=True))


def _loop(extent: int, step: int) -> Loop:
    return make_loop(extent, step)


def _region(box: Box) -> Region:
    return Region(tuple(a for a, _ in box), tuple(b for _, b in box))


def _inner(box: Box) -> OutputPlace:
    return OutputPlace(None, _region(box))


def _lone(dtype: str, shape: tuple[int, ...], ref: TaskOutputRef) -> Grid:
    loops = tuple(Loop(extent, max(1, extent), extent) for extent in shape)
    return Grid(TensorSpec(dtype, shape), loops, parts={(0,) * len(shape): ref})
