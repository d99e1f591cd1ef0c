"""OSQP as a solver of max-margin programs: the only file that imports osqp, and the only one that knows its names."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
import osqp
from scipy import sparse

from fastmm.arrays import FloatArray
from fastmm.errors import Status
from fastmm.margin.certificate import ON_MARGIN, certify, slacks
from fastmm.margin.program import Options, Program, Rows

# Nothing is decided by the clock: step sizes chosen by timings would give other bits in each run.
_SETTINGS: dict[str, Any] = {
    "verbose": False,
    "eps_abs": 1e-10,
    "eps_rel": 1e-10,
    "eps_prim_inf": 1e-10,
    "eps_dual_inf": 1e-10,
    "polishing": True,
    "adaptive_rho": 1,  # by iterations
    "adaptive_rho_interval": 50,
    "max_iter": 20000,
}


def solve(program: Program, options: Options) -> dict[str, Any]:
    """OSQP one program after the other; the native active set starts from its multipliers, finishes and judges.

    Where the active set finds no certified answer but OSQP's own passes `certify`, that one is taken. `max_iter` and
    `time_limit` hold for both; OSQP hitting its limit only means a worse start.
    """
    count = program.count
    size = int(np.prod(program.row_shape))
    duals = np.zeros((count, size))
    points = np.full((count, program.d), np.nan)
    iterations = np.zeros(count, dtype=np.int64)
    for index in range(count):
        if options.seconds_left <= 0:
            break
        rows = program.rows(index)
        if len(rows.b) + len(rows.e) == 0:
            continue
        points[index], dual, iterations[index] = _run(rows, options)
        duals[index, rows.place] = dual
    raw = program.native(options.settings(program, start_dual=duals))
    raw["steps"] += iterations
    for place in np.flatnonzero(raw["status"] == Status.ill_conditioned):
        index = int(place)
        rows = program.rows(index)
        if rows.e.size or not np.isfinite(points[index]).all():
            continue
        own = certify(rows.A, rows.b, points[index], duals[index, rows.place])
        if own.ok:
            _take(raw, index, rows, points[index], duals[index], own)
    return raw


def _run(rows: Rows, options: Options) -> tuple[FloatArray, FloatArray, int]:
    """OSQP's point, the multipliers of the inequalities (0 where it has none), and its iterations."""
    m, k, d = len(rows.b), len(rows.e), rows.A.shape[1]
    stacked = np.vstack([rows.A, rows.E])
    norms = np.abs(stacked).max(axis=1, initial=0)
    norms[norms == 0] = 1.0
    right = np.concatenate([rows.b, rows.e]) / norms
    upper = np.concatenate([np.full(m, np.inf), right[m:]])
    settings = dict(_SETTINGS)
    if options.max_iter is not None:
        settings["max_iter"] = int(options.max_iter)
    if options.time_limit is not None:
        settings["time_limit"] = max(options.seconds_left, 1e-6)
    solver = osqp.OSQP()
    with contextlib.redirect_stdout(io.StringIO()):
        solver.setup(
            P=sparse.identity(d, format="csc"),
            q=np.zeros(d),
            A=sparse.csc_matrix(stacked / norms[:, None]),
            l=np.ascontiguousarray(right),
            u=np.ascontiguousarray(upper),
            **settings,
        )
        answer = solver.solve(raise_error=False)
    x = np.asarray(answer.x, dtype=float) if answer.x is not None else np.full(d, np.nan)
    y = np.asarray(answer.y, dtype=float) if answer.y is not None else np.zeros(m + k)
    dual = np.maximum(-y[:m], 0.0) / norms[:m]  # OSQP: P x + A'y = 0, so a row at its lower bound has y <= 0
    if not (np.isfinite(x).all() and np.isfinite(dual).all()):
        return np.full(d, np.nan), np.zeros(m), int(answer.info.iter)
    return x, dual, int(answer.info.iter)


def _take(raw: dict[str, Any], index: int, rows: Rows, w: FloatArray, dual: FloatArray, own: Any) -> None:
    slack, unit = slacks(rows.A, rows.b, w)
    raw["point"][index], raw["dual"][index] = w, dual
    raw["neighbors"][index, rows.place] = slack <= ON_MARGIN * unit
    raw["status"][index] = Status.optimal
    raw["residuals"][index] = own.primal, own.stationarity, own.gap
