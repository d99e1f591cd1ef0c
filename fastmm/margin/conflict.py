"""Rows that cannot hold together, thinned out until none can be spared."""

from __future__ import annotations

import numpy as np

from fastmm.arrays import FloatArray
from fastmm.errors import Status
from fastmm.margin.active_set import solve
from fastmm.margin.least_norm import RowProgram
from fastmm.margin.program import Options, Rows


def irreducible(rows: Rows, farkas: FloatArray) -> list[int]:
    """Places of the rows left when those of the Farkas vector's support are left out one by one (deletion filter)."""
    kept = np.flatnonzero(farkas[rows.place] > 0)
    equal = (rows.E, rows.e) if len(rows.e) else (None, None)
    options = Options(throw=False)
    for row in kept:
        if row not in kept:  # an earlier proof did without it
            continue
        rest = kept[kept != row]
        answer = solve(RowProgram(rows.A[rest], rows.b[rest], *equal), options)
        if answer.status == Status.infeasible:
            kept = rest[np.asarray(answer.farkas) > 0]
    return [int(place) for place in rows.place[kept]]
