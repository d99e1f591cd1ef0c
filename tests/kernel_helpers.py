"""Helpers of the kernel tests: random problems, and the model evaluated in decimal arithmetic of 60 digits."""

from __future__ import annotations

import decimal
from decimal import Decimal

import numpy as np

import fastmm as mm
from fastmm import reference

LOSSES = ("logistic", "exponential", "correlation")
RULES = ("normalized", "gradient")

# More digits than any cancellation in these tests can eat, and exponents far beyond those of doubles.
DIGITS = decimal.Context(prec=60, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[])


def rng(*seed):
    """A generator of its own for each test case."""
    return np.random.default_rng(seed)


def problem_of(seed, n, T, d, d_k=None, batch=(), dtype=np.float64, ragged=False, scale=1.0):
    """A random problem: Gaussian tokens, keys and head, labels -1 and +1."""
    r = rng(seed, n, T, d)
    X = r.normal(size=(*batch, n, T, d)).astype(dtype)
    Y = np.where(r.random((*batch, n)) < 0.5, -1, 1).astype(dtype)
    v = (scale * r.normal(size=(*batch, d))).astype(dtype)
    K = None if d_k is None else r.normal(size=(*batch, n, T, d_k)).astype(dtype)
    lengths = r.integers(1, T + 1, size=(*batch, n)) if ragged else None
    return mm.Problem(X, Y, v, K=K, lengths=lengths)


def with_queries(seed, n, T, d, d_q=3, *, shared=False, ragged=False, dtype=np.float64):
    """A random problem with queries."""
    problem = problem_of(seed, n, T, d, ragged=ragged, dtype=dtype)
    Z = rng(seed, 77).normal(size=(1 if shared else n, d_q)).astype(dtype)
    return mm.Problem(problem.X, problem.Y, problem.v, Z=Z, lengths=problem.lengths)


def inputs_of(problem, own=()):
    """Tokens, keys and scores of each input of one element of a batch, padding cut off, as lists of float64 arrays."""
    batch = problem.batch_shape

    def at(array, core):
        return np.broadcast_to(array, batch + array.shape[array.ndim - core :])[own]

    X, K, S = at(problem.X, 3), at(problem.K, 3), at(problem.scores, 2)
    lengths = np.full(problem.n, problem.T) if problem.lengths is None else at(problem.lengths, 1)
    cut = [[np.asarray(a[i, :t], dtype=float) for i, t in enumerate(lengths)] for a in (X, K, S)]
    return (*cut, np.asarray(at(problem.Y, 1), dtype=float), np.asarray(at(problem.v, 1), dtype=float))


def reference_of(problem, p, loss, own=()):
    """Risk and gradients in p and v by the reference, which knows one input length at a time."""
    X, K, _, Y, v = inputs_of(problem, own)
    risk, grad_p, grad_v = 0.0, 0.0, 0.0
    for x, k, y in zip(X, K, Y, strict=True):
        r, gp, gv = reference.loss_and_grad(x[None], k[None], np.array([y]), v, np.asarray(p, dtype=float), loss)
        risk, grad_p, grad_v = risk + r, grad_p + gp, grad_v + gv
    return risk / problem.n, grad_p / problem.n, grad_v / problem.n


def dec(x):
    """A float as the decimal number that it exactly is."""
    return Decimal(float(x))


def dec_log1p(x):
    """ln(1 + x), by its series where 60 digits of 1 + x would keep little of x."""
    c = DIGITS
    tiny = x < Decimal("1e-25")
    return c.subtract(x, c.divide(c.multiply(x, x), Decimal(2))) if tiny else c.ln(c.add(1, x))


def dec_loss(loss, z):
    """Loss, slope and curvature of a decimal margin."""
    c = DIGITS
    if loss == "correlation":
        return c.minus(z), Decimal(-1), Decimal(0)
    if loss == "exponential":
        e = c.exp(c.minus(z))
        return e, c.minus(e), e
    e = c.exp(c.minus(abs(z)))
    value = c.add(max(c.minus(z), Decimal(0)), dec_log1p(e))
    slope = c.minus(c.divide(e if z >= 0 else Decimal(1), c.add(1, e)))
    return value, slope, c.divide(c.divide(e, c.add(1, e)), c.add(1, e))


def dec_softmax(logits):
    """Softmax and its logarithm of decimal logits; None is a mask."""
    c = DIGITS
    at = max((t for t, x in enumerate(logits) if x is not None), key=lambda t: logits[t])
    top = logits[at]
    powers = [Decimal(0) if x is None else c.exp(c.subtract(x, top)) for x in logits]
    rest = Decimal(0)
    for t, power in enumerate(powers):
        rest = rest if t == at else c.add(rest, power)
    shift, total = dec_log1p(rest), c.add(1, rest)
    logs = [Decimal("-Infinity") if x is None else c.subtract(c.subtract(x, top), shift) for x in logits]
    return [c.divide(x, total) for x in powers], logs


def dec_dot(a, b):
    total = Decimal(0)
    for x, y in zip(a, b, strict=True):
        total = DIGITS.add(total, DIGITS.multiply(dec(x), dec(y)))
    return total


def dec_gradient(K, scores, p, loss):
    """Risk, unit descent direction and log norm of the gradient in p in decimal arithmetic, from scores as given.

    Terms gamma_t - f are formed as sum_u s_u (gamma_t - gamma_u), so that saturation cancels nothing.
    """
    c = DIGITS
    n = Decimal(len(K))
    risk, g = Decimal(0), [Decimal(0)] * len(p)
    for keys, gamma in zip(K, scores, strict=True):
        s, _ = dec_softmax([dec_dot(k, p) for k in keys])
        gamma = [dec(x) for x in gamma]
        f = Decimal(0)
        for weight, score in zip(s, gamma, strict=True):
            f = c.add(f, c.multiply(weight, score))
        value, slope, _ = dec_loss(loss, f)
        risk = c.add(risk, value)
        for t, key in enumerate(keys):
            for u in range(t):  # pairs: s_t s_u (gamma_t - gamma_u) (k_t - k_u)
                w = c.multiply(c.multiply(s[t], s[u]), c.subtract(gamma[t], gamma[u]))
                w = c.multiply(slope, w)
                for j in range(len(p)):
                    g[j] = c.add(g[j], c.multiply(w, c.subtract(dec(key[j]), dec(keys[u][j]))))
    square = Decimal(0)
    for x in g:
        square = c.add(square, c.multiply(x, x))
    if square == 0:
        return c.divide(risk, n), np.zeros(len(p)), -np.inf, g
    norm = c.sqrt(square)
    unit = np.array([float(c.minus(c.divide(x, norm))) for x in g])
    return c.divide(risk, n), unit, float(c.ln(c.divide(norm, n))), [c.divide(x, n) for x in g]


def ulps(got, want, dtype=np.float64):
    """Largest distance of floats from decimal numbers in units in the last place of these, subnormals included."""
    worst = 0.0
    for x, y in zip(np.ravel(got), want, strict=True):
        with np.errstate(over="ignore"):
            rounded = dtype(float(y))
        if np.isinf(rounded):
            worst = max(worst, 0.0 if x == rounded else np.inf)
        else:
            unit = dec(np.spacing(np.abs(rounded)))
            worst = max(worst, float(DIGITS.divide(abs(DIGITS.subtract(dec(x), y)), unit)))
    return worst
