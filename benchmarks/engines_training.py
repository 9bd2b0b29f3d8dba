"""A training step of a GPT through CUDA or Vulkan beside PyTorch eager on the same card.

    python -m benchmarks.engines_training [--json FILE] [--backend cuda|vulkan] [--tiny]

A step is loss, gradients of all parameters and AdamW, in float32 with TF32 off on both sides. Two
graphs: the first gives the gradients, the second the new parameters; tensors stay on the card. The
gradients of a tiny model are compared with PyTorch's where it is there.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engine_cases import peer_s, show, torch_or_none
from benchmarks.record import Row, machine, row
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.ir import Graph
from gpugoblin.optim.adam import AdamW

BARS = {"cuda": 0.85, "vulkan": 0.5}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a model and a batch."""

    layers: int
    heads: int
    width: int
    words: int
    length: int
    batch: int

    @property
    def tokens(self) -> int:
        return self.batch * self.length


GPT_124M = Sizes(12, 12, 768, 50304, 1024, 8)
TINY = Sizes(2, 2, 32, 64, 16, 2)


@dataclass(slots=True)
class _Model:
    """The forward pass in the making; parameters are inputs, in the order in which they are met."""

    sizes: Sizes
    builder: GraphBuilder = field(default_factory=GraphBuilder)

    def weight(self, *shape: int) -> int:
        return self.builder.input(TensorSpec("float32", shape))

    def call(self, name: str, *operands: int) -> int:
        return self.builder.add("formula", list(operands), tree=call_formula(name))

    def linear(self, x: int, inner: int, outer: int) -> int:
        product = self.builder.add("matmul", [x, self.weight(inner, outer)])
        return self.call("add", product, self.weight(outer))

    def normal(self, x: int, small: int) -> int:
        width = self.sizes.width
        scale, shift = self.weight(width), self.weight(width)
        return self.builder.add("layer_norm", [x, small, scale, shift], axes=(1,))

    def split(self, x: int) -> int:
        """[tokens, width] to [batch, heads, length, part]."""
        s = self.sizes
        shape = (s.batch, s.length, s.heads, s.width // s.heads)
        whole = self.builder.add("reshape", [x], shape=shape)
        return self.builder.add("permute", [whole], axes=(0, 2, 1, 3))

    def attention(self, x: int) -> int:
        s = self.sizes
        q, k, v = (self.split(self.linear(x, s.width, s.width)) for _ in range(3))
        scale = self.builder.constant(np.array((s.width // s.heads) ** -0.5, np.float32))
        seen = self.builder.add("attention", [q, k, v, scale], causal=True)
        back = self.builder.add("permute", [seen], axes=(0, 2, 1, 3))
        flat = self.builder.add("reshape", [back], shape=(s.tokens, s.width))
        return self.linear(flat, s.width, s.width)

    def loss(self) -> Graph:
        s, builder = self.sizes, self.builder
        words = builder.input(TensorSpec("int32", (s.tokens,)))
        labels = builder.input(TensorSpec("int32", (s.tokens,)))
        small = builder.constant(np.array(1e-5, np.float32))
        table, places = self.weight(s.words, s.width), self.weight(s.length, s.width)
        x = builder.add("gather", [table, words], axis=0)
        deep = builder.add("reshape", [x], shape=(s.batch, s.length, s.width))
        x = builder.add("reshape", [self.call("add", deep, places)], shape=(s.tokens, s.width))
        for _ in range(s.layers):
            x = self.call("add", x, self.attention(self.normal(x, small)))
            wide = self.linear(self.normal(x, small), s.width, 4 * s.width)
            bent = builder.add("gelu", [wide])
            x = self.call("add", x, self.linear(bent, 4 * s.width, s.width))
        x = self.normal(x, small)
        scores = builder.add("matmul", [x, table], transpose_b=True)
        each = builder.add("cross_entropy", [scores, labels], axis=1)
        return builder.build([builder.add("reduce", [each], axes=(0,), function="mean")])


def step_graphs(sizes: Sizes) -> tuple[Graph, Graph, list[TensorSpec]]:
    """Loss and gradients; the optimizer's step; the parameters."""
    model = _Model(sizes)
    graph = model.loss()
    joint = gradient(graph, range(2, len(graph.inputs)))  # after words and labels
    specs = list(graph.inputs[2:])
    return joint, AdamW(1e-4).step_graph(specs).graph, specs


def compiler_of(backend: str) -> tuple[Any, Any]:
    """A machine, and the function that compiles for it."""
    if backend == "cuda":
        from app.engine.backends.cuda.compiling import compile_card as for_cuda
        from app.engine.backends.cuda.machine import Machine as CudaMachine

        card = CudaMachine()
        return card, lambda graph: for_cuda(graph, card)
    from app.engine.backends.vulkan.compiling import compile_card as for_vulkan
    from app.engine.backends.vulkan.machine import Machine as VulkanMachine

    other = VulkanMachine()
    return other, lambda graph: for_vulkan(graph, other)


def timed(program: Any) -> float:
    program.replay_s(2)
    began_s = time.perf_counter()
    while time.perf_counter() - began_s < 0.5:
        once_s = program.replay_s(1)
    return float(program.replay_s(max(3, int(2 / once_s))))


def peer_model(torch: Any, sizes: Sizes, specs: Sequence[TensorSpec]) -> Any:
    """The same model in PyTorch: a function from tokens, labels and parameters to the loss."""
    ops = torch.nn.functional
    s = sizes

    def loss(words: Any, labels: Any, parameters: Sequence[Any]) -> Any:
        given = iter(parameters)
        table, places = next(given), next(given)
        x = (table[words].reshape(s.batch, s.length, s.width) + places).reshape(-1, s.width)

        def linear(x: Any) -> Any:
            weight = next(given)
            return x @ weight + next(given)

        def normal(x: Any) -> Any:
            scale = next(given)
            return ops.layer_norm(x, (s.width,), scale, next(given), 1e-5)

        for _ in range(s.layers):
            held = normal(x)
            shape = (s.batch, s.length, s.heads, -1)
            q, k, v = (linear(held).reshape(shape).transpose(1, 2) for _ in range(3))
            seen = ops.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + linear(seen.transpose(1, 2).reshape(-1, s.width))
            x = x + linear(ops.gelu(linear(normal(x))))
        return ops.cross_entropy(normal(x) @ table.T, labels)

    return loss


def torch_step_s(torch: Any, sizes: Sizes, specs: Sequence[TensorSpec]) -> float:
    parameters = [
        torch.nn.Parameter(0.02 * torch.randn(spec.shape, device="cuda")) for spec in specs
    ]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)
    words, labels = (
        torch.randint(0, sizes.words, (sizes.tokens,), device="cuda") for _ in range(2)
    )
    loss = peer_model(torch, sizes, specs)

    def step() -> None:
        optimizer.zero_grad()
        loss(words, labels, parameters).backward()
        optimizer.step()

    step()
    return peer_s(torch, step)


def difference(card_compiler: Any, torch: Any) -> float:
    """The largest difference of gradients of the tiny model, in units of the largest gradient."""
    from app.engine.context import Context
    from app.engine.pool import Pool

    joint, _, specs = step_graphs(TINY)
    random = np.random.default_rng(1)
    arrays: list[Array] = [
        (0.2 * random.standard_normal(spec.shape)).astype(np.float32) for spec in specs
    ]
    words, labels = (random.integers(0, TINY.words, TINY.tokens).astype(np.int32) for _ in "ab")
    outputs = [np.empty(spec.shape, np.float32) for spec in joint.output_specs()]
    program = card_compiler(joint)
    pool = Pool(1)
    program.run([words, labels, *arrays], outputs, np.empty(0, np.uint8), Context(pool))
    pool.close()
    program.release()
    given = [torch.tensor(array, requires_grad=True) for array in arrays]
    loss = peer_model(torch, TINY, specs)
    found = loss(torch.tensor(words).long(), torch.tensor(labels).long(), given)
    wanted = [one.numpy() for one in torch.autograd.grad(found, given)]
    scale = max(float(np.abs(one).max()) for one in wanted)
    pairs = zip(outputs[1:], wanted, strict=True)
    return max(float(np.abs(one - other).max()) for one, other in pairs) / scale


def measured(backend: str, sizes: Sizes, torch: Any) -> list[Row]:
    card, compiler = compiler_of(backend)
    note = ""
    if torch is not None:
        note = f"gradients of a tiny model differ by {difference(compiler, torch):.1e}; "
    joint, update, specs = step_graphs(sizes)
    began_s = time.perf_counter()
    program = compiler(joint)
    program.prepare()
    program.replay_s(1)
    note += f"compiled and run once in {time.perf_counter() - began_s:.1f} s, "
    note += f"{program.private_bytes / 2**30:.1f} GiB"
    first_s = timed(program)
    program.release()
    program = compiler(update)
    second_s = timed(program)
    program.release()
    card.close()
    peer = None if torch is None else torch_step_s(torch, sizes, specs) * 1e3
    note += f"; gradients {first_s * 1e3:.1f} ms, AdamW {second_s * 1e3:.1f} ms"
    took_ms = (first_s + second_s) * 1e3
    name = f"training step of a GPT, {sizes.layers} layers of {sizes.width}, {sizes.tokens} tokens"
    return [
        row(
            f"{name}, {backend}",
            took_ms,
            "ms",
            better="lower",
            ratio_bar=None if peer is None else 1 / BARS[backend],
            peer="" if peer is None else "PyTorch eager, float32, TF32 off",
            peer_value=peer,
            note=note,
        )
    ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--json", type=Path)
    options.add_argument("--backend", choices=sorted(BARS), default="cuda")
    options.add_argument("--tiny", action="store_true")
    given = options.parse_args()
    rows = measured(given.backend, TINY if given.tiny else GPT_124M, torch_or_none())
    show("engines_training", rows, machine(), given.json)


if __name__ == "__main__":
    main()
