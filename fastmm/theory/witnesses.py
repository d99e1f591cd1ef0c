"""Witnesses of the paper's results by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastmm.paper.witness import Witness


def witness(name: Any) -> Witness:
    """Build a result's data, check its hypotheses, run it, and compare what is expected with what comes out.

    Parameters
    ----------
    name : {"lemma1", "lemma2", "theorem1", ..., "theorem6", "counterexample"}

    Returns
    -------
    Witness
        ``.ok``, ``.table`` (a list of dicts, one a claim), ``.claims`` and ``.figure()``.

    Raises
    ------
    ValueError
        For other names; Theorem 8, on nonlinear heads, has no witness yet.

    Notes
    -----
    Seconds each. The sources of the expected numbers stand in the table.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.theory.witness("lemma1").ok
    True
    """
    from fastmm.paper.theorems import THEOREMS  # on use: the paper stands above the theory

    if name not in THEOREMS:
        more = "; theorem8 needs nonlinear heads, which are not there yet" if name == "theorem8" else ""
        raise ValueError(f"name: got {name!r}; allowed: {', '.join(THEOREMS)}{more}")
    return THEOREMS[name]()
