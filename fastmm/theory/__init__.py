"""The paper's definitions as decision procedures on problems and answers."""

from fastmm.theory.classification import Classification, classify
from fastmm.theory.correlation import correlation
from fastmm.theory.directions import DirectionOptimality, direction_optimality
from fastmm.theory.enumeration import LocalDirection, LocalDirections, Pruned, locally_optimal_directions
from fastmm.theory.optimality import LocalOptimality, local_optimality

__all__ = [
    "Classification",
    "DirectionOptimality",
    "LocalDirection",
    "LocalDirections",
    "LocalOptimality",
    "Pruned",
    "classify",
    "correlation",
    "direction_optimality",
    "local_optimality",
    "locally_optimal_directions",
]
