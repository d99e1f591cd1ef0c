"""General QP solvers called from Python, one call a problem: min 1/2 ||w||^2 subject to rows w >= 1.

Each maker takes rows (I, m, d) and gives a callable without arguments to the answers (I, d). What does not change from
call to call (identity, right-hand sides, matrices in a solver's own format) is made before the clock runs. A callable
may have a list `inside`: seconds a problem by the solver's own clock, one entry a call.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Call = Callable[[], np.ndarray]


class DaqpCalls:
    """DAQP is fast enough for the way through Python to count: its own clock is kept beside ours."""

    def __init__(self, rows: np.ndarray) -> None:
        from ctypes import c_int  # daqp takes the kinds of the constraints as C integers

        m, d = rows.shape[1:]
        self.rows = rows
        self.H, self.f = np.eye(d), np.zeros(d)
        self.upper, self.lower, self.sense = np.full(m, 1e30), np.ones(m), np.zeros(m, dtype=c_int)
        self.inside: list[float] = []

    def __call__(self) -> np.ndarray:
        import daqp

        out, seconds = np.empty((len(self.rows), self.rows.shape[-1])), 0.0
        for k, A in enumerate(self.rows):
            w, _, flag, info = daqp.solve(self.H, self.f, A, self.upper, self.lower, self.sense, primal_tol=1e-10)
            assert flag == 1
            out[k] = w
            seconds += info["setup_time"] + info["solve_time"]
        self.inside.append(seconds / len(self.rows))
        return out


def quadprog_calls(rows: np.ndarray) -> Call:
    import quadprog

    instances, m, d = rows.shape
    G, a, b = np.eye(d), np.zeros(d), np.ones(m)
    columns = np.ascontiguousarray(np.swapaxes(rows, 1, 2))

    def solve() -> np.ndarray:
        out = np.empty((instances, d))
        for k in range(instances):
            out[k] = quadprog.solve_qp(G, a, columns[k], b)[0]
        return out

    return solve


def osqp_calls(rows: np.ndarray) -> Call:
    import osqp
    from scipy import sparse

    instances, m, d = rows.shape
    P, q = sparse.eye(d, format="csc"), np.zeros(d)
    lower, upper = np.ones(m), np.full(m, np.inf)
    matrices = [sparse.csc_matrix(block) for block in rows]
    settings = {"eps_abs": 1e-10, "eps_rel": 1e-10, "max_iter": 200_000, "polishing": True, "verbose": False}

    def solve() -> np.ndarray:
        out = np.empty((instances, d))
        for k in range(instances):
            solver = osqp.OSQP()
            solver.setup(P, q, matrices[k], lower, upper, **settings)
            out[k] = solver.solve(raise_error=False).x
        return out

    return solve


def cvxopt_calls(rows: np.ndarray) -> Call:
    import cvxopt
    import cvxopt.solvers

    instances, m, d = rows.shape
    options = {"show_progress": False, "abstol": 1e-12, "reltol": 1e-12, "feastol": 1e-12, "maxiters": 100}
    P, q, h = cvxopt.matrix(np.eye(d)), cvxopt.matrix(np.zeros(d)), cvxopt.matrix(-np.ones(m))
    matrices = [cvxopt.matrix(-block) for block in rows]

    def solve() -> np.ndarray:
        out = np.empty((instances, d))
        for k in range(instances):
            out[k] = np.asarray(cvxopt.solvers.qp(P, q, matrices[k], h, options=options)["x"]).ravel()
        return out

    return solve
