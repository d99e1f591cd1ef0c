"""Normalised gradient descent on p as people write it today: NumPy, Numba, JAX and PyTorch, plain formulas.

Each maker takes a Batch and gives a callable from a number of steps to the final p (I, d), started at 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.data import Batch

Run = Callable[[int], np.ndarray]
LR = 0.1
EPSILON = 1e-9  # added to the norm, as in the scripts this imitates


def numpy_batch(batch: Batch) -> Run:
    X, scores = batch.X, batch.scores
    n = X.shape[1]

    def run(steps: int) -> np.ndarray:
        p = np.zeros((len(X), X.shape[-1]))
        for _ in range(steps):
            a = np.matmul(X, p[:, None, :, None])[..., 0]
            s = np.exp(a - a.max(axis=-1, keepdims=True))
            s /= s.sum(axis=-1, keepdims=True)
            z = (s * scores).sum(axis=-1)
            c = s * (scores - z[..., None]) * (-1 / (1 + np.exp(z)) / n)[..., None]
            g = np.matmul(c.reshape(len(X), 1, -1), X.reshape(len(X), -1, X.shape[-1]))[:, 0]
            p -= LR * g / (np.linalg.norm(g, axis=-1, keepdims=True) + EPSILON)
        return p

    return run


def numba_loop(batch: Batch) -> Run:
    import numba

    @numba.njit
    def descend(X, scores, steps, lr, epsilon):
        instances, n, T, d = X.shape
        P = np.zeros((instances, d))
        for b in range(instances):
            p, g, s = np.zeros(d), np.zeros(d), np.zeros(T)
            for _ in range(steps):
                g[:] = 0.0
                for i in range(n):
                    top = -np.inf
                    for t in range(T):
                        a = 0.0
                        for j in range(d):
                            a += X[b, i, t, j] * p[j]
                        s[t] = a
                        top = max(top, a)
                    total, z = 0.0, 0.0
                    for t in range(T):
                        s[t] = np.exp(s[t] - top)
                        total += s[t]
                        z += s[t] * scores[b, i, t]
                    z /= total
                    slope = -1.0 / (1.0 + np.exp(z)) / n / total
                    for t in range(T):
                        c = slope * s[t] * (scores[b, i, t] - z)
                        for j in range(d):
                            g[j] += c * X[b, i, t, j]
                norm = 0.0
                for j in range(d):
                    norm += g[j] * g[j]
                factor = lr / (np.sqrt(norm) + epsilon)
                for j in range(d):
                    p[j] -= factor * g[j]
            P[b] = p
        return P

    scores = batch.scores
    return lambda steps: descend(batch.X, scores, steps, LR, EPSILON)


def _jax_run(batch: Batch, gradient) -> Run:
    import jax
    import jax.numpy as jnp

    def one(X, scores, steps):
        def step(p, _):
            g = gradient(p, X, scores)
            return p - LR * g / (jnp.linalg.norm(g) + EPSILON), None

        return jax.lax.scan(step, jnp.zeros(X.shape[-1]), None, length=steps)[0]

    def whole(X, scores, steps):
        return jax.vmap(lambda x, s: one(x, s, steps))(X, scores)

    compiled = jax.jit(whole, static_argnums=2)
    X, scores = jnp.asarray(batch.X), jnp.asarray(batch.scores)
    return lambda steps: np.asarray(compiled(X, scores, steps))


def jax_grad(batch: Batch) -> Run:
    import jax
    import jax.numpy as jnp

    def risk(p, X, scores):
        weights = jax.nn.softmax(X @ p, axis=-1)
        return jnp.mean(jax.nn.softplus(-(weights * scores).sum(axis=-1)))

    return _jax_run(batch, jax.grad(risk))


def jax_by_hand(batch: Batch) -> Run:
    import jax
    import jax.numpy as jnp

    def gradient(p, X, scores):
        s = jax.nn.softmax(X @ p, axis=-1)
        z = (s * scores).sum(axis=-1)
        c = s * (scores - z[:, None]) * (-jax.nn.sigmoid(-z) / len(z))[:, None]
        return jnp.einsum("nt,ntd->d", c, X)

    return _jax_run(batch, gradient)


def torch_module(batch: Batch) -> Run:
    import torch

    torch.set_num_threads(1)

    class Attention(torch.nn.Module):
        def __init__(self, width: int, head: torch.Tensor) -> None:
            super().__init__()
            self.p = torch.nn.Parameter(torch.zeros(width, dtype=torch.float64))
            self.head = head

        def forward(self, X: torch.Tensor) -> torch.Tensor:
            weights = torch.softmax(X @ self.p, dim=-1)
            return torch.einsum("nt,ntd,d->n", weights, X, self.head)

    def one(X: torch.Tensor, Y: torch.Tensor, v: torch.Tensor, steps: int) -> np.ndarray:
        model = Attention(X.shape[-1], v)
        optimizer = torch.optim.SGD(model.parameters(), lr=LR)
        for _ in range(steps):
            optimizer.zero_grad()
            torch.nn.functional.softplus(-Y * model(X)).mean().backward()
            with torch.no_grad():
                model.p.grad /= model.p.grad.norm() + EPSILON
            optimizer.step()
        return model.p.detach().numpy()

    tensors = [torch.from_numpy(array) for array in batch]
    return lambda steps: np.stack([one(*arrays, steps) for arrays in zip(*tensors, strict=True)])
