"""Layers of networks for images."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.helpers.torch_zoo.table import chances, module, normal, program

module("batchnorm1d_notrack", nn.BatchNorm1d(4, track_running_stats=False), normal(5, 4, 3))
module(
    "norm_zoo",
    nn.Sequential(
        nn.GroupNorm(2, 4),
        nn.InstanceNorm2d(4, affine=True),
        nn.LocalResponseNorm(2),
        nn.LayerNorm([5, 5]),
        nn.RMSNorm(5),
    ),
    normal(2, 4, 5, 5),
)
module(
    "syncfree_instancenorm_track",
    nn.InstanceNorm1d(3, track_running_stats=True),
    normal(2, 3, 7),
    train=True,
)


@program("unfold_fold", normal(2, 3, 6, 6))
def unfold_fold(x):
    u = F.unfold(x, 3, padding=1, stride=2)
    return F.fold(u, (6, 6), 3, padding=1, stride=2), x.unfold(2, 3, 2)


@program("interpolate_modes", normal(1, 2, 5, 6))
def interpolate_modes(x):
    found = [F.interpolate(x, size=(8, 9), mode=m) for m in ("nearest", "nearest-exact", "area")]
    for corners in (False, True):
        found.append(F.interpolate(x, size=(8, 9), mode="bilinear", align_corners=corners))
        found.append(F.interpolate(x, size=(7, 9), mode="bicubic", align_corners=corners))
    found.append(F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True))
    found.append(F.interpolate(x, size=(3, 9), mode="bicubic", antialias=True))
    found.append(F.interpolate(x[:, :, 0], size=9, mode="linear"))
    found.append(F.interpolate(x[:, :, None], size=(2, 7, 3), mode="trilinear"))
    return tuple(found)


@program("pads", normal(2, 3, 5, 5))
def pads(x):
    return (
        F.pad(x, (1, 2, 2, 1), mode="reflect"),
        F.pad(x, (1, 2, 2, 1), mode="replicate"),
        F.pad(x, (1, 2, 2, 1), mode="circular"),
        F.pad(x, (-1, 2), value=3.0),
    )


@program("pools", normal(2, 3, 8, 8))
def pools(x):
    return (
        F.max_pool2d(x, 3, 2, 1, return_indices=True)[0],
        F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        F.adaptive_avg_pool2d(x, (3, 5)),
        F.adaptive_max_pool2d(x, (3, 2)),
        F.lp_pool2d(x.abs() + 0.1, 2, 2),
        F.max_pool2d(x, 2, dilation=2),
        F.avg_pool1d(x[0], 2),
        F.max_pool3d(x[:, None], 2),
    )


@program("grid_samples", normal(1, 2, 5, 5), chances(1, 4, 4, 2) * 2.4 - 1.2)
def grid_samples(x, gr):
    return tuple(
        F.grid_sample(x, gr, mode=m, padding_mode=p, align_corners=a)
        for m in ("bilinear", "nearest", "bicubic")
        for p in ("zeros", "border", "reflection")
        for a in (False,)
    )


module(
    "convs",
    nn.Sequential(
        nn.Conv2d(4, 8, 3, padding="same", dilation=2, groups=2),
        nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1, groups=2),
        nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"),
        nn.PixelUnshuffle(2),
        nn.ChannelShuffle(4),
    ),
    normal(2, 4, 5, 5),
)
module(
    "conv_transpose_1_3", nn.ConvTranspose3d(2, 3, 3, stride=2, dilation=2), normal(1, 2, 3, 3, 3)
)


@program("activations", normal(3, 8))
def activations(x):
    return tuple(
        f(x)
        for f in (
            F.relu6,
            F.elu,
            F.selu,
            F.celu,
            F.leaky_relu,
            F.hardswish,
            F.hardsigmoid,
            F.hardtanh,
            F.mish,
            F.silu,
            F.softplus,
            F.softsign,
            F.tanhshrink,
            F.softshrink,
            F.hardshrink,
            F.logsigmoid,
            F.gelu,
            lambda v: F.gelu(v, approximate="tanh"),
            lambda v: F.glu(v),
            lambda v: F.threshold(v, 0.1, 20.0),
            lambda v: F.prelu(v, torch.tensor([0.2])),
            lambda v: F.softmin(v, -1),
            lambda v: v,
        )
    )


@program("special", chances(3, 4) + 0.2)
def special(x):
    return (
        torch.lgamma(x),
        torch.digamma(x),
        torch.erfc(x),
        torch.special.expit(x),
        torch.special.xlogy(x, x),
        torch.special.entr(x),
        torch.logit(x / 2),
        torch.special.ndtr(x),
        torch.sinc(x),
    )
