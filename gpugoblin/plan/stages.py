"""Programs larger than any one engine, as stages that each fits: for training and for inference.

Owns: the stage plan and its promise: no task of it needs more than the limits allow. Pure: the same
program and limits give the same plan. Must not: send, run or add anything.

How a step of training goes through a plan (`gg.train` and the lab node do):

1. for each stage in order, where `forward_needed`: the tasks of `forward_plan` on `inputs`, which
   are the program's inputs (data, weights) and activations that earlier stages made;
2. for each stage in reverse, where there is a `backward_plan`: its tasks on `backward_inputs`: the
   same inputs again (the forward is computed again inside, so nothing is kept on a card), and the
   gradients of what the stage gave, from the `backward_outputs` of later stages. Where several
   later stages give the gradient of one activation, the one with the lowest number has the sum;
3. the gradient of a weight is the sum of the `weight_gradient` of all stages in
   `StagePlan.weight_gradients`, in that order (tied embeddings have two).

The stage with the loss gives the program's outputs in its backward (`forward_needed` is False), so
it runs once. Micro-batches are steps of smaller data: each goes through all of this by itself.

A stage is a plan of its own for each direction: one task, as a rule. Where a single layer is larger
than an engine, its stage's plans have many tiles, verified as tiles are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from gpugoblin.graph.ir import Graph, Names
from gpugoblin.plan.cutting import Pace
from gpugoblin.plan.spec import Limits
from gpugoblin.plan.stage_graphs import Port
from gpugoblin.plan.stage_plan import Activation, StagePlan, TrainingStage
from gpugoblin.plan.stage_search import search

__all__ = ["Activation", "Pace", "Port", "StagePlan", "TrainingStage", "split_stages"]


def split_stages(
    program: Graph,
    *,
    parameters: Sequence[int],
    limits: Limits,
    loss: int | None = 0,
    objective: Literal["bytes", "pace"] = "bytes",
    pace: Pace | None = None,
    most_stages: int = 4096,
    names: Names | None = None,
) -> StagePlan:
    """The stages of a program.

    Args:
        program: a graph that passes `check`; its inputs are data, labels, keys and weights.
        parameters: numbers of the float inputs that are weights: they get gradients.
        limits: of the smallest useful card.
        loss: number of the output whose gradient is meant, a float of one element; None for
            inference: stages then have no backward.
        objective: `bytes`: the fewest bytes at the cuts. `pace`: at most `most_stages` stages of
            which the slowest is as fast as it can be, for the contributor that `pace` describes.
        names: what people call nodes and inputs, for errors.

    Raises:
        PlanError: `plan_layer_does_not_fit` with the layer's name, when one operator can neither be
            held by an engine nor be cut.
        GraphError: `not_differentiable`, `loss_not_scalar`.
    """
    return search(
        program,
        tuple(parameters),
        limits,
        loss,
        pace=pace if objective == "pace" else None,
        most=most_stages,
        names=names or Names(),
    )
