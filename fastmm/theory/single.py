"""What functions about one problem accept: no batch, one token an input."""

from __future__ import annotations

from typing import Any

from fastmm import integers
from fastmm.arrays import IntArray
from fastmm.problem import Problem


def single(name: str, problem: Any) -> None:
    """Refuses what is no Problem, or a batch of them."""
    if not isinstance(problem, Problem):
        raise TypeError(f"problem: got {type(problem).__name__}; allowed: a fastmm.Problem")
    if problem.batch_shape:
        raise ValueError(f"problem: got a batch {problem.batch_shape}; allowed in {name}: a single problem")


def single_selection(name: str, problem: Any, selected: Any) -> IntArray:
    """One token for each input of a single problem, shape (n,)."""
    single(name, problem)
    tokens = integers.as_selected("selected", selected, problem.n, problem.T, problem.lengths)
    if tokens.ndim != 1:
        raise ValueError(f"selected: got shape {tokens.shape}; allowed in {name}: (n,)")
    return tokens
