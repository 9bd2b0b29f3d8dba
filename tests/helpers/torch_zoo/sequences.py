"""Recurrent networks, attention, experts and state spaces."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.helpers.torch_zoo.table import chances, ints, module, normal, program


class R1(nn.Module):
    def __init__(s, k, **kw):
        super().__init__()
        s.r = getattr(nn, k)(4, 5, **kw)

    def forward(s, x, *h):
        return s.r(x, *h)


module("lstm_proj_h0", R1("LSTM", proj_size=3, batch_first=True, num_layers=2), normal(2, 6, 4))
module(
    "gru_bidirectional_nobias",
    R1("GRU", bidirectional=True, bias=False),
    normal(6, 2, 4),
    normal(2, 2, 5),
)
module("rnn_relu", R1("RNN", nonlinearity="relu"), normal(6, 2, 4))


class Cells(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = nn.LSTMCell(4, 5)
        s.b = nn.GRUCell(5, 5)
        s.c = nn.RNNCell(5, 5)

    def forward(s, x):
        h = c = x.new_zeros(x.shape[1], 5)
        k = h
        out = []
        for t in range(x.shape[0]):
            h, c = s.a(x[t], (h, c))
            k = s.b(h, k)
            out.append(s.c(k, h))
        return torch.stack(out)


module("cells_loop", Cells(), normal(4, 2, 4))


class Bags(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = nn.EmbeddingBag(10, 4, mode="sum")
        s.b = nn.EmbeddingBag(10, 4, mode="max")
        s.c = nn.EmbeddingBag(10, 4, mode="mean", padding_idx=0, include_last_offset=False)

    def forward(s, i, o, w):
        return s.a(i, o, per_sample_weights=w), s.b(i, o), s.c(i, o)


module("embedding_bags", Bags(), ints(10, 9), torch.tensor([0, 3, 3, 7]), chances(9))


class Emb(nn.Module):
    def __init__(s):
        super().__init__()
        s.e = nn.Embedding(10, 4, padding_idx=0, max_norm=None, scale_grad_by_freq=False)

    def forward(s, i):
        return F.one_hot(i, 10).float() @ s.e.weight + s.e(i)


module("embedding_tied_onehot", Emb(), ints(10, 2, 3))


class Tied(nn.Module):
    def __init__(s):
        super().__init__()
        s.e = nn.Embedding(11, 6)
        s.l = nn.Linear(6, 11, bias=False)
        s.l.weight = s.e.weight
        s.m = nn.Linear(6, 6)

    def forward(s, i, y):
        return F.cross_entropy(
            s.l(torch.tanh(s.m(s.e(i)))).flatten(0, 1), y.flatten(), ignore_index=3
        )


module("tied_weights_loss", Tied(), ints(11, 2, 5), ints(11, 2, 5))


@program(
    "sdpa_variants",
    normal(2, 4, 5, 8),
    normal(2, 4, 7, 8),
    normal(2, 4, 7, 8),
    normal(5, 7),
    chances(2, 1, 5, 7) > 0.2,
)
def sdpa_variants(q, k, v, b, m):
    f = F.scaled_dot_product_attention
    return (
        f(q, k, v),
        f(q, k, v, attn_mask=b),
        f(q, k, v, attn_mask=m),
        f(q, k[:, :, :5], v[:, :, :5], is_causal=True, scale=0.3),
        f(q[0, 0], k[0, 0], v[0, 0]),
    )


@program("gqa", normal(2, 4, 5, 8), normal(2, 2, 5, 8), normal(2, 2, 5, 8))
def gqa(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


module(
    "mha",
    nn.MultiheadAttention(8, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True),
    normal(2, 5, 8),
    normal(2, 5, 8),
    normal(2, 5, 8),
)
module(
    "transformer_enc_dec",
    nn.Transformer(8, 2, 1, 1, 16, batch_first=True, norm_first=True),
    normal(2, 5, 8),
    normal(2, 4, 8),
)


class EncMask(nn.Module):
    def __init__(s):
        super().__init__()
        s.e = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True), 2
        )

    def forward(s, x, pad):
        return s.e(
            x,
            mask=nn.Transformer.generate_square_subsequent_mask(x.shape[1]),
            src_key_padding_mask=pad,
            is_causal=True,
        )


module(
    "encoder_masks",
    EncMask(),
    normal(2, 5, 8),
    torch.tensor([[False] * 5, [False] * 3 + [True] * 2]),
)


@program("rotary_half_and_complex", normal(2, 3, 6, 8))
def rotary_half_and_complex(q):
    t = torch.arange(6)
    f = 1.0 / (10000 ** (torch.arange(0, 8, 2) / 8))
    a = torch.outer(t, f)
    c = torch.cat([a, a], -1)
    x1, x2 = q.chunk(2, -1)
    r = q * c.cos() + torch.cat([-x2, x1], -1) * c.sin()
    z = torch.view_as_complex(q.reshape(*q.shape[:-1], -1, 2)) * torch.polar(torch.ones_like(a), a)
    return r, torch.view_as_real(z).flatten(-2)


class Alibi(nn.Module):
    def __init__(s):
        super().__init__()
        s.q = nn.Linear(8, 24)

    def forward(s, x):
        q, k, v = s.q(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        n = x.shape[1]
        p = torch.arange(n)
        d = (p[None] - p[:, None]).abs()
        sl = torch.tensor([2**-1.0, 2**-2.0])
        s_ = q @ k.mT / 2 - sl[:, None, None] * d
        return (s_.softmax(-1) @ v).transpose(1, 2).flatten(2)


module("alibi", Alibi(), normal(2, 5, 8))


class MoE(nn.Module):
    def __init__(s):
        super().__init__()
        s.g = nn.Linear(6, 4)
        s.e = nn.ModuleList(
            nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 6)) for _ in range(4)
        )

    def forward(s, x):
        w, i = s.g(x).softmax(-1).topk(2)
        w = w / w.sum(-1, keepdim=True)
        y = torch.zeros_like(x)
        for n, e in enumerate(s.e):
            y = y + e(x) * (w * (i == n)).sum(-1, keepdim=True)
        load = F.one_hot(i, 4).float().mean((0, 1))
        return y, load.var()


module("moe_dense_route", MoE(), normal(7, 6))


class SSM(nn.Module):
    def __init__(s):
        super().__init__()
        s.A = nn.Parameter(-chances(4, 3))
        s.p = nn.Linear(4, 7)
        s.D = nn.Parameter(torch.ones(4))

    def forward(s, x):
        d, B, C = s.p(x).split([1, 3, 3], -1)
        d = F.softplus(d)
        h = x.new_zeros(x.shape[0], 4, 3)
        ys = []
        for t in range(x.shape[1]):
            h = (
                torch.exp(d[:, t, :, None] * s.A) * h
                + (d[:, t] * x[:, t])[..., None] * B[:, t, None]
            )
            ys.append((h * C[:, t, None]).sum(-1))
        return torch.stack(ys, 1) + s.D * x


module("ssm_loop", SSM(), normal(2, 6, 4))


class S4D(nn.Module):
    def __init__(s):
        super().__init__()
        s.lr = nn.Parameter(-chances(3, 2))
        s.im = nn.Parameter(normal(3, 2))
        s.C = nn.Parameter(normal(3, 2, 2))

    def forward(s, u):
        L = u.shape[-1]
        dt = 0.1
        A = torch.complex(s.lr, s.im) * dt
        K = (torch.view_as_complex(s.C)[..., None] * torch.exp(A[..., None] * torch.arange(L))).sum(
            1
        ).real * 2
        return torch.fft.irfft(torch.fft.rfft(K, 2 * L) * torch.fft.rfft(u, 2 * L), 2 * L)[..., :L]


module("s4d_conv", S4D(), normal(2, 3, 8))


class LRU(nn.Module):
    def forward(s, a, b):
        la = a.sigmoid().log().cumsum(1)
        return (b * torch.exp(-la)).cumsum(1) * torch.exp(la)


module("linear_scan_logspace", LRU(), normal(2, 6, 3), normal(2, 6, 3))
