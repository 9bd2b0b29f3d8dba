"""Complex numbers, transforms, inner derivatives and linear algebra."""

from __future__ import annotations

import torch
from torch import nn

from tests.helpers.torch_zoo.table import module, normal, program


@program("complex_math", normal(3, 4), normal(3, 4))
def complex_math(a, b):
    z = torch.complex(a, b)
    w = z * z.conj() + torch.exp(1j * a)
    return (
        w.real,
        w.imag,
        z.abs(),
        z.angle(),
        torch.view_as_real(z @ z.mT),
        torch.polar(a.abs(), b),
        (z / (z + 2)).sum(),
        z.sqrt().real,
    )


@program("fft_all", normal(3, 8))
def fft_all(x):
    f = torch.fft.fft(x)
    return (
        f,
        torch.fft.ifft(f).real,
        torch.fft.rfft2(x),
        torch.fft.irfft(torch.fft.rfft(x, norm="ortho"), n=8, norm="ortho"),
        torch.fft.fftshift(x),
        torch.fft.fftn(x, dim=(0,)),
        torch.fft.fftfreq(8),
        torch.fft.hfft(f[:, :5]),
        torch.fft.ihfft(x),
    )


@program("stft_istft", normal(2, 64))
def stft_istft(x):
    w = torch.hann_window(16)
    s = torch.stft(x, 16, hop_length=4, window=w, return_complex=True)
    return s.abs(), torch.istft(s, 16, hop_length=4, window=w)


@program("fft_conv", normal(2, 16), normal(5))
def fft_conv(x, k):
    n = 20
    return torch.fft.irfft(torch.fft.rfft(x, n) * torch.fft.rfft(k, n), n)


@program("vmap_jvp", normal(4, 3), normal(4, 3))
def vmap_jvp(x, v):
    def f(a):
        return torch.sin(a).cumsum(0) * a.prod()

    o, t = torch.func.jvp(lambda q: torch.vmap(f)(q), (x,), (v,))
    return o, t


@program("func_vjp_jacfwd", normal(3))
def func_vjp_jacfwd(x):
    o, pull = torch.func.vjp(lambda a: torch.exp(a) * a.sum(), x)
    return o, pull(torch.ones(3))[0], torch.func.jacfwd(lambda a: a**3 / a.sum())(x)


@program("vmap_in_dims_linalg", normal(3, 4, 4), normal(4, 3))
def vmap_in_dims_linalg(A, b):
    return torch.vmap(lambda a, c: torch.linalg.solve(a @ a.T + torch.eye(4), c), in_dims=(0, 1))(
        A, b
    )


@program("autograd_grad_inside", normal(5))
def autograd_grad_inside(x):
    with torch.enable_grad():
        x = x.detach().requires_grad_(True)
        (d,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    return d.detach()


class Pinn(nn.Module):
    def __init__(s):
        super().__init__()
        s.n = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(s, x):
        def u(p):
            return s.n(p)[0]

        gr = torch.vmap(torch.func.grad(u))(x)
        h = torch.vmap(torch.func.hessian(u))(x)
        return (gr[:, 0] - 0.1 * h[:, 1, 1]).pow(2).mean()


module("pinn_hessian", Pinn(), normal(6, 2))
