"""The shape of a stage plan: what `gpugoblin.plan.stages` makes and training walks.

Owns: the data. How a step of training goes through it stands in `stages.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.ir import Graph
from gpugoblin.plan.spec import Plan
from gpugoblin.plan.stage_graphs import Port

__all__ = ["Activation", "StagePlan", "TrainingStage"]


@dataclass(frozen=True, slots=True)
class Activation:
    """A value that crosses a cut.

    Args:
        value: its number in the program; ports name it by this.
        maker: the stage that makes it; `readers`: the later stages that read it, sorted.
        gradient: whether the gradient of the loss by it is made, and goes back.
    """

    value: int
    spec: TensorSpec
    maker: int
    readers: tuple[int, ...]
    gradient: bool

    @property
    def nbytes(self) -> int:
        return self.spec.nbytes


@dataclass(frozen=True, slots=True)
class TrainingStage:
    """A span of the program's nodes.

    Args:
        number: from 0, in forward order.
        nodes: numbers of the program's nodes that it computes, in order; cheap ones that other
            stages make again (masks, positions) included.
        weights: numbers of the program's inputs that are parameters and that it reads.
        forward, inputs, outputs: its graph, and what each input and output of it is.
        backward, backward_inputs, backward_outputs: the same for its gradients; the first inputs
            are those of `forward`. None where nothing of the stage has a gradient.
        forward_plan, backward_plan: the tasks of these graphs, one each (`SinglePlan`) unless
            `tiled`.
        forward_needed: whether a step of training runs the forward by itself.
        tiled: whether no engine holds it as it is, so that its plans are blockwise.
        peak_bytes: of the largest task of both plans (`gpugoblin.graph.memory`).
        forward_flops, backward_flops: of all tasks.
    """

    number: int
    nodes: tuple[int, ...]
    weights: tuple[int, ...]
    forward: Graph
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    forward_plan: Plan
    backward: Graph | None
    backward_inputs: tuple[Port, ...]
    backward_outputs: tuple[Port, ...]
    backward_plan: Plan | None
    forward_needed: bool
    tiled: bool
    peak_bytes: int
    forward_flops: int
    backward_flops: int


@dataclass(frozen=True, slots=True)
class StagePlan:
    """The stages of a program.

    Args:
        program: the whole graph. parameters: numbers of its inputs. loss: number of its output.
        activations: all values that cross a cut, by value.
        weight_gradients: for every parameter the stages that give a share of its gradient, the last
            stage first; none where the loss does not depend on it.
        cut_bytes: what crosses each cut in one direction, one a pair of neighbors.
    """

    program: Graph
    parameters: tuple[int, ...]
    loss: int | None
    stages: tuple[TrainingStage, ...]
    activations: tuple[Activation, ...]
    weight_gradients: dict[int, tuple[int, ...]]
    cut_bytes: tuple[int, ...]

    @property
    def peak_bytes(self) -> int:
        """Of the largest task."""
        return max(stage.peak_bytes for stage in self.stages)

    @property
    def tiled(self) -> bool:
        """Whether a stage may be more than a task in each direction."""
        return any(stage.tiled for stage in self.stages)
