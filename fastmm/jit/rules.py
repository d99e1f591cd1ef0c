"""How a step moves the parameters of one group: the built-in rules, and the frame that a user's rule is put into."""

from __future__ import annotations

import math

import numpy as np

from fastmm.jit.block import G_P, RATES, SHIFTS, TRIAL, D, Doubles, E, P
from fastmm.jit.compiling import part
from fastmm.jit.lanes import (
    add_mul,
    any_greater,
    any_not_less,
    integer,
    like,
    load,
    root,
    size_of,
    store,
    where_greater,
)
from fastmm.jit.mathematics import exp_cut

NORMALIZED, GRADIENT, CUSTOM = 0, 1, 2

MOVED, ZERO, OVERFLOW = 0, 1, 2

# Sums of squares between these bounds have neither overflown nor lost digits to subnormals.
_LOW, _HIGH = 1e-280, 1e280


@part
def move_lanes(table: int, rule: int, n: int, train_p: bool) -> bool:
    """A step of a built-in rule in all lanes at once; False, and nothing moved, where a lane needs `apply_rule`."""
    d, e = integer(table, D), integer(table, E)
    if train_p and not _try_lanes(table, rule, n, 0, 0, d):
        return False
    if e > 0 and not _try_lanes(table, rule, n, 1, d, e):
        return False
    for j in range(0 if train_p else d, d + e):
        store(integer(table, P), j, load(integer(table, TRIAL), j))
    return True


@part
def _try_lanes(table: int, rule: int, n: int, slot: int, first: int, width: int) -> bool:
    x, g, trial = integer(table, P), integer(table, G_P), integer(table, TRIAL)
    length = load(integer(table, RATES), 0)
    square = like(length, 0.0)
    for j in range(first, first + width):
        square = add_mul(square, load(g, j), load(g, j))
    if any_not_less(square, like(square, _HIGH)) or any_greater(like(square, _LOW), square):
        return False
    if rule == NORMALIZED:
        length = length / root(square)
    else:
        half = like(square, 0.5) * load(integer(table, SHIFTS), slot)
        half = exp_cut(where_greater(half, like(half, 700.0), like(half, 700.0), half))
        length = length / like(half, float(n)) * half
        for j in range(first, first + width):  # half of the power, because all of it may lie outside the numbers
            store(g, j, load(g, j) * half)
    finite = True
    for j in range(first, first + width):
        moved = load(x, j) + length * load(g, j)
        store(trial, j, moved)
        finite = finite and not any_not_less(size_of(moved), like(moved, np.inf))
    if rule == GRADIENT and not finite:
        for j in range(first, first + width):
            store(g, j, load(g, j) / half)
    return finite


@part
def norm_of(g: Doubles) -> tuple[float, float]:
    """The norm of g, and the logarithm of what g was divided by first to keep squares among the numbers.

    A norm of 0 means that g is 0, one of NaN that g has left the numbers.
    """
    square = 0.0
    for j in range(g.shape[0]):
        square = add_mul(square, g[j], g[j])
    if _LOW <= square < _HIGH:
        return root(square), 0.0
    largest = 0.0
    for j in range(g.shape[0]):
        if not abs(g[j]) < np.inf:
            return np.nan, 0.0
        largest = max(largest, abs(g[j]))
    if largest == 0.0:
        return 0.0, 0.0
    square = 0.0
    for j in range(g.shape[0]):
        g[j] /= largest
        square = add_mul(square, g[j], g[j])
    return root(square), math.log(largest)


@part
def apply_rule(rule: int, x: Doubles, g: Doubles, shift: float, n: int, lr: float, step: int, state: Doubles) -> int:
    """One step of one group along g, where minus the gradient is ``g e^shift / n``; x is spoilt unless it MOVED."""
    norm, power = norm_of(g)
    if norm == 0.0:
        return ZERO
    if rule == NORMALIZED:
        length = lr / norm
        if not length < np.inf or not norm < np.inf:
            for j in range(x.shape[0]):
                g[j] /= norm
            length = lr
    else:
        half = exp_cut(min(0.5 * (shift + power), 700.0))
        length = lr / float(n) * half
        for j in range(x.shape[0]):
            g[j] *= half
    finite = True
    for j in range(x.shape[0]):
        x[j] += length * g[j]
        finite = finite and abs(x[j]) < np.inf
    return MOVED if finite else OVERFLOW


def update(x: Doubles, direction: Doubles, log_norm: float, lr: float, step: int, state: Doubles) -> None:
    """Where a user's rule is put; see `fastmm.custom_rule`."""


@part
def apply_custom(rule: int, x: Doubles, g: Doubles, shift: float, n: int, lr: float, step: int, state: Doubles) -> int:
    """`apply_rule` with a user's function in place of `update`."""
    norm, power = norm_of(g)
    if norm == 0.0:
        return ZERO
    if not norm < np.inf:
        return OVERFLOW
    inverse = 1.0 / norm
    for j in range(x.shape[0]):
        g[j] *= inverse
    update(x, g, shift + power + math.log(norm / n), lr, step, state)
    for j in range(x.shape[0]):
        if not abs(x[j]) < np.inf:
            return OVERFLOW
    return MOVED
