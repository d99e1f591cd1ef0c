"""The paper's definitions as decision procedures on problems and answers."""

from fastmm.theory.classification import Classification, classify
from fastmm.theory.conditions import Check, assumption_a, assumption_b, general_position
from fastmm.theory.cones import Cone, cone
from fastmm.theory.correlation import correlation
from fastmm.theory.directions import DirectionOptimality, direction_optimality
from fastmm.theory.enumeration import LocalDirection, LocalDirections, Pruned, locally_optimal_directions
from fastmm.theory.lipschitz import Smoothness, smoothness
from fastmm.theory.optimality import LocalOptimality, local_optimality
from fastmm.theory.starting_points import Basins, basins

__all__ = [
    "Basins",
    "Check",
    "Classification",
    "Cone",
    "DirectionOptimality",
    "LocalDirection",
    "LocalDirections",
    "LocalOptimality",
    "Pruned",
    "Smoothness",
    "assumption_a",
    "assumption_b",
    "basins",
    "classify",
    "cone",
    "correlation",
    "direction_optimality",
    "general_position",
    "local_optimality",
    "locally_optimal_directions",
    "smoothness",
]
