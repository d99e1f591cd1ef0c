"""Gradient-descent runs: `descend`, its step rules and stopping rules, and the `Trajectory` it returns."""

from fastmm.descent import rules, stopping
from fastmm.descent.records import log_steps
from fastmm.descent.run import descend
from fastmm.descent.trajectory import History, Trajectory

__all__ = ["History", "Trajectory", "descend", "log_steps", "rules", "stopping"]
