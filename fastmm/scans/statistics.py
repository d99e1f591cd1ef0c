"""Statistics over the trials of each cell, taken chunk by chunk; they do not depend on chunks and their order.

Sums are exact (integers of any size), so that means and variances are the correctly rounded ones in whatever order
values came; quantiles come from counts in fixed bins.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastmm.scans.design import Design
from fastmm.scans.outcomes import Outcome
from fastmm.scans.results import Errors, dataset_attributes
from fastmm.scans.tasks import Rows

if TYPE_CHECKING:
    import xarray as xr

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
STATISTICS = ("count", "mean", "std", "low", "high", "min", "max", *(f"q{round(100 * q):02d}" for q in LEVELS))
QUANTILE_ERROR = 2.0**-9  # of the distance from the point of interest: bins keep 8 bits of the significand
_SHIFT = 44  # bits of a double that bins do not look at
_SCALE = 1200  # exact sums count units of 2**-1200, which every double and square of one is a multiple of
_SQUARE = 2 * _SCALE
_MOST_VALUES = 1 << 24  # values taken at once: sums of pieces of 27 bits stay exact in doubles


class Accumulator:
    """Count, exact sums, extremes and binned values of one variable in one cell."""

    def __init__(self, near: float = 0.0) -> None:
        self.near = near
        self.count = self.total = self.squares = 0
        self.low, self.high = math.inf, -math.inf
        self.bins: Counter[int] = Counter()

    def add(self, values: npt.ArrayLike) -> None:
        """Takes values; NaN is passed over."""
        x = np.asarray(values, np.float64)
        for first in range(0, x.size, _MOST_VALUES):
            self._add(x[first : first + _MOST_VALUES])

    def _add(self, x: npt.NDArray[np.float64]) -> None:
        x = x[~np.isnan(x)]
        if not x.size:
            return
        self.count += x.size
        self.low, self.high = min(self.low, float(x.min())), max(self.high, float(x.max()))
        bits = (x - self.near + 0.0).view(np.int64) >> _SHIFT  # + 0.0: no negative zeros
        bins, counts = np.unique(bits, return_counts=True)
        self.bins.update(dict(zip(bins.tolist(), counts.tolist(), strict=True)))
        m, e = np.frexp(x[np.isfinite(x)])
        digits = np.ldexp(m, 53).astype(np.int64)  # x = digits 2^(e - 53)
        powers, group = np.unique(e, return_inverse=True)
        a, b = digits >> 27, digits & (2**27 - 1)
        sums = (_group_sums(part, group, powers.size) for part in (digits, a * a, a * b, b * b))
        for power, s, aa, ab, bb in zip(powers.tolist(), *sums, strict=True):
            self.total += s << (power - 53 + _SCALE)
            self.squares += ((aa << 54) + (ab << 28) + bb) << (2 * (power - 53) + _SQUARE)

    def statistics(self, share: bool) -> list[float]:
        """The numbers of `STATISTICS`; for shares (of booleans) low and high are Wilson's interval."""
        n = self.count
        if not n:
            return [0.0] + [math.nan] * (len(STATISTICS) - 1)
        if math.isinf(self.low) or math.isinf(self.high):  # no mean but an infinite one
            mean = self.low + self.high if self.low != -self.high else math.nan
            spread = low = high = math.nan
        else:
            exact = Fraction(self.total, n << _SCALE)
            mean = float(exact)
            squares = Fraction(self.squares, 1 << _SQUARE)
            spread = _root((squares - n * exact * exact) / (n - 1)) if n > 1 else math.nan
            low, high = _wilson(mean, n) if share else _student(mean, spread, n)
        return [float(n), mean, spread, low, high, self.low, self.high, *(self._quantile(q) for q in LEVELS)]

    def _quantile(self, level: float) -> float:
        """The value of rank ``level (count - 1)``, as the middle of its bin."""
        rank = round(level * (self.count - 1))
        for value, count in sorted((_middle(bits), count) for bits, count in self.bins.items()):
            rank -= count
            if rank < 0:
                return min(max(value + self.near, self.low), self.high)
        raise AssertionError


class Aggregates:
    """A sink that keeps statistics only; memory does not grow with the trials."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.errors = Errors()
        self._cells: dict[tuple[int, ...], dict[str, Accumulator]] = {}
        self._outcomes = np.zeros((*design.grid.shape, len(Outcome)), np.int64)

    def missing(self, place: tuple[int, ...]) -> npt.NDArray[np.bool_]:
        """All trials of a cell: nothing is continued."""
        return np.ones(self.design.trials, np.bool_)

    def write(self, rows: Rows) -> None:
        """Takes the rows of a chunk."""
        names = [name for name in self.design.variables if name != "status"]
        cell = self._cells.setdefault(
            rows.place, {name: Accumulator(self.design.variables[name].near) for name in names}
        )
        status = rows.values["status"]
        self._outcomes[rows.place] += np.bincount(status.astype(np.intp) + 1, minlength=len(Outcome))
        valued = _valued(status)
        for name in names:
            cell[name].add(rows.values[name][valued])
        self.errors.add(rows)

    def dataset(self) -> xr.Dataset:
        """The statistics of what was computed."""
        design = self.design
        names = {name: v.dtype == "bool" for name, v in design.variables.items() if name != "status"}
        empty = Accumulator()
        out = {name: np.empty((*design.grid.shape, len(STATISTICS))) for name in names}
        for place, _ in design.grid.cells():
            for name, share in names.items():
                out[name][place] = self._cells.get(place, {}).get(name, empty).statistics(share)
        coordinates, attributes = design.grid.coordinates(), dataset_attributes(design)
        texts = {name: (v.text or name, v.units) for name, v in design.variables.items()}
        return _dataset(out, self._outcomes, tuple(design.grid.axes), coordinates, attributes, texts)

    def close(self) -> None:
        """Nothing to do."""


def summarise(data: xr.Dataset) -> xr.Dataset:
    """Statistics over the trials of a scan, one cell after the other, as `scan` with ``reduce=True`` gives them.

    Parameters
    ----------
    data : xarray.Dataset
        What `scan` returns or a store holds; trials not computed yet are passed over.

    Returns
    -------
    xarray.Dataset
        Each variable over (axes..., statistic): count, mean, std, low and high (a 95 % interval of the mean: Student's,
        Wilson's for booleans), min, max and quantiles q05 to q95; ``outcomes`` over (axes..., outcome) counts how
        instances ended. Instances without a value (NaN, or failed by an exception) are left out, and counted. Means and
        deviations are correctly rounded; quantiles are those of rank ``q (count - 1)``, off by at most 1/512 of their
        distance from 0 (for saturation and correlation: from 1).

    Raises
    ------
    ValueError
        For data that is no scan.

    Examples
    --------
    >>> import fastmm as mm
    >>> data = mm.scan("converge", {"n": 2, "T": 3, "d": [2, 5]}, trials=4, seed=0, progress=False)
    >>> mm.scans.summarise(data).saturated.sel(statistic="count").values
    array([4., 4.])
    """
    if "trial" not in data.dims or "status" not in data:
        raise ValueError("data: has no trials with a status; allowed: what scan returns or a store holds")
    axes = tuple(str(name) for name in data.status.dims if name != "trial")
    shape = tuple(data.sizes[axis] for axis in axes)
    names = [str(name) for name in data.data_vars if name != "status"]
    out = {name: np.empty((*shape, len(STATISTICS))) for name in names}
    outcomes = np.zeros((*shape, len(Outcome)), np.int64)
    for place in np.ndindex(*shape):
        cell = data.isel(dict(zip(axes, place, strict=True)))
        status = cell.status.values
        outcomes[place] = np.bincount(status.astype(np.intp) + 1, minlength=len(Outcome))
        for name in names:
            accumulator = Accumulator(float(data[name].attrs.get("quantiles_near", 0.0)))
            accumulator.add(cell[name].values[_valued(status)])
            out[name][place] = accumulator.statistics(data[name].dtype == bool)
    coordinates = {axis: data[axis].values for axis in axes}
    texts = {name: (data[name].attrs["long_name"], data[name].attrs["units"]) for name in names}
    return _dataset(out, outcomes, axes, coordinates, dict(data.attrs), texts)


def _dataset(
    values: dict[str, npt.NDArray[np.float64]],
    outcomes: npt.NDArray[np.int64],
    axes: tuple[str, ...],
    coordinates: Any,
    attributes: dict[str, Any],
    texts: dict[str, tuple[str, str]],
) -> xr.Dataset:
    import xarray as xr

    data: dict[str, Any] = {
        name: ((*axes, "statistic"), array, {"long_name": texts[name][0], "units": texts[name][1]})
        for name, array in values.items()
    }
    data["outcomes"] = ((*axes, "outcome"), outcomes, {"long_name": "instances by outcome", "units": "1"})
    own = {"statistic": list(STATISTICS), "outcome": [outcome.name for outcome in sorted(Outcome)]}
    return xr.Dataset(data, {**coordinates, **own}, attributes)


def _valued(status: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    return np.asarray((status != Outcome.missing) & (status != Outcome.error))


def _group_sums(digits: npt.NDArray[np.int64], group: npt.NDArray[Any], groups: int) -> list[int]:
    """Exact sums of integers below 2**54 in size, of each group."""
    high, low = digits >> 27, digits & (2**27 - 1)
    sums = (np.bincount(group, weights=part, minlength=groups).tolist() for part in (high, low))
    return [(int(h) << 27) + int(low) for h, low in zip(*sums, strict=True)]


def _root(square: Fraction) -> float:
    """Square root of a number that may lie far outside the range of doubles."""
    power = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    return math.ldexp(math.sqrt(square / Fraction(4) ** power), power)


def _middle(bits: int) -> float:
    edges = np.array([bits << _SHIFT, (bits << _SHIFT) | (1 << (_SHIFT - 1))], np.int64).view(np.float64)
    return float(edges[1] if np.isfinite(edges[0]) else edges[0])


def _student(mean: float, spread: float, n: int) -> tuple[float, float]:
    from scipy.special import stdtrit

    half = float(stdtrit(n - 1, 0.975)) * spread / math.sqrt(n) if n > 1 else math.nan
    return mean - half, mean + half


def _wilson(share: float, n: int) -> tuple[float, float]:
    z = 1.959963984540054  # 97.5 % of the standard normal distribution
    middle, scale = share + z * z / (2 * n), 1 + z * z / n
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)
