"""The paper's definitions as decision procedures on problems and answers."""

from fastmm.theory.conditions import Check, assumption_a, assumption_b, general_position
from fastmm.theory.cones import Cone, cone
from fastmm.theory.correlation import correlation
from fastmm.theory.enumeration import LocalDirection, LocalDirections, locally_optimal_directions
from fastmm.theory.lipschitz import Smoothness, smoothness
from fastmm.theory.optimality import LocalOptimality, local_optimality
from fastmm.theory.starting_points import Basins, basins
from fastmm.theory.verdict import Verdict, classify

__all__ = [
    "Basins",
    "Check",
    "Cone",
    "LocalDirection",
    "LocalDirections",
    "LocalOptimality",
    "Smoothness",
    "Verdict",
    "assumption_a",
    "assumption_b",
    "basins",
    "classify",
    "cone",
    "correlation",
    "general_position",
    "local_optimality",
    "locally_optimal_directions",
    "smoothness",
]
