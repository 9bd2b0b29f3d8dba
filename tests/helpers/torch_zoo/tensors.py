"""Views, writes in place, indices, masks, sorting and reductions."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.helpers.torch_zoo.table import chances, ints, module, normal, program


@program("inplace_view_write", normal(4, 6))
def inplace_view_write(x):
    y = x.clone()
    y[:, ::2] *= 2
    y[1] = y[0]
    y.t()[3].add_(1.0)
    y.view(-1)[5:9].zero_()
    return y


@program("inplace_chain", normal(3, 5))
def inplace_chain(x):
    y = torch.empty_like(x).copy_(x)
    y.mul_(2).add_(x, alpha=0.5).clamp_(-1, 1)
    y.masked_fill_(x > 0.5, 3.0)
    return y


@program("index_put_accumulate", normal(5, 3), ints(5, 7), normal(7, 3))
def index_put_accumulate(x, i, v):
    return x.index_put((i,), v, accumulate=True)


@program("index_put_two", normal(5, 4), normal(3), torch.tensor([0, 2, 4]), torch.tensor([1, 3, 0]))
def index_put_two(x, v, i, j):
    y = x.clone()
    y[i, j] = v
    return y + x[i, j].sum()


@program("bool_mask_assign", normal(5, 4))
def bool_mask_assign(x):
    y = x.clone()
    y[y < 0] = 0.0
    return y * 2


@program("scatter_reduce_all", normal(6, 4), ints(5, 6, 4))
def scatter_reduce_all(x, i):
    z = torch.ones(5, 4)
    return tuple(
        z.scatter_reduce(0, i, x, m, include_self=s)
        for m in ("sum", "amax", "amin", "mean")
        for s in (True, False)
    )


@program("scatter_reduce_prod", chances(6, 4) + 0.5, ints(5, 6, 4))
def scatter_reduce_prod(x, i):
    return torch.ones(5, 4).scatter_reduce(0, i, x, "prod")


@program("index_reduce", normal(6, 4), torch.tensor([0, 1, 0, 2, 2, 1]))
def index_reduce(x, i):
    return (
        torch.zeros(3, 4).index_reduce(0, i, x, "amax"),
        torch.zeros(3, 4).index_add(0, i, x, alpha=2.0),
        torch.zeros(3, 4).index_copy(0, i[:2], x[:2]),
        x.index_fill(0, i[:1], 2.0),
    )


@program("einsum_many", normal(2, 3, 4), normal(4, 5), normal(2, 5), normal(3, 3))
def einsum_many(a, b, c, d):
    return (
        torch.einsum("bij,jk,bk->bi", a, b, c),
        torch.einsum("ii->i", d),
        torch.einsum("ii", d),
        torch.einsum("...ij->...ji", a),
        torch.einsum("bij,bkj->bik", a, a),
    )


@program("tensordot_kron", normal(2, 3, 4), normal(4, 3, 2), normal(2, 2))
def tensordot_kron(a, b, c):
    return (
        torch.tensordot(a, b, dims=([1, 2], [1, 0])),
        torch.kron(c, c),
        torch.outer(c[0], c[1]),
        torch.cross(a[:, :, :3], a[:, :, 1:], dim=2),
        torch.chain_matmul(c, c, c),
        torch.linalg.multi_dot([c, c]),
        torch.matrix_power(c, 3),
        torch.trace(c),
        torch.tril_indices(3, 3),
    )


@program("masks_and_where", normal(4, 4))
def masks_and_where(x):
    m = torch.ones(4, 4, dtype=torch.bool).tril()
    s = x.masked_fill(~m, float("-inf")).softmax(-1)
    return (
        s,
        torch.where(m, x, x.new_tensor(0.0)),
        torch.logical_xor(m, x > 0),
        (x > 0).any(1),
        (x > 0).all(),
        x.isnan().any(),
    )


@program("reductions", normal(3, 4, 5))
def reductions(x):
    return (
        x.var(1, unbiased=False),
        x.std(),
        torch.var_mean(x, (0, 2)),
        x.norm(p=3, dim=1),
        x.norm(),
        x.logsumexp((0, 1)),
        x.median(),
        x.median(1),
        x.kthvalue(2, 1),
        x.quantile(0.3, 1),
        x.nanmean(),
        x.nansum(),
        x.aminmax(),
        x.prod(1),
        x.amax((0, 2)),
        x.cummax(1),
        x.cumprod(2),
        x.logcumsumexp(1),
        x.diff(dim=1),
        x.count_nonzero(1),
        x.argsort(1),
        x.sort(dim=1, stable=True),
        x.topk(2, sorted=False)[0].sum(),
        x.sum((0, 1)),
        x.cumsum(0),
        torch.trapezoid(x, dim=1),
        x.renorm(2, 0, 1.0),
    )


@program("histc_bucketize", chances(50), torch.tensor([0.2, 0.5, 0.7]))
def histc_bucketize(x, b):
    return (
        torch.histc(x, 10, 0, 1),
        torch.bucketize(x, b),
        torch.searchsorted(b, x, right=True),
        x.sum(),
    )


@program("integer_math", ints(20, 3, 4) - 10, ints(5, 3, 4) + 1)
def integer_math(a, b):
    return (
        a // b,
        a % b,
        torch.fmod(a, b),
        a & b,
        a | b,
        a ^ b,
        ~a,
        a << 1,
        a >> 1,
        a / b,
        a.abs() ** 2,
        a.float().remainder(b),
        a.clamp(max=b),
        a.sign(),
        torch.floor_divide(a, b),
        torch.div(a, b, rounding_mode="trunc"),
    )


@program("small_ints", ints(20, 3, 4).to(torch.uint8), ints(20, 3, 4).to(torch.int16))
def small_ints(a, b):
    return a + a, (a.float() / 255), b * b, a.long().sum(), b.to(torch.int8), a > 3


@program("meshgrid_gather", normal(4, 5), ints(4, 2, 5))
def meshgrid_gather(x, i):
    return (
        torch.gather(x, 0, i),
        torch.take_along_dim(x, i, 0),
        torch.take(x, i),
        x[..., None, :].expand(4, 3, 5),
        torch.meshgrid(x[0], x[1], indexing="xy"),
        x.rot90(),
        x.movedim(0, 1),
        torch.atleast_3d(x),
        torch.hstack([x, x]),
        torch.dstack([x, x]),
        torch.tile(x, (2, 1)),
        x.repeat_interleave(2, 0),
        torch.column_stack([x, x]),
        x.swapaxes(0, 1),
        x.flatten().unflatten(0, (5, 4)),
        x.tensor_split(3, 1),
        torch.broadcast_tensors(x, x[0]),
    )


@program("linalg", normal(4, 4))
def linalg(x):
    a = x @ x.T + 4 * torch.eye(4)
    low = torch.linalg.cholesky(a)
    return (
        torch.linalg.inv(a),
        torch.linalg.det(a),
        torch.linalg.slogdet(a),
        torch.cholesky_solve(x, low),
        torch.linalg.solve(a, x),
        torch.linalg.eigvalsh(a),
        torch.linalg.svdvals(x),
        torch.linalg.pinv(x),
        torch.linalg.matrix_norm(x),
        torch.linalg.solve_triangular(low, x, upper=False),
        torch.linalg.matrix_exp(x),
        torch.linalg.cond(a),
        torch.cholesky_inverse(low),
    )


@program("dict_out", dict(a=normal(3), b=[normal(3), normal(2)]))
def dict_out(d):
    return {"s": d["a"] + d["b"][0], "t": (d["b"][1],)}


@program("no_grad_ema", normal(3, 4), normal(3, 4))
def no_grad_ema(x, e):
    with torch.no_grad():
        n = 0.9 * e + 0.1 * x
    return (x - n).pow(2).mean(), n


@program("vq_straight_through", normal(5, 3), normal(4, 3))
def vq_straight_through(x, c):
    i = torch.cdist(x, c).argmin(-1)
    q = c[i]
    return x + (q - x).detach(), F.mse_loss(q, x.detach()) + 0.25 * F.mse_loss(q.detach(), x), i


@program("neural_ode_rk", normal(2, 3), normal(3, 3))
def neural_ode_rk(y, W):
    def f(v):
        return torch.tanh(v @ W)

    h = 0.1
    for _ in range(5):
        k1 = f(y)
        k2 = f(y + h / 2 * k1)
        y = y + h * k2
    return y


@program("torch_cond", normal(4))
def torch_cond(x):
    return torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, (x,))


@program("assoc_scan", chances(2, 6, 3))
def assoc_scan(x):
    from torch._higher_order_ops.associative_scan import associative_scan

    return associative_scan(lambda a, b: a * b, x, 1, combine_mode="generic")


@program("flex_like_map", normal(5, 3))
def flex_like_map(x):
    from torch._higher_order_ops.map import map as m

    return m(lambda a: a.softmax(-1).cumsum(0), x)


module("flow_coupling", nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 4)), normal(3, 4))


class GCN(nn.Module):
    def __init__(s):
        super().__init__()
        s.w = nn.Linear(4, 3)

    def forward(s, x, e):
        n = x.shape[0]
        A = torch.zeros(n, n).index_put((e[0], e[1]), torch.ones(e.shape[1]))
        A = ((A + A.T) > 0).float() + torch.eye(n)
        d = A.sum(1).rsqrt()
        return (d[:, None] * A * d) @ s.w(x)


module("gcn_dense", GCN(), normal(5, 4), ints(5, 2, 8))


class Bilin(nn.Module):
    def __init__(s):
        super().__init__()
        s.b = nn.Bilinear(3, 4, 2)
        s.u = nn.Upsample(scale_factor=2)
        s.f = nn.Flatten(0)
        s.z = nn.ZeroPad2d(1)
        s.c = nn.CosineSimilarity()

    def forward(s, a, b):
        y = s.b(a, b)
        return s.z(s.u(y[None, None])), s.c(y, y * 2), s.f(y)


module("bilinear_misc", Bilin(), normal(2, 3), normal(2, 4))


class DDPM(nn.Module):
    def __init__(s):
        super().__init__()
        s.c1 = nn.Conv2d(1, 8, 3, padding=1)
        s.t = nn.Linear(8, 8)
        s.gn = nn.GroupNorm(4, 8)
        s.c2 = nn.Conv2d(8, 1, 3, padding=1)
        s.register_buffer("ab", torch.cumprod(1 - torch.linspace(1e-4, 0.02, 10), 0))

    def forward(s, x, t, n):
        a = s.ab[t][:, None, None, None]
        xt = a.sqrt() * x + (1 - a).sqrt() * n
        f = torch.exp(-math.log(1e4) * torch.arange(4) / 4)
        e = t[:, None] * f
        e = torch.cat([e.sin(), e.cos()], -1)
        h = F.silu(s.gn(s.c1(xt)) + s.t(e)[:, :, None, None])
        return F.mse_loss(s.c2(h), n)


module("ddpm_loss", DDPM(), normal(2, 1, 6, 6), ints(10, 2), normal(2, 1, 6, 6))


class PPO(nn.Module):
    def __init__(s):
        super().__init__()
        s.p = nn.Linear(4, 3)
        s.v = nn.Linear(4, 1)

    def forward(s, o, a, old, adv, ret):
        d = torch.distributions.Categorical(logits=s.p(o))
        r = (d.log_prob(a) - old).exp()
        return (
            -torch.min(r * adv, r.clamp(0.8, 1.2) * adv).mean()
            + 0.5 * (s.v(o)[:, 0] - ret).pow(2).mean()
            - 0.01 * d.entropy().mean()
        )


module("ppo_loss", PPO(), normal(6, 4), ints(3, 6), normal(6) - 1, normal(6), normal(6))


@program("distributions", normal(4), chances(4) + 0.1, normal(4))
def distributions(m, s, x):
    D = torch.distributions
    n = D.Normal(m, s)
    return (
        n.log_prob(x),
        n.entropy(),
        n.cdf(x),
        D.kl_divergence(n, D.Normal(0.0, 1.0)),
        D.Beta(s, s + 1).log_prob(x.sigmoid()),
        D.Gamma(s, s).log_prob(x.abs() + 0.1),
        D.Laplace(m, s).log_prob(x),
        D.Bernoulli(logits=m).log_prob((x > 0).float()),
        D.MultivariateNormal(torch.zeros(4), torch.eye(4)).log_prob(x),
        D.StudentT(s + 2).log_prob(x),
        D.Dirichlet(s).log_prob(x.softmax(0)),
        D.Poisson(s).log_prob(torch.ones(4)),
    )
