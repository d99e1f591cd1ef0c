"""Label SVM: the head of least norm that classifies one vector an input with margin 1, without a bias."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmm import _core, arrays
from fastmm.margin.active_set import solve
from fastmm.margin.power_norm import as_power
from fastmm.margin.program import Options, Program, Rows
from fastmm.margin.result import MaxMargin


def label_svm(
    R: Any,
    Y: Any,
    *,
    norm: float = 2,
    solver: str = "auto",
    start: Any = None,
    max_iter: int | None = None,
    time_limit: float | None = None,
    threads: int | None = None,
    throw: bool = True,
) -> MaxMargin:
    """Solves ``min ||w||  s.t.  Y_i w'r_i >= 1`` for all inputs i: the hard-margin SVM without a bias.

    Parameters
    ----------
    R : array_like, shape (..., n, d)
        One vector an input, such as the selected tokens. All arithmetic is float64.
    Y : array_like, shape (..., n)
        Labels, usually -1 and +1; any nonzero reals. A single class is a legitimate program.
    norm, solver, start, max_iter, time_limit, threads, throw
        As in `att_svm`; multipliers to start from have the shape (..., n).

    Returns
    -------
    MaxMargin
        With `dual`, `neighbors` (the support inputs) and `farkas` of shape (..., n); always float64.

    Raises
    ------
    InfeasibleError, NotSolvedError
        With ``throw=True``, when a program is infeasible, or ends without a certified answer; ``.result`` has all.
    TypeError
        For complex and object arrays.
    ValueError
        For shapes that do not fit, labels 0 or boolean, NaN or infinity.

    Notes
    -----
    Cost and memory as for `att_svm` with n rows. The rows are the rounded products ``Y_i r_i``, exact for -1 and +1.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, "Max-Margin Token Selection in Attention Mechanism", NeurIPS 2023, section 4 (joint
    convergence).

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.label_svm([[1.0, 0.0], [0.0, -2.0]], [1, -1]).w
    array([1. , 0.5])
    """
    options = Options(solver, start, max_iter, time_limit, threads, throw)
    program = LabelProgram(R, Y)
    program.norm = as_power(norm)
    return solve(program, options)


class LabelProgram(Program):
    """Validated vectors and labels."""

    name = "label_svm"
    row_name = "inputs"

    def __init__(self, R: Any, Y: Any) -> None:
        vectors = arrays.floats("R", R, np.float64, ("n", "d"))
        n, d = vectors.shape[-2:]
        if d == 0:
            raise ValueError(f"R: got shape {vectors.shape}; allowed: (..., n, d) with d at least 1")
        labels = arrays.as_labels("Y", Y, np.float64)
        arrays.need_shape("Y", labels, ("n",), (n,), "R")
        self.batch = arrays.broadcast_batch([("R", vectors.shape[:-2]), ("Y", labels.shape[:-1])])
        self.row_shape, self.d = (n,), d
        self._vectors, self._block = arrays.blocks(vectors, 2, self.batch)
        self._labels = np.ascontiguousarray(np.broadcast_to(labels, (*self.batch, n))).reshape(self.count, n)

    def native(self, settings: _core.MarginSettings) -> dict[str, Any]:
        """All programs solved by the compiled active set."""
        return _core.label_svm(self._vectors, self._block, self._labels, settings)

    def rows(self, index: int) -> Rows:
        """The rows of one program of the flattened batch."""
        A = self._labels[index][:, None] * self._vectors[self._block[index]]
        n = len(A)
        return Rows(A, np.ones(n), np.zeros((0, self.d)), np.zeros(0), np.arange(n, dtype=np.int64))
