"""The paper's figures, rebuilt from its exact data, with every number it states checked.

Each function of `FIGURES` returns a `Result`: ``.claims`` says what the paper states and what was measured,
``.figure()`` draws. `main` does all of it and writes the report.
"""

from __future__ import annotations

from fastmm.paper.claims import Claim
from fastmm.paper.many_inputs import figure1c
from fastmm.paper.norms import step_rules
from fastmm.paper.one_input import figure1a, figure1b
from fastmm.paper.result import Result
from fastmm.paper.run import FIGURES, Report, main
from fastmm.paper.theorems import THEOREMS
from fastmm.paper.torch_random import TorchGenerator

__all__ = [
    "FIGURES",
    "THEOREMS",
    "Claim",
    "Report",
    "Result",
    "TorchGenerator",
    "figure1a",
    "figure1b",
    "figure1c",
    "main",
    "step_rules",
]
