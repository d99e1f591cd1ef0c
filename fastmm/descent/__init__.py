"""Gradient-descent runs: `descend` and the `Trajectory` it returns."""

from fastmm.descent.run import descend
from fastmm.descent.trajectory import History, Trajectory

__all__ = ["History", "Trajectory", "descend"]
