"""The paper's definitions as decision procedures on problems and answers."""

from fastmm.theory.assumptions import (
    Check,
    assumption_a,
    assumption_b,
    assumption_c,
    assumption_d,
    distinct_scores,
    general_position,
    unique_optimum,
)
from fastmm.theory.classification import Classification, classify
from fastmm.theory.conditions import lemma2, separable, theorem_conditions
from fastmm.theory.cones import Cone, cone
from fastmm.theory.correlation import correlation
from fastmm.theory.directions import DirectionOptimality, direction_optimality
from fastmm.theory.enumeration import LocalDirection, LocalDirections, Pruned, locally_optimal_directions
from fastmm.theory.excess import log_excess
from fastmm.theory.joint_path import JointPath, joint_regularization_path
from fastmm.theory.lipschitz import Smoothness, smoothness
from fastmm.theory.optimality import LocalOptimality, local_optimality
from fastmm.theory.paths import Path, local_regularization_path, regularization_path
from fastmm.theory.starting_points import Basins, basins
from fastmm.theory.witnesses import witness

__all__ = [
    "Basins",
    "Check",
    "Classification",
    "Cone",
    "DirectionOptimality",
    "JointPath",
    "LocalDirection",
    "LocalDirections",
    "LocalOptimality",
    "Path",
    "Pruned",
    "Smoothness",
    "assumption_a",
    "assumption_b",
    "assumption_c",
    "assumption_d",
    "basins",
    "classify",
    "cone",
    "correlation",
    "direction_optimality",
    "distinct_scores",
    "general_position",
    "joint_regularization_path",
    "lemma2",
    "local_optimality",
    "local_regularization_path",
    "locally_optimal_directions",
    "log_excess",
    "regularization_path",
    "separable",
    "smoothness",
    "theorem_conditions",
    "unique_optimum",
    "witness",
]
