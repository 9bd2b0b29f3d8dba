"""Capture of a language model of GPT-2 small's size: 12 layers of width 768, 50,257 tokens, a
sequence of 128.

    python benchmarks/capture_time.py

The weights are random. A capture is all that `gg.capture` does: a forked child traces, lowers, and
compares with eager; the second one of a process is counted, as imports are made once. Beside it, in
turns, stands one run of the model by PyTorch.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import gpugoblin as gg
from benchmarks.record import Row, not_run, row
from gpugoblin.graph.canonical import canonicalise
from gpugoblin.graph.check import check

LAYERS: Final = 12
WIDTH: Final = 768
HEADS: Final = 12
TOKENS: Final = 50_257
SEQUENCE: Final = 128
RUNS: Final = 5
_WHAT: Final = "capture of GPT-2 small, 128 tokens"


def model(torch: Any) -> Any:
    """The model in plain PyTorch, with its embedding as the last layer."""
    nn = torch.nn

    # torch has no types where it is not installed, hence the three words below.
    class Block(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.attend, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            rows, length, _ = x.shape
            parts = self.attend(self.first(x)).split(WIDTH, dim=2)
            heads = [one.view(rows, length, HEADS, -1).transpose(1, 2) for one in parts]
            mixed = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
            x = x + self.project(mixed.transpose(1, 2).reshape(rows, length, WIDTH))
            grown = nn.functional.gelu(self.up(self.second(x)), approximate="tanh")
            return x + self.down(grown)

    class Model(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(TOKENS, WIDTH), nn.Embedding(1024, WIDTH)
            self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
            self.last = nn.LayerNorm(WIDTH)

        def forward(self, tokens: Any) -> Any:
            x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.last(x) @ self.tokens.weight.T

    return Model().eval()


def measure() -> list[Row]:
    try:
        import torch
    except ImportError:
        return [not_run(_WHAT, "s", "<= 10 s", "torch is not installed")]
    torch.manual_seed(0)
    made = model(torch)
    tokens = torch.arange(SEQUENCE).reshape(1, SEQUENCE)
    captured = gg.capture(made, (tokens,))
    times, eager = [], []
    for _ in range(RUNS):
        begin = time.perf_counter()
        captured = gg.capture(made, (tokens,))
        between = time.perf_counter()
        with torch.no_grad():
            made(tokens)
        times.append(between - begin)
        eager.append(time.perf_counter() - between)
    begin = time.process_time()
    check(captured.graph)
    canonicalise(captured.graph)
    tools = time.process_time() - begin
    weights = sum(one.numel() for one in made.parameters())
    return [
        row(
            _WHAT, round(statistics.median(times), 2), "s", bar=10.0, better="lower",
            peer="one run of the model by PyTorch, the same cores",
            peer_value=round(statistics.median(eager), 3),
            note=f"{len(captured.graph.nodes)} operators, {weights / 1e6:.0f} million weights, "
            f"{captured.difference:.1e} from eager; median of {RUNS}, from {min(times):.1f} to "
            f"{max(times):.1f} s; its checks and canonical form: {tools:.2f} s of the processor; "
            f"beside other work (load about {os.getloadavg()[0]:.0f})",
        )
    ]  # fmt: skip


if __name__ == "__main__":
    for one in measure():
        print(one)
