"""Basins: which selection of tokens gradient descent ends at, for every starting point of a piece of the plane."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastmm import arrays
from fastmm.arrays import BoolArray, FloatArray, IntArray
from fastmm.descent import descend
from fastmm.losses import Loss
from fastmm.margin import MaxMargin
from fastmm.problem import Problem
from fastmm.progress import progress_bar
from fastmm.theory.optimality import local_optimality

_RUNS = 20_000  # starting points a call of descend: bounds the memory, and leaves room for Ctrl-C


@dataclass(frozen=True, eq=False)
class Basins:
    """What runs from the points of a grid end at.

    Attributes
    ----------
    x, y : ndarray, shapes (w,) and (h,)
        Coordinates of the starting points.
    labels : ndarray of int, shape (h, w)
        For the run from ``(x[j], y[i])`` which entry of `selected` it ends at; -1 when that selection of tokens is not
        locally optimal (a run that is too short, or a tie), or when the run was not carried out.
    saturation : ndarray, shape (h, w)
        ``min_i max_t`` of the attention weights at the end, near 1 when the run has settled; NaN where not carried out.
    selected : ndarray of int, shape (k, n)
        The locally optimal selections found, the globally optimal ones first, then by their share.
    solutions : MaxMargin
        Their max-margin vectors, ``solutions.w`` of shape (k, 2).
    globally_optimal : ndarray of bool, shape (k,)
    problem : Problem
    complete : bool
        False when the runs were interrupted.
    """

    x: FloatArray
    y: FloatArray
    labels: IntArray
    saturation: FloatArray
    selected: IntArray
    solutions: MaxMargin
    globally_optimal: BoolArray
    problem: Problem
    complete: bool

    @property
    def share(self) -> FloatArray:
        """The share of the starting points that ends at each selection, shape (k,)."""
        return np.array([np.mean(self.labels == k) for k in range(len(self.selected))])

    def __repr__(self) -> str:
        ends = ", ".join(
            f"{tuple(own.tolist())}: {part:.1%}" for own, part in zip(self.selected, self.share, strict=True)
        )
        return f"<Basins of {len(self.y)} x {len(self.x)} starting points: {ends}>"


def basins(
    problem: Problem,
    x: tuple[float, float] = (-3.0, 3.0),
    y: tuple[float, float] = (-3.0, 3.0),
    resolution: int | tuple[int, int] = 200,
    *,
    steps: int = 1000,
    lr: Any = 0.1,
    rule: Any = "normalized",
    loss: str | Loss = "logistic",
    stop: Any = None,
    threads: int | None = None,
    progress: bool = False,
) -> Basins:
    """Runs gradient descent in p from every point of a grid and tells which locally optimal selection each reaches.

    Parameters
    ----------
    problem : Problem
        One problem, no batch, with keys in the plane (d_k = 2).
    x, y : (float, float)
        From where to where the starting points lie, both ends included.
    resolution : int or (int, int)
        Points along x, and along y.
    steps, lr, rule, loss, stop, threads
        Passed to `fastmm.descend`; a stop such as ``fastmm.stopping.Saturation(1 - 1e-9)`` saves the steps after a run
        has settled.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Basins

    Raises
    ------
    ValueError
        For a batch, keys that are not in the plane, an interval that is empty or not finite, a resolution below 1.

    Notes
    -----
    Costs ``resolution**2`` runs; memory is that of the result and of a few thousand runs. A run that is interrupted by
    Ctrl-C ends the map, and what was done comes back with ``complete=False``. A run is assigned by the tokens that have
    the largest weights at its end, whatever its saturation; look at `Basins.saturation` before trusting a border.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, "Max-Margin Token Selection in Attention Mechanism", NeurIPS 2023, theorem 3.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1, 0], [0, 0]], [[-2, 1], [0, 0]]], [1, 1], [1, 3])
    >>> found = mm.theory.basins(problem, x=(-1, 4), y=(-1, 3), resolution=20)
    >>> found.selected.tolist(), found.globally_optimal.tolist()
    ([[0, 0], [0, 1]], [True, False])
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem: got {type(problem).__name__}; allowed: a Problem")
    if problem.batch_shape or problem.K.shape[-1] != 2:
        raise ValueError(
            f"problem: got keys of shape {problem.K.shape}; allowed: (n, T, 2), one problem with keys in the plane"
        )
    xs, ys = _grid("x", x, resolution, 0), _grid("y", y, resolution, 1)
    starts = np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)
    ends = np.zeros((len(starts), problem.n), dtype=np.int64)
    saturation = np.full(len(starts), np.nan)
    options = {"steps": steps, "lr": lr, "rule": rule, "loss": loss, "stop": stop, "threads": threads}
    with progress_bar(progress, "basins", len(starts)) as callback:
        done = _run_all(problem, starts, options, ends, saturation, callback)

    reached, index, counts = np.unique(ends[:done], axis=0, return_inverse=True, return_counts=True)
    decided = local_optimality(problem, reached, threads=threads)
    chosen = np.flatnonzero(decided.locally_optimal)
    best = np.asarray(decided.globally_optimal)[chosen]
    chosen = chosen[np.lexsort((-counts[chosen], ~best))]
    label_of = np.full(len(reached), -1, dtype=np.int64)
    label_of[chosen] = np.arange(len(chosen))
    labels = np.full(len(starts), -1, dtype=np.int64)
    labels[:done] = label_of[index.reshape(-1)]
    final = local_optimality(problem, reached[chosen], threads=threads)
    shape = len(ys), len(xs)
    return Basins(
        xs,
        ys,
        labels.reshape(shape),
        saturation.reshape(shape),
        reached[chosen],
        final.solution,
        np.asarray(final.globally_optimal),
        problem,
        done == len(starts),
    )


def _grid(name: str, ends: Any, resolution: Any, axis: int) -> FloatArray:
    interval = arrays.floats(name, ends, np.float64, ("2",))
    if interval.shape != (2,) or not interval[0] < interval[1]:
        raise ValueError(f"{name}: got {ends!r}; allowed: a pair (from, to) of finite numbers, from < to")
    counts = np.broadcast_to(np.asarray(resolution), (2,)) if np.ndim(resolution) <= 1 else np.zeros(2)
    if counts.dtype.kind not in "iu" or counts.min() < 1:
        raise ValueError(f"resolution: got {resolution!r}; allowed: an integer, at least 1, or two of them")
    return np.linspace(float(interval[0]), float(interval[1]), int(counts[axis]))


def _run_all(
    problem: Problem,
    starts: FloatArray,
    options: dict[str, Any],
    ends: IntArray,
    saturation: FloatArray,
    callback: Callable[[int], object] | None,
) -> int:
    """Fills the selected tokens and the saturation of each start; returns how many were done."""
    for begin in range(0, len(starts), _RUNS):
        part = slice(begin, min(begin + _RUNS, len(starts)))
        run = descend(problem, p0=starts[part], **options)
        if np.any(np.asarray(run.stop_reason) == "interrupted"):
            return begin
        ends[part] = run.selected
        saturation[part] = run.saturation
        if callback is not None:
            callback(part.stop)
    return len(starts)
