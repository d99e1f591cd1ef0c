"""A block of instances, one a lane, as the Numba kernels lay it out: keys relative to each input's base token.

Softmax sees only differences of keys, so the keys of an input are kept relative to one of its tokens, the base: its
own logit is 0 and its term drops out of the gradient, which is what keeps the sum free of cancellation. Tokens whose
key equals the base's are merged with it (they share its weight for ever). When another token's weight outgrows the
base's, the base moves there. See `fastmm.reference.descent_direction`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fastmm import arrays
from fastmm.arrays import FloatArray, IntArray
from fastmm.jit.compiling import part
from fastmm.jit.lanes import WIDTH, integer, number, store
from fastmm.problem import Problem

Doubles = npt.NDArray[np.float64]

# A block is a table of integers: four extents (width of v is 0 unless v is trained), then addresses. Behind most
# addresses stand vectors, a number for each lane.
(N, T, D, E) = range(4)
(
    KEYS,  # (n, T, d) relative to the base, 0 where masked
    VALUES,  # (n, T, e) the tokens as they are
    LABELS,  # (n)
    MASKS,  # (n, T) -inf at the base, merged tokens and padding, else 0: where a logit starts
    SHARES,  # (n, T) 1 at the base and at merged tokens, else 0: their weight relative to the base's
    SCORES,  # (n, T)
    GAPS,  # (n, T) score minus base score, 0 where masked
    MERGED,  # (n) tokens merged with the base, itself included
    BASE_SCORES,  # (n) their mean score
    WEIGHTS,  # (T) of the input at hand
    P,  # (d), and behind it
    V,  # (e)
    G_P,  # (d) minus the gradient, times n e^-shift; behind it
    G_V,  # (e)
    TRIAL,  # (d + e) the next point
    SHIFTS,  # (2) of p and of v, -inf before the first term
    RATES,  # (1) step sizes
    SPARE,  # (3)
) = range(4, 22)
# Integers and addresses: the base token (n, lanes); and for each lane where the instance's own data stand.
(BASES, FROM_KEYS, FROM_SCORES, FROM_LENGTHS, FROM_VALUES, FROM_LABELS) = range(22, 28)
ENTRIES = 28


class Data(NamedTuple):
    """Blocks of the problem in float64 and int64, and for each instance of the batch the addresses of its own."""

    blocks: list[npt.NDArray[Any]]  # keys, scores, lengths, values, labels; held here, because addresses hold nothing
    addresses: IntArray  # (5, count)


def data_of(problem: Problem, batch: tuple[int, ...], scores: FloatArray) -> Data:
    """The problem's arrays, without copies where they are in float64 already."""
    lengths = np.full(problem.n, problem.T, dtype=np.int64) if problem.lengths is None else problem.lengths
    given = [(problem.K, 3), (scores, 2), (lengths, 1), (problem.X, 3), (problem.Y, 1)]
    held, addresses = [], []
    for array, axes in given:
        dtype = np.int64 if array is lengths else np.float64
        flat, index = arrays.blocks(np.ascontiguousarray(array, dtype=dtype), axes, batch)
        size = 8 * int(np.prod(flat.shape[1:]))
        held.append(flat)
        addresses.append(flat.ctypes.data + index * size)
    return Data(held, np.ascontiguousarray(np.array(addresses, dtype=np.int64).reshape(5, -1)))


class Block(NamedTuple):
    """Memory of a block and its table."""

    table: IntArray  # (ENTRIES)
    memory: Doubles
    bases: IntArray  # (n, lanes)
    sources: IntArray  # (5, lanes)


def block_of(problem: Problem, train_v: bool, width: int) -> Block:
    """Room for `width` instances: about as much as their keys, and their tokens when v is trained."""
    n, tokens, d, e = problem.n, problem.T, problem.d_k, problem.d if train_v else 0
    sizes = [n * tokens * d, n * tokens * e, n] + [n * tokens] * 4 + [n, n, tokens, d, e, d, e, d + e, 2, 1, 3]
    memory = np.zeros(sum(sizes) * width + 8)
    start = memory.ctypes.data + -memory.ctypes.data % 64
    table = np.zeros(ENTRIES, dtype=np.int64)
    table[: E + 1] = n, tokens, d, e
    table[KEYS : SPARE + 1] = start + 8 * width * np.concatenate([[0], np.cumsum(sizes)[:-1]])
    bases, sources = np.zeros((n, width), dtype=np.int64), np.zeros((5, width), dtype=np.int64)
    table[BASES] = bases.ctypes.data
    table[FROM_KEYS:] = sources.ctypes.data + 8 * width * np.arange(5)
    return Block(table, memory, bases, sources)


@part
def load_instance(table: int, lane: int) -> None:
    """Lays out the instance whose addresses the table has for this lane."""
    n, tokens, e = integer(table, N), integer(table, T), integer(table, E)
    scores, lengths = integer(integer(table, FROM_SCORES), lane), integer(integer(table, FROM_LENGTHS), lane)
    values, labels = integer(integer(table, FROM_VALUES), lane), integer(integer(table, FROM_LABELS), lane)
    for i in range(n):
        store(integer(table, LABELS), i * WIDTH + lane, number(labels, i))
        for t in range(tokens):
            at, own = i * tokens + t, t < integer(lengths, i)
            store(integer(table, SCORES), at * WIDTH + lane, number(scores, at) if own else 0.0)
            for j in range(e):
                value = number(values, at * e + j) if own else 0.0
                store(integer(table, VALUES), (at * e + j) * WIDTH + lane, value)
        set_base(table, lane, i, 0)


@part
def set_base(table: int, lane: int, i: int, top: int) -> None:
    """Stores the keys of input i of a lane relative to its token `top`, and its scores relative to that one's."""
    tokens, d = integer(table, T), integer(table, D)
    keys = integer(integer(table, FROM_KEYS), lane)
    length = integer(integer(integer(table, FROM_LENGTHS), lane), i)
    store(integer(table, BASES), i * WIDTH + lane, top)
    merged = 0.0
    for t in range(tokens):
        at, base = (i * tokens + t) * d, (i * tokens + top) * d
        own = t < length
        same = own
        for j in range(d):
            same = same and number(keys, at + j) == number(keys, base + j)
        merged += 1.0 if same else 0.0
        for j in range(d):
            key = number(keys, at + j) - number(keys, base + j) if own and not same else 0.0
            store(integer(table, KEYS), (at + j) * WIDTH + lane, key)
        store(integer(table, MASKS), (i * tokens + t) * WIDTH + lane, 0.0 if own and not same else -np.inf)
        store(integer(table, SHARES), (i * tokens + t) * WIDTH + lane, 1.0 if same else 0.0)
    store(integer(table, MERGED), i * WIDTH + lane, merged)
    set_gaps(table, lane, i)


@part
def set_gaps(table: int, lane: int, i: int) -> None:
    """Scores of input i of a lane relative to the mean score of its base and what is merged with it."""
    tokens, scores, shares = integer(table, T), integer(table, SCORES), integer(table, SHARES)
    first = i * tokens
    base = number(scores, (first + integer(integer(table, BASES), i * WIDTH + lane)) * WIDTH + lane)
    total, equal = 0.0, True
    for m in range(first, first + tokens):
        if number(shares, m * WIDTH + lane) != 0.0:
            score = number(scores, m * WIDTH + lane)
            total += score
            equal = equal and score == base
    if not equal:
        base = total / number(integer(table, MERGED), i * WIDTH + lane)
    store(integer(table, BASE_SCORES), i * WIDTH + lane, base)
    for m in range(first, first + tokens):
        masked = number(integer(table, MASKS), m * WIDTH + lane) != 0.0
        gap = 0.0 if masked else number(scores, m * WIDTH + lane) - base
        store(integer(table, GAPS), m * WIDTH + lane, gap)
