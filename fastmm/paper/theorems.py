"""The registry of witnesses of the paper's lemmas and theorems."""

from __future__ import annotations

from collections.abc import Callable

from fastmm.paper.path_theorems import theorem1_witness, theorem4_witness, theorem5_witness, theorem6_witness
from fastmm.paper.run_theorems import (
    counterexample_witness,
    lemma1_witness,
    lemma2_witness,
    theorem2_witness,
    theorem3_witness,
)
from fastmm.paper.witness import Witness

# Every result that has a witness, in the paper's order.
THEOREMS: dict[str, Callable[[], Witness]] = {
    "lemma1": lemma1_witness,
    "lemma2": lemma2_witness,
    "theorem1": theorem1_witness,
    "theorem2": theorem2_witness,
    "counterexample": counterexample_witness,
    "theorem3": theorem3_witness,
    "theorem4": theorem4_witness,
    "theorem5": theorem5_witness,
    "theorem6": theorem6_witness,
}
