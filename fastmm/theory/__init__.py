"""The paper's definitions as decision procedures on problems and answers."""

from fastmm.theory.correlation import correlation
from fastmm.theory.optimality import LocalOptimality, local_optimality

__all__ = ["LocalOptimality", "correlation", "local_optimality"]
