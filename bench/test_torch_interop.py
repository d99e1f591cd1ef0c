"""Pooled attention inside PyTorch, forward and with the gradient in p, against torch's own operations; one thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pytest

import bench.peers_torch as peers
from bench.harness import QUICK, TORCH, installed

torch = pytest.importorskip("torch", minversion="2.5", reason="needs PyTorch")

SHAPES = ((6, 8, 10), (500 if QUICK else 50_000, 32, 64))
SEED = 2306
TOLERANCE = {"float64": 1e-10, "float32": 1e-3}  # of the gradient in p, a sum over all tokens that cancels


@lru_cache(maxsize=1)
def data(shape: tuple[int, int, int], dtype: str) -> tuple[Any, ...]:
    """Keys, values, p, lengths and derivatives by the outputs; the padding holds zeros, so that all peers are right."""
    n, T, d = shape
    random = torch.Generator().manual_seed(SEED)
    K, X = (torch.randn(n, T, d, generator=random, dtype=getattr(torch, dtype)) for _ in range(2))
    p, by_pooled = (torch.randn(*own, generator=random, dtype=K.dtype) / d**0.5 for own in ((d,), (n, d)))
    lengths = torch.randint(1, T + 1, (n,), generator=random)
    return K, X, p.requires_grad_(), lengths, by_pooled


def made(contestant: str, shape: tuple[int, int, int], dtype: str, ragged: bool) -> Callable[[], Any]:
    from fastmm.interop.torch import pooling

    torch.set_num_threads(1)
    K, X, p, lengths, _ = data(shape, dtype)
    if contestant == TORCH[0]:
        return lambda: pooling.softmax_attention(K, X, p, lengths if ragged else None)
    if contestant == TORCH[1]:
        own = lengths if ragged else None
        return lambda: pooling.Pooled.apply(K, X, p, own)[0]
    if not ragged:
        return peers.own_operations(K, X, p)
    return (peers.masked if contestant == TORCH[2] else peers.cleared)(K, X, p, lengths)


def call_of(pooled: Callable[[], Any], shape: tuple[int, int, int], dtype: str, backward: bool) -> Callable[[], Any]:
    _, _, p, _, by_pooled = data(shape, dtype)

    def forward() -> Any:
        with torch.no_grad():
            return pooled()

    return (lambda: torch.autograd.grad(pooled(), p, by_pooled)[0]) if backward else forward


@cache
def reference(shape: tuple[int, int, int], dtype: str, ragged: bool, backward: bool) -> np.ndarray:
    """By the formulas, in float64 and in pieces."""
    K, X, p, lengths, by_pooled = (x.detach().numpy() for x in data(shape, dtype))
    parts = []
    for i in range(0, len(K), 1000):
        keys, values, upstream = (x[i : i + 1000].astype(np.float64) for x in (K, X, by_pooled))
        a = keys @ p.astype(np.float64)
        if ragged:
            a[np.arange(K.shape[1]) >= lengths[i : i + 1000, None]] = -np.inf
        s = np.exp(a - a.max(-1, keepdims=True))
        s /= s.sum(-1, keepdims=True)
        if not backward:
            parts.append((s[:, None, :] @ values)[:, 0, :])
            continue
        c = (values @ upstream[..., None])[..., 0]
        slopes = s * (c - (s * c).sum(-1, keepdims=True))
        parts.append(np.einsum("nt,ntd->d", slopes, keys)[None])
    whole = np.concatenate(parts)
    return whole.sum(0) if backward else whole


def contestants(ragged: bool) -> list[str]:
    return [name for name in installed(TORCH) if ragged or name != TORCH[3]]


CASES = [
    (shape, dtype, ragged, backward, contestant)
    for shape in SHAPES
    for dtype in ("float64", "float32")
    for ragged in (False, True)
    for backward in (False, True)
    for contestant in contestants(ragged)
]


@pytest.mark.parametrize(("shape", "dtype", "ragged", "backward", "contestant"), CASES)
def test_pooled_attention(race, lap, shape, dtype, ragged, backward, contestant):
    call = call_of(made(contestant, shape, dtype, ragged), shape, dtype, backward)
    want = reference(shape, dtype, ragged, backward)
    distance = np.linalg.norm(call().detach().double().numpy() - want) / np.linalg.norm(want)
    assert distance <= TOLERANCE[dtype]
    calls = 1 if QUICK or shape[0] > 1000 else 200

    def repeated():
        for _ in range(calls):
            call()

    what = "forward and gradient in p" if backward else "forward"
    race(
        f"pooled attention {shape}, {dtype}{', ragged' if ragged else ''}, {what}",
        contestant,
        repeated,
        units=calls,
        unit="call",
        agreement=f"{distance:.0e}",
        rounds=5 if calls > 1 else 3,
    )
