"""The paper's figures, rebuilt from its exact data, with every number it states checked.

Each function of `FIGURES` returns a `Result`: ``.claims`` says what the paper states and what was measured,
``.figure()`` draws. `main` does all of it and writes the report.
"""

from __future__ import annotations

from fastmm.paper.basins import basin_maps, basin_rules
from fastmm.paper.claims import Claim
from fastmm.paper.joint import figure3a, figure3b, figure3c
from fastmm.paper.loss_comparison import loss_comparison
from fastmm.paper.many_inputs import figure1c
from fastmm.paper.norms import step_rules
from fastmm.paper.one_input import figure1a, figure1b
from fastmm.paper.random_instances import random_instances
from fastmm.paper.result import Result
from fastmm.paper.run import FIGURES, Report, main
from fastmm.paper.theorems import THEOREMS
from fastmm.paper.torch_random import TorchGenerator
from fastmm.paper.two_starts import two_starts

__all__ = [
    "FIGURES",
    "THEOREMS",
    "Claim",
    "Report",
    "Result",
    "TorchGenerator",
    "basin_maps",
    "basin_rules",
    "figure1a",
    "figure1b",
    "figure1c",
    "figure3a",
    "figure3b",
    "figure3c",
    "loss_comparison",
    "main",
    "random_instances",
    "step_rules",
    "two_starts",
]
