"""The paper's definitions as decision procedures on problems and answers."""

from fastmm.theory.correlation import correlation
from fastmm.theory.optimality import LocalOptimality, local_optimality
from fastmm.theory.starting_points import Basins, basins

__all__ = ["Basins", "LocalOptimality", "basins", "correlation", "local_optimality"]
