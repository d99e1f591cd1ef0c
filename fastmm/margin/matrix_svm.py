"""W-SVM: the key-query matrix of least Frobenius or nuclear norm that selects one token of each input."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmm import _core, arrays
from fastmm.margin import nuclear
from fastmm.margin.active_set import solve
from fastmm.margin.power_norm import as_power
from fastmm.margin.program import SOLVERS, Options, Rows
from fastmm.margin.result import MaxMargin
from fastmm.margin.tokens import TokenProgram

_SOLVERS = {"fro": SOLVERS, "nuc": ("auto", "interior-point")}


def weight_svm(
    X: Any,
    Z: Any,
    selected: Any,
    norm: str | float = "fro",
    lengths: Any = None,
    *,
    solver: str = "auto",
    start: Any = None,
    max_iter: int | None = None,
    time_limit: float | None = None,
    threads: int | None = None,
    throw: bool = True,
) -> MaxMargin:
    """Solves ``min ||W||  s.t.  z_i' W (x_i,selected - x_it) >= 1`` for all inputs i and their other tokens t.

    The logits of input i are ``X_i W' z_i``, so W maps queries to keys and has the shape (d_q, d).

    Parameters
    ----------
    X : array_like, shape (..., n, T, d)
        Tokens. float32 is widened exactly before tokens are subtracted; all arithmetic is float64.
    Z : array_like, shape (..., n, d_q) or (..., 1, d_q)
        The query of each input, or one that all inputs share.
    selected : array_like of int, shape (..., n)
        The selected token of each input, counted from 0.
    norm : {"fro", "nuc"} or float
        The Frobenius norm, whose solution is unique, or the nuclear norm (the sum of singular values), for which any
        one of several solutions may come back; or p of the entrywise l_p norm as in `att_svm`.
    lengths : array_like of int, shape (..., n), optional
        Lengths of sequences shorter than T; what stands behind them is never read.
    solver : {"auto", "active-set", "osqp"} for "fro", {"auto", "interior-point"} for "nuc"
        "auto" is the compiled active set, for the nuclear norm followed by an interior point and Newton's method.
    start : MaxMargin, or array_like, shape (..., d_q, d) or (..., n, T), optional
        As in `att_svm`: where the active set looks first. The answer never depends on it, only the time.
    max_iter, time_limit, threads, throw
        As in `att_svm`. For the nuclear norm `max_iter` holds for each of the two stages.

    Returns
    -------
    MaxMargin
        With `w` of shape (..., d_q, d) and `dual`, `neighbors` and `farkas` of shape (..., n, T). For the nuclear norm
        the margin is ``1 / ||W||_*``, and the certificate is that of the dual: ``Σ λ z δ'`` has spectral norm at most
        1 and ``Σ λ`` equals ``||W||_*`` (its `stationarity` is what the spectral norm exceeds 1 by, its `gap` the
        relative difference of the two values). A program is infeasible for both norms or for neither.

    Raises
    ------
    InfeasibleError, NotSolvedError
        With ``throw=True``, when a program is infeasible, or ends without a certified answer; ``.result`` has all.
    TypeError
        For complex and object arrays.
    ValueError
        For shapes that do not fit, an unknown norm, indices outside the sequences, NaN or infinity outside the padding.

    Notes
    -----
    W lies in the product of the spans of the queries and of the differences, so the programs are solved in orthonormal
    bases of these, with rows of length ``D = min(n, d_q) min(n (T-1), d)`` instead of ``d_q d``; answers are judged by
    the given data. With a shared query u the solution is ``u p' / ||u||²`` with p that of `att_svm`, for both norms.
    Cost: with m rows, ``m D + D q`` operations a step of the active set with q rows active; for the nuclear norm about
    12 steps of ``m³/3 + m² d`` operations more. Memory a thread: ``m D`` numbers, for the nuclear norm ``2 m²`` more.

    References
    ----------
    Tarzanagh, Li, Thrampoulidis, Oymak, "Transformers as Support Vector Machines", 2023, (W-SVM) and its nuclear form.

    Examples
    --------
    >>> import fastmm as mm
    >>> X = [[[1.0, 2.0], [0.0, 0.0]], [[2.0, -1.0], [0.0, 0.0]]]
    >>> mm.weight_svm(X, [[1.0, 0.0], [1.0, 1.0]], [0, 0]).w
    array([[ 0.4,  0.3],
           [ 0.2, -0.1]])
    >>> answer = mm.weight_svm([[[1.0, 0.0], [0.0, 0.0]]] * 2, [[1, 0], [0, 1]], [0, 0], norm="nuc")
    >>> round(1 / answer.margin**2, 9)
    2.0
    """
    if isinstance(norm, str) and norm not in _SOLVERS:
        raise ValueError(f"norm: got {norm!r}; allowed: 'fro', 'nuc', or p of an l_p norm")
    own = _SOLVERS[norm] if isinstance(norm, str) else SOLVERS
    options = Options(solver, start, max_iter, time_limit, threads, throw, own)
    program = WeightProgram(X, Z, selected, lengths, norm == "nuc")
    if not isinstance(norm, str):
        program.norm = as_power(norm)
    return solve(program, options)


class WeightProgram(TokenProgram):
    """Validated tokens, queries and selections."""

    name = "weight_svm"

    def __init__(self, X: Any, Z: Any, selected: Any, lengths: Any, nuclear_norm: bool) -> None:
        queries = arrays.floats("Z", Z, np.float64, ("n", "d_q"))
        self._read("X", X, selected, lengths, arrays.working_dtype(("X", X)), [("Z", queries.shape[:-2])])
        own, self.d_q = queries.shape[-2:]
        if own not in (1, self.n) or self.d_q == 0:
            raise ValueError(
                f"Z: got shape {queries.shape}; allowed: (..., n={self.n}, d_q) or (..., 1, d_q) with d_q at least 1"
            )
        self.d = self.d_q * self._width
        self.nuclear = nuclear_norm
        self.queries, self.query_block = arrays.blocks(queries, 2, self.batch)
        if nuclear_norm:
            self.solver = "interior-point"

    @property
    def point_shape(self) -> tuple[int, ...]:
        """Shape of W."""
        return self.d_q, self._width

    def native(self, settings: _core.MarginSettings) -> dict[str, Any]:
        """All programs solved by the compiled solvers; those of the nuclear norm are judged here."""
        raw = _core.weight_svm(
            self._tokens,
            self._block,
            self.queries,
            self.query_block,
            self._selected,
            self._lengths,
            self.nuclear,
            settings,
        )
        if self.nuclear:
            nuclear.judge(self, raw)
        return raw

    def rows(self, index: int) -> Rows:
        """The rows of one program of the flattened batch, in full length."""
        i, t = np.nonzero(self.real(index))
        queries = np.broadcast_to(self.queries[self.query_block[index]], (self.n, self.d_q))
        A = (queries[i][:, :, None] * self.differences(index)[i, t][:, None, :]).reshape(len(i), self.d)
        place = np.asarray(i * self.T + t, np.int64)
        return Rows(A, np.ones(len(i)), np.zeros((0, self.d)), np.zeros(0), place)
