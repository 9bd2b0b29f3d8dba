"""Losses, parametrizations, checkpoints, random numbers while training."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.helpers.torch_zoo.table import chances, ints, module, normal, program


class Ck(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = nn.Linear(4, 4)
        s.b = nn.Linear(4, 4)

    def forward(s, x):
        from torch.utils.checkpoint import checkpoint

        x = checkpoint(lambda y: torch.tanh(s.a(y)), x, use_reentrant=False)
        return checkpoint(s.b, x, use_reentrant=True)


module("checkpointing", Ck(), normal(3, 4))
module(
    "weight_norm",
    nn.Sequential(
        torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 5)),
        nn.Tanh(),
        torch.nn.utils.parametrizations.weight_norm(nn.Conv1d(1, 2, 1)) if 0 else nn.Linear(5, 2),
    ),
    normal(3, 4),
)
module("old_weight_norm", torch.nn.utils.weight_norm(nn.Conv1d(3, 4, 3)), normal(2, 3, 6))
module(
    "spectral_norm", torch.nn.utils.parametrizations.spectral_norm(nn.Linear(4, 5)), normal(3, 4)
)
module(
    "spectral_norm_train",
    torch.nn.utils.parametrizations.spectral_norm(nn.Linear(4, 5)),
    normal(3, 4),
    train=True,
)
module("orthogonal", torch.nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)), normal(3, 4))


class Sym(nn.Module):
    def forward(s, X):
        return X.triu() + X.triu(1).mT


_l = nn.Linear(4, 4)
torch.nn.utils.parametrize.register_parametrization(_l, "weight", Sym())
module("parametrize_symmetric", _l, normal(3, 4))
module(
    "linear_expm",
    torch.nn.utils.parametrizations.orthogonal(nn.Linear(4, 4), orthogonal_map="matrix_exp"),
    normal(3, 4),
)


@program("losses_1", normal(4, 5), normal(4, 5), ints(5, 4), (chances(4, 5) > 0.5).float())
def losses_1(a, b, y, t):
    return (
        F.cross_entropy(a, y, weight=torch.arange(1.0, 6), label_smoothing=0.1),
        F.cross_entropy(a, b.softmax(-1)),
        F.nll_loss(a.log_softmax(-1), y, reduction="sum"),
        F.kl_div(a.log_softmax(-1), b.softmax(-1), reduction="batchmean"),
        F.huber_loss(a, b, delta=0.5),
        F.smooth_l1_loss(a, b, beta=0.3),
        F.binary_cross_entropy(a.sigmoid(), t),
        F.binary_cross_entropy_with_logits(a, t, pos_weight=torch.arange(1.0, 6)),
        F.mse_loss(a, b, reduction="none"),
        F.l1_loss(a, b),
    )


@program("losses_2", normal(4, 5), normal(4, 5), normal(4, 5), ints(5, 4))
def losses_2(a, b, c, y):
    s = torch.tensor([1.0, -1, 1, -1])
    return (
        F.triplet_margin_loss(a, b, c),
        F.cosine_embedding_loss(a, b, s),
        F.margin_ranking_loss(a[:, 0], b[:, 0], s),
        F.hinge_embedding_loss(a[:, 0], s),
        F.poisson_nll_loss(a, b.abs()),
        F.gaussian_nll_loss(a, b, c.abs() + 0.1),
        F.multi_margin_loss(a, y),
        F.soft_margin_loss(a[:, 0], s),
        F.multilabel_soft_margin_loss(a, (b > 0).float()),
        F.cosine_similarity(a, b),
        F.pairwise_distance(a, b),
        torch.cdist(a, b),
    )


@program("pdist", normal(4, 5))
def pdist(a):
    return F.pdist(a)


@program("ctc_loss_none", normal(10, 2, 5), torch.tensor([[1, 2, 2], [3, 1, 4]]))
def ctc_loss_none(x, y):
    return F.ctc_loss(
        x.log_softmax(-1), y, torch.tensor([10, 8]), torch.tensor([3, 2]), reduction="none"
    )


@program("focal_dice", normal(2, 1, 6, 6), (chances(2, 1, 6, 6) > 0.5).float())
def focal_dice(x, t):
    p = x.sigmoid()
    ce = F.binary_cross_entropy_with_logits(x, t, reduction="none")
    pt = p * t + (1 - p) * (1 - t)
    f = (0.25 * (1 - pt) ** 2 * ce).mean()
    d = 1 - (2 * (p * t).sum((1, 2, 3)) + 1) / (p.sum((1, 2, 3)) + t.sum((1, 2, 3)) + 1)
    return f + d.mean()


@program("ntxent", normal(4, 8), normal(4, 8))
def ntxent(a, b):
    z = F.normalize(torch.cat([a, b]))
    s = z @ z.T / 0.2
    s = s.masked_fill(torch.eye(8, dtype=torch.bool), -1e9)
    y = torch.cat([torch.arange(4, 8), torch.arange(4)])
    return F.cross_entropy(s, y)


module(
    "dropout_train",
    nn.Sequential(
        nn.Linear(4, 6), nn.Dropout(0.3), nn.ReLU(), nn.AlphaDropout(0.2), nn.Linear(6, 2)
    ),
    normal(3, 4),
    train=True,
)
module("dropout2d_train", nn.Dropout2d(0.5), normal(3, 4, 5, 5), train=True)


@program("random_draws", normal(3, 4))
def random_draws(x):
    return (
        torch.rand_like(x),
        torch.randn(3),
        torch.randint(0, 5, (4,)),
        torch.bernoulli(x.sigmoid()),
        torch.normal(x, 1.0),
        x.clone().uniform_(-1, 1),
        x.clone().exponential_(),
        F.gumbel_softmax(x),
        torch.randperm(5),
        torch.multinomial(x.softmax(-1), 1),
        x.clone().normal_(1, 2),
        x.clone().bernoulli_(0.3),
    )


module(
    "attention_dropout_train",
    nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True),
    normal(2, 5, 8),
    train=True,
)
module("rrelu_train", nn.RReLU(), normal(3, 4), train=True)
