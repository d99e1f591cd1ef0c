"""The factored gradients in p and v of a block of instances, input by input; no cancellation, no underflow."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmm.jit.block import (
    BASE_SCORES,
    G_P,
    G_V,
    GAPS,
    KEYS,
    LABELS,
    MASKS,
    MERGED,
    SCORES,
    SHARES,
    SHIFTS,
    SPARE,
    VALUES,
    WEIGHTS,
    D,
    E,
    N,
    P,
    T,
    V,
    set_base,
    set_gaps,
)
from fastmm.jit.compiling import part
from fastmm.jit.lanes import (
    WIDTH,
    add_mul,
    any_greater,
    any_unequal,
    integer,
    like,
    load,
    number,
    store,
    where_equal,
    where_greater,
)
from fastmm.jit.mathematics import exp_cut, slope_parts

# A token may outweigh the base four times before the base moves: no ping-pong at ties, no more than two bits lost.
_LEAD = 1.3862943611198906

# How far an exponent may lie above the common one before the sum is scaled to it: far from overflow.
_SLACK = 200.0


@part
def clear(table: int) -> None:
    """Readies the sums for the inputs of one gradient."""
    shape = load(integer(table, SHIFTS), 0)
    for j in range(integer(table, D) + integer(table, E)):
        store(integer(table, G_P), j, like(shape, 0.0))
    store(integer(table, SHIFTS), 0, like(shape, -np.inf))
    store(integer(table, SHIFTS), 1, like(shape, -np.inf))


@part
def slopes_of(table: int, loss: int, z: Any) -> tuple[Any, Any]:
    """Size and exponent of the slopes at margins z; a custom loss takes this function's place."""
    return slope_parts(loss, z)


def parts(z: float) -> tuple[float, float]:
    """Where a user's loss is put: size and exponent of minus its slope."""
    return 1.0, 0.0


@part
def slopes_of_custom(table: int, loss: int, z: Any) -> tuple[Any, Any]:
    """`slopes_of` with a user's loss in place of `parts`, one lane after the other."""
    spare = integer(table, SPARE)
    store(spare, 0, z)
    for lane in range(WIDTH):
        size, exponent = parts(number(spare, lane))
        store(spare, WIDTH + lane, size)
        store(spare, 2 * WIDTH + lane, exponent)
    return load(spare, 1), load(spare, 2)


@part
def add_input(table: int, i: int, loss: int, train_p: bool) -> None:
    """Adds what input i pulls to minus the gradients."""
    tokens, d, e = integer(table, T), integer(table, D), integer(table, E)
    gaps, weights, first = integer(table, GAPS), integer(table, WEIGHTS), i * tokens
    top, highest = _logits(table, i)
    lead = like(top, _LEAD)
    if any_greater(highest, lead):
        _move_bases(table, i)
        top, highest = _logits(table, i)

    # weights relative to the base's; those of tokens with a gap ("raised") are divided by e^top as well
    none = like(top, 0.0)
    height = where_equal(top, like(top, -np.inf), none, top)
    raised, level, gain = none, none, none
    for t in range(tokens):
        gap = load(gaps, first + t)
        weight = exp_cut(load(weights, t) - where_equal(gap, none, none, height))
        store(weights, t, weight)
        raised = raised + where_equal(gap, none, none, weight)
        level = level + where_equal(gap, none, weight, none)
        gain = add_mul(gain, weight, gap)
    unit = exp_cut(top)
    total = add_mul(load(integer(table, MERGED), i) + level, unit, raised)
    scaled_mean = gain / total
    mean = unit * scaled_mean  # the margin minus the base score
    size, exponent = slopes_of(table, loss, load(integer(table, BASE_SCORES), i) + mean)
    factor = size / total

    if e > 0:
        share = factor * load(integer(table, LABELS), i) * _admit(table, G_V, e, 1, exponent)
        for t in range(tokens):
            natural = load(weights, t) * where_equal(load(gaps, first + t), none, like(top, 1.0), unit)
            natural = share * (natural + load(integer(table, SHARES), first + t))
            _pull(integer(table, G_V), integer(table, VALUES), (first + t) * e, e, natural)
    if train_p:
        factor = factor * _admit(table, G_P, d, 0, exponent + top)
        for t in range(tokens):
            gap = load(gaps, first + t)
            pull = where_equal(gap, none, none - scaled_mean, gap - mean)
            store(weights, t, factor * load(weights, t) * pull)
        g, keys = integer(table, G_P), integer(table, KEYS)
        for j in range(d):
            sum_ = load(g, j)
            for t in range(tokens):
                sum_ = add_mul(sum_, load(weights, t), load(keys, (first + t) * d + j))
            store(g, j, sum_)


@part
def _logits(table: int, i: int) -> tuple[Any, Any]:
    """Logits relative to the base's, into the weights; the largest among tokens with a gap, and that of all."""
    tokens, d, first = integer(table, T), integer(table, D), i * integer(table, T)
    keys, p = integer(table, KEYS), integer(table, P)
    top = like(load(p, 0), -np.inf)
    highest = top
    for t in range(tokens):
        logit = load(integer(table, MASKS), first + t)
        for j in range(d):
            logit = add_mul(logit, load(keys, (first + t) * d + j), load(p, j))
        store(integer(table, WEIGHTS), t, logit)
        highest = where_greater(logit, highest, logit, highest)
        gap = load(integer(table, GAPS), first + t)
        counted = where_equal(gap, like(gap, 0.0), like(gap, -np.inf), logit)
        top = where_greater(counted, top, counted, top)
    return top, highest


@part
def _move_bases(table: int, i: int) -> None:
    tokens, weights = integer(table, T), integer(table, WEIGHTS)
    for lane in range(WIDTH):
        highest, at = _LEAD, -1
        for t in range(tokens):
            logit = number(weights, t * WIDTH + lane)
            if logit > highest:
                highest, at = logit, t
        if at >= 0:
            set_base(table, lane, i, at)


@part
def _pull(g: int, rows: int, first: int, width: int, weight: Any) -> None:
    for j in range(width):
        store(g, j, add_mul(load(g, j), weight, load(rows, first + j)))


@part
def _admit(table: int, group: int, width: int, slot: int, exponent: Any) -> Any:
    """The factor e^(exponent - shift) of a term; the sum is scaled to a larger shift first where it must be."""
    shift = load(integer(table, SHIFTS), slot)
    moved = where_greater(exponent, shift + like(shift, _SLACK), exponent, shift)
    if any_unequal(moved, shift):
        smaller = where_equal(moved, shift, like(shift, 1.0), exp_cut(shift - moved))
        g = integer(table, group)
        for j in range(width):
            store(g, j, smaller * load(g, j))
        store(integer(table, SHIFTS), slot, moved)
    return where_equal(exponent, like(shift, -np.inf), like(shift, 0.0), exp_cut(exponent - moved))


@part
def set_scores(table: int) -> None:
    """Token scores ``Y_i v' x_it`` and gaps of all inputs at the present v."""
    n, tokens, e = integer(table, N), integer(table, T), integer(table, E)
    values, v = integer(table, VALUES), integer(table, V)
    for i in range(n):
        label = load(integer(table, LABELS), i)
        for at in range(i * tokens, (i + 1) * tokens):
            score = like(label, 0.0)
            for j in range(e):
                score = add_mul(score, load(values, at * e + j), load(v, j))
            store(integer(table, SCORES), at, label * score)
        for lane in range(WIDTH):
            set_gaps(table, lane, i)


@part
def overflown(table: int, lane: int) -> bool:
    """True when tokens of the lane can pull, but the logits of all these have left the numbers."""
    tokens, d, p = integer(table, T), integer(table, D), integer(table, P)
    terms = False
    for at in range(integer(table, N) * tokens):
        if number(integer(table, GAPS), at * WIDTH + lane) != 0.0:
            terms = True
            logit = 0.0
            for j in range(d):
                key = number(integer(table, KEYS), (at * d + j) * WIDTH + lane)
                logit = add_mul(logit, key, number(p, j * WIDTH + lane))
            if abs(logit) < np.inf:
                return False
    return terms
