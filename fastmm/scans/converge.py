"""The built-in task: random problems, runs in one batch, and the max-margin programs of what they selected."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fastmm import losses
from fastmm.arrays import FloatArray
from fastmm.descent import Trajectory, descend, rules
from fastmm.descent.parameters import TRAINS
from fastmm.margin import MaxMargin, att_svm, weight_svm
from fastmm.problem import Problem
from fastmm.scans.generators import Generator, as_generator
from fastmm.scans.outcomes import Outcome
from fastmm.scans.streams import Streams
from fastmm.scans.tasks import Check, Row, Variable
from fastmm.theory.correlation import correlation
from fastmm.theory.optimality import judge

SATURATED = 0.999  # smallest largest weight of a run that has selected its tokens, as in the paper's replicas


class Converge:
    """Generate, descend, select, solve, classify.

    Each trial is one random problem. Runs start at p = 0, v at the problem's head, W = 0, and factors of W at normal
    entries of variance ``1 / (3 d)``, that of PyTorch's linear layers. The reference is ATT-SVM of the selected
    tokens (train "p", "pv"), or the program of W in the Frobenius ("W", "Wv") or nuclear norm ("KQ", "KQv").
    """

    name = "converge"
    defaults: Mapping[str, Any] = {
        "generator": "sphere",
        "loss": "logistic",
        "rule": "normalized",
        "lr": 0.1,
        "steps": 1000,
        "train": "p",
    }
    variables: dict[str, Variable] = {  # noqa: RUF012 - never changed
        "saturation": Variable("float64", "smallest over the inputs of the largest attention weight", near=1.0),
        "saturated": Variable("bool", f"saturation is at least {SATURATED}"),
        "correlation": Variable("float64", "cosine of the run and the max-margin solution of its selection", near=1.0),
        "norm": Variable("float64", "Euclidean norm of p, or Frobenius norm of W"),
        "locally_optimal": Variable("bool", "the selected tokens beat all their SVM neighbours"),
        "globally_optimal": Variable("bool", "the selected tokens have the largest scores, ties included"),
        "min_score_gap": Variable("float64", "smallest score gap to an SVM neighbour; inf without neighbours"),
        "selected_score_rank": Variable("int64", "most tokens of one input with a score above the selected one's"),
    }

    def clean(self, name: str, value: Any) -> Any:
        """One grid value, checked and in its own type."""
        if name in ("n", "T", "d", "steps"):
            least = 0 if name == "steps" else 1
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"grid: got {name}={value!r}; allowed: integers, {least} or more")
        elif name == "lr":
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ValueError(f"grid: got lr={value!r}; allowed: positive numbers")
            return float(value)
        elif name == "train":
            if value not in TRAINS or value == "v":
                allowed = ", ".join(repr(kind) for kind in TRAINS if kind != "v")
                raise ValueError(f"grid: got train={value!r}; allowed: {allowed}")
        elif name == "generator":
            return as_generator(value)
        elif name == "loss":
            losses.get(value)
        elif name == "rule":
            rules.get(value)
        else:
            allowed = ", ".join(("n", "T", "d", *self.defaults))
            raise ValueError(f"grid: got the name {name!r}; allowed for the task 'converge': {allowed}")
        return value

    def check(self, cell: Mapping[str, Any]) -> None:
        """Refuses a cell without its sizes, and sizes that its generator has no problems of."""
        for name in ("n", "T", "d"):
            if name not in cell:
                raise ValueError(f"grid: has no {name}; needed for the task 'converge': n, T and d")
        if isinstance(cell["generator"], Generator):
            cell["generator"].check(cell["n"], cell["T"], cell["d"])

    def rows(self, streams: Streams, cell: Mapping[str, Any], threads: int, check: Check) -> Row:
        """The variables of all trials of the streams."""
        train = cell["train"]
        problem, factors = _problems(streams, cell, train)
        settings = {name: cell[name] for name in ("steps", "lr", "rule", "loss", "train")}
        run = descend(problem, W0=factors, threads=threads, progress=check, **settings)
        if np.any(run.stop_reason == "interrupted"):
            raise KeyboardInterrupt
        solution, end = _reference(problem, run, threads)
        scores = problem.scores if "v" not in train else problem.with_head(run.v).scores
        verdict = judge(scores, problem.real_tokens, run.selected, solution)
        own = np.take_along_axis(scores, run.selected[..., None], axis=-1)
        status = solution.status.astype(np.int8)
        status[run.norm == 0] = Outcome.no_direction
        status[run.stop_reason == "overflow"] = Outcome.overflow
        ok = status == Outcome.ok
        cosine = np.full(len(streams), np.nan)
        w = solution.w.reshape(len(streams), -1)
        some = ok & (w != 0).any(axis=1)  # nothing to separate: w = 0 has no direction
        status[ok & ~some] = Outcome.no_direction
        if some.any():
            cosine[some] = correlation(end[some], w[some])
        return {
            "status": status,
            "saturation": np.asarray(run.saturation),
            "saturated": np.asarray(run.saturation) >= SATURATED,
            "correlation": cosine,
            "norm": np.asarray(run.norm),
            "locally_optimal": verdict.locally_optimal,
            "globally_optimal": verdict.globally_optimal,
            "min_score_gap": verdict.min_score_gap,
            "selected_score_rank": (scores > own).sum(axis=-1).max(axis=-1),
        }


def _problems(streams: Streams, cell: Mapping[str, Any], train: str) -> tuple[Problem, Any]:
    """The problems of a batch of trials, and the factors that runs of K and Q start at."""
    n, T, d, generator = (cell[name] for name in ("n", "T", "d", "generator"))
    queries, factored = "W" in train or "K" in train, "K" in train
    spread = math.sqrt(1 / (3 * d))
    if isinstance(generator, Generator):
        own = generator.width(n, T, d) + (n * d if queries else 0)
        normals = streams.normals(own + (2 * d * d if factored else 0))
        problem = Problem(**generator.draw(normals[:, :own], n, T, d, queries))
        starts = spread * normals[:, own:].reshape(-1, 2, d, d) if factored else None
    else:
        rngs = list(streams)
        made = [_as_data(generator(rng, n=n, T=T, d=d)) for rng in rngs]
        problem = Problem(**{name: np.stack([data[name] for data in made]) for name in made[0]})
        starts = spread * np.stack([rng.standard_normal((2, d, d)) for rng in rngs]) if factored else None
    return problem, None if starts is None else (starts[:, 0], starts[:, 1])


def _as_data(made: Any) -> dict[str, Any]:
    """What a user's generator returns, as arguments of `Problem`; what they hold is checked there."""
    if isinstance(made, Problem):
        tied = made.K is made.X
        given = {"X": made.X, "Y": made.Y, "v": made.v, "K": None if tied else made.K, "Z": made.Z}
        return {name: value for name, value in (given | {"lengths": made.lengths}).items() if value is not None}
    if isinstance(made, Mapping):
        return {name: np.asarray(value) for name, value in made.items()}
    return dict(zip(("X", "Y", "v"), map(np.asarray, made), strict=True))


def _reference(problem: Problem, run: Trajectory, threads: int) -> tuple[MaxMargin, FloatArray]:
    """The max-margin solution of what the runs selected, and their end points as rows."""
    options: dict[str, Any] = {"lengths": problem.lengths, "threads": threads, "throw": False}
    if run.p is not None:
        return att_svm(problem.K, run.selected, start=run.p, **options), run.p
    assert run.W is not None
    norm = "nuc" if "K" in run.train else "fro"
    solution = weight_svm(problem.X, problem.Z, run.selected, norm, **options)
    return solution, run.W.reshape(len(run.W), -1)
