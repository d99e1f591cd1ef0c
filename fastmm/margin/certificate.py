"""Certificate: is a point the solution of a max-margin program? Recomputed from the data, by no solver."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fastmm import arrays
from fastmm.arrays import FloatArray

TOLERANCE = 1e-9
ON_MARGIN = 1e-8


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """Residuals of a point and its multipliers, each relative to the size of what it is made of.

    Attributes
    ----------
    primal : float or ndarray, shape (...)
        Largest violation of a row, ``(b - a'w) / |b|``, for ``b = 0`` relative to ``||a|| ||w||``.
    stationarity : float or ndarray, shape (...)
        ``max_j |A'λ - w|_j / max_j (|A|'λ + |w|)_j``.
    gap : float or ndarray, shape (...)
        ``|b·λ - w·w| / (|b|·λ + w·w)``.
    dual_sign : float or ndarray, shape (...)
        The most negative multiplier relative to the largest; 0 when none is negative.
    ok : bool or ndarray of bool, shape (...)
        True when no multiplier is negative and the other three are at most 1e-9.

    Notes
    -----
    A gap alone bounds the error of w only to its square root; the accuracy of w comes from the exact active-set end of
    the solver, after which all of these are usually below 1e-12.

    Examples
    --------
    >>> import fastmm as mm
    >>> print(mm.certify([[2.0, 1.0], [1.0, 2.0]], 1.0, [1.0, 1.0], [1 / 3, 1 / 3]))
    primal        0.0e+00
    stationarity  0.0e+00
    gap           5.0e-01
    dual sign     0.0e+00
    not certified (tolerance 1e-09)
    """

    primal: Any
    stationarity: Any
    gap: Any
    dual_sign: Any

    @property
    def ok(self) -> Any:
        """True where the point is the solution."""
        parts = [np.asarray(part) <= TOLERANCE for part in (self.primal, self.stationarity, self.gap)]
        good = np.logical_and.reduce(parts) & (np.asarray(self.dual_sign) == 0)  # NaN compares false
        return bool(good) if good.ndim == 0 else good

    def __getitem__(self, index: Any) -> Certificate:
        """The certificate of part of a batch."""
        return Certificate(*(np.asarray(part)[index] for part in self._parts()))

    def _parts(self) -> tuple[Any, Any, Any, Any]:
        return self.primal, self.stationarity, self.gap, self.dual_sign

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Certificate):
            return NotImplemented
        pairs = zip(self._parts(), other._parts(), strict=True)
        return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        names = ("primal", "stationarity", "gap", "dual sign")
        shape = np.shape(self.primal)
        found = [np.asarray(part, float) for part in self._parts()]
        worst = [float(np.nanmax(part)) if part.size and not np.isnan(part).all() else math.nan for part in found]
        lines = [f"{name:<14}{value:.1e}" for name, value in zip(names, worst, strict=True)]
        if shape:
            count = int(np.prod(shape))
            verdict = f"{int(np.sum(self.ok))} of {count} certified; worst residuals above"
        else:
            verdict = "certified" if self.ok else "not certified"
        return "\n".join([*lines, f"{verdict} (tolerance {TOLERANCE:.0e})"])

    def __repr__(self) -> str:
        return f"<Certificate {'; '.join(' '.join(line.split()) for line in str(self).splitlines())}>"


def certify(A: Any, b: Any, w: Any, dual: Any, E: Any = None, e: Any = None, dual_equality: Any = None) -> Certificate:
    """Whether `w` solves ``min 1/2 ||w||² s.t. A w >= b, E w = e``, judged from the data and the multipliers alone.

    Parameters
    ----------
    A : array_like, shape (..., m, d)
        Rows of the inequalities.
    b : array_like, shape (..., m), or a scalar
        Right-hand sides; a scalar counts for all rows.
    w : array_like, shape (..., d)
        The point.
    dual : array_like, shape (..., m)
        Its multipliers: ``w = A'λ + E'ν`` with ``λ >= 0``.
    E : array_like, shape (..., k, d), optional
        Rows of the equalities.
    e : array_like, shape (..., k), or a scalar, optional
    dual_equality : array_like, shape (..., k), optional
        The multipliers ν of the equalities; by default the ones that fit best.

    Returns
    -------
    Certificate
        With the leading dimensions of all arguments broadcast together. A point or multiplier that is not finite gives
        NaN residuals, which are not ok.

    Raises
    ------
    TypeError
        For complex and object arrays.
    ValueError
        For shapes that do not fit, and for A, b, E or e that are not finite.

    Notes
    -----
    One pass over A. Rows whose product ``a'w`` is lost in rounding against ``b`` are summed exactly. All arithmetic is
    done on rows and right-hand sides scaled by powers of two, so sizes like 1e-200 or 1e200 do no harm.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.certify([[2.0, 1.0], [1.0, 2.0]], 1.0, [1 / 3, 1 / 3], [1 / 9, 1 / 9]).ok
    True
    """
    A = arrays.floats("A", A, np.float64, ("m", "d"))
    m, d = A.shape[-2:]
    b = right_side("b", b, m, "A")
    w = arrays.floats("w", w, np.float64, ("d",), finite=False)
    arrays.need_shape("w", w, ("d",), (d,), "A")
    dual = arrays.floats("dual", dual, np.float64, ("m",), finite=False)
    arrays.need_shape("dual", dual, ("m",), (m,), "A")
    E, e = equality_rows(E, e, d)
    k = E.shape[-2]
    if dual_equality is not None:
        dual_equality = arrays.floats("dual_equality", dual_equality, np.float64, ("k",), finite=False)
        arrays.need_shape("dual_equality", dual_equality, ("k",), (k,), "E")
    named = [("A", A, 2), ("b", b, 1), ("w", w, 1), ("dual", dual, 1), ("E", E, 2), ("e", e, 1)]
    if dual_equality is not None:
        named.append(("dual_equality", dual_equality, 1))
    batch = arrays.broadcast_batch([(name, value.shape[: value.ndim - core]) for name, value, core in named])
    return _residuals(A, b, w, dual, E, e, dual_equality, batch)


def right_side(name: str, value: Any, m: int, source: str) -> FloatArray:
    """Right-hand sides (..., m); a scalar or 0-d array counts for all rows."""
    right = arrays.floats(name, value, np.float64, ())
    if right.ndim == 0:
        return np.full(m, right)
    arrays.need_shape(name, right, ("m",), (m,), source)
    return right


def equality_rows(E: Any, e: Any, d: int) -> tuple[FloatArray, FloatArray]:
    """Equality rows (..., k, d) and their right-hand sides (..., k), with k = 0 when there are none."""
    if (E is None) != (e is None):
        raise ValueError("E and e: got one without the other; allowed: both or neither")
    if E is None:
        return np.zeros((0, d)), np.zeros(0)
    E = arrays.floats("E", E, np.float64, ("k", "d"))
    arrays.need_shape("E", E, ("d",), (d,), "A")
    return E, right_side("e", e, E.shape[-2], "E")


def _residuals(
    A: FloatArray,
    b: FloatArray,
    w: FloatArray,
    dual: FloatArray,
    E: FloatArray,
    e: FloatArray,
    dual_equality: FloatArray | None,
    batch: tuple[int, ...],
) -> Certificate:
    with np.errstate(invalid="ignore", over="ignore", under="ignore", divide="ignore"):
        A, powers = _scaled(A)
        b, dual = np.ldexp(b, -powers), np.ldexp(dual, powers)
        E, powers = _scaled(E)
        e = np.ldexp(e, -powers)
        if dual_equality is not None:
            dual_equality = np.ldexp(dual_equality, powers)
        top = np.maximum(_exponent(b, -1), _exponent(e, -1))  # of the right-hand sides: w grows with them
        w, dual = np.ldexp(w, -top[..., None]), np.ldexp(dual, -top[..., None])
        b, e = np.ldexp(b, -top[..., None]), np.ldexp(e, -top[..., None])
        made = np.einsum("...md,...m->...d", A, dual)
        dual_equality = _fit(E, w - made) if dual_equality is None else np.ldexp(dual_equality, -top[..., None])
        made = made + np.einsum("...kd,...k->...d", E, dual_equality)
        absolute = np.einsum("...md,...m->...d", np.abs(A), np.abs(dual))
        absolute = absolute + np.einsum("...kd,...k->...d", np.abs(E), np.abs(dual_equality)) + np.abs(w)
        stationarity = _over(np.abs(made - w).max(-1, initial=0), absolute.max(-1, initial=0))
        bound = (b * dual).sum(-1) + (e * dual_equality).sum(-1)
        size = np.abs(b * dual).sum(-1) + np.abs(e * dual_equality).sum(-1) + (w * w).sum(-1)
        gap = _over(np.abs(bound - (w * w).sum(-1)), size)
        short, unit = slacks(A, b, w)
        off, unit_E = slacks(E, e, w)
        primal = np.maximum(
            _over(np.maximum(-short, 0), unit).max(-1, initial=0), _over(np.abs(off), unit_E).max(-1, initial=0)
        )
        most = np.abs(dual).max(-1, initial=0)
        dual_sign = _over(np.maximum(-dual, 0).max(-1, initial=0), most)
        broken = ~(np.isfinite(w).all(-1) & np.isfinite(dual).all(-1))
    parts = (np.where(broken, np.nan, part) for part in (primal, stationarity, gap, dual_sign))
    if not batch:
        return Certificate(*(float(part) for part in parts))
    return Certificate(*(np.array(np.broadcast_to(part, batch)) for part in parts))


def slacks(A: FloatArray, b: FloatArray, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``A w - b`` and the unit of each row, |b| or for b = 0 ``||a|| ||w||``; summed exactly where rounding matters."""
    slack = np.einsum("...md,...d->...m", A, w) - b
    norms = np.sqrt((A * A).sum(-1)) * np.sqrt((w * w).sum(-1))[..., None]
    unit = np.where(b != 0, np.abs(b), norms)
    rounding = (A.shape[-1] + 2) * np.finfo(float).eps * norms
    doubtful = (rounding > 1e-11 * unit) & (np.abs(slack) <= ON_MARGIN * unit + rounding) & (b != 0)
    if doubtful.any():
        slack = np.array(slack)
        rows, points = (
            np.broadcast_to(A, (*slack.shape, A.shape[-1])),
            np.broadcast_to(w, (*slack.shape[:-1], w.shape[-1])),
        )
        rights = np.broadcast_to(b, slack.shape)
        for place in map(tuple, np.argwhere(doubtful)):
            slack[place] = _exact_slack(rows[place], points[place[:-1]], float(rights[place]))
    return slack, np.broadcast_to(unit, slack.shape)


def _exact_slack(row: FloatArray, w: FloatArray, b: float) -> float:
    """``a'w - b`` rounded once: each product is split into two doubles (Dekker 1971), the sum is exact."""
    high, error = row * w, _product_error(row, w)
    parts = [*high.tolist(), *error.tolist(), -b]
    return math.fsum(parts) if np.isfinite(parts).all() else math.nan


def _product_error(x: FloatArray, y: FloatArray) -> FloatArray:
    factor = 2.0**27 + 1
    x1, y1 = factor * x - (factor * x - x), factor * y - (factor * y - y)
    x2, y2 = x - x1, y - y1
    error: FloatArray = x2 * y2 - (((x * y - x1 * y1) - x2 * y1) - x1 * y2)
    return error


def _fit(E: FloatArray, target: FloatArray) -> FloatArray:
    """Multipliers ν for which E'ν is nearest to the target."""
    if E.shape[-2] == 0:
        return np.zeros((*target.shape[:-1], 0))
    fit: FloatArray = np.einsum("...kd,...d->...k", np.linalg.pinv(np.swapaxes(E, -1, -2), rcond=1e-14), target)
    return fit


def _scaled(A: FloatArray) -> tuple[FloatArray, npt.NDArray[np.int32]]:
    """Rows whose largest entry is about 1, and the powers of two that were taken out."""
    powers = _exponent(A, -1)
    return np.ldexp(A, -powers[..., None]), powers


def _exponent(x: FloatArray, axis: int) -> npt.NDArray[np.int32]:
    return np.asarray(np.frexp(np.abs(x).max(axis, initial=0))[1], np.int32)


def _over(error: FloatArray, size: FloatArray) -> FloatArray:
    """error / size, where 0 / 0 is 0."""
    return np.asarray(np.where(error == 0, 0.0, error / size))
