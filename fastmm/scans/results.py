"""Results as labelled data: the dataset of a design, and the sink that keeps all rows in memory."""

from __future__ import annotations

import json
import platform
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastmm import _core
from fastmm.scans.design import Design
from fastmm.scans.outcomes import Outcome
from fastmm.scans.tasks import Rows

if TYPE_CHECKING:
    import xarray as xr

_MOST_ERRORS = 20  # different messages that are kept


class Errors:
    """Messages of failed instances, each with its count and the first place it was seen at."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.places: dict[str, list[int]] = {}

    def add(self, rows: Rows) -> None:
        """Takes the messages of a chunk."""
        for trial, text in rows.errors:
            if text in self.counts or len(self.counts) < _MOST_ERRORS:
                self.counts[text] += 1
                self.places.setdefault(text, [*rows.place, trial])

    def join(self, stored: dict[str, Any]) -> None:
        """Takes messages that were stored before."""
        for text, seen in stored.items():
            self.counts[text] += seen["count"]
            self.places[text] = seen["first"]

    def text(self) -> str:
        """As JSON: {message: {"count": ..., "first": [place in the grid, trial]}}."""
        return json.dumps({text: {"count": n, "first": self.places[text]} for text, n in self.counts.items()})


def versions() -> dict[str, str]:
    """What computed a scan; instruction sets differ by rounding."""
    return {
        "numpy": np.__version__,
        "python": platform.python_version(),
        "instruction_set": str(_core.build_info()["instruction_set"]),
    }


def dataset_attributes(design: Design) -> dict[str, Any]:
    """Settings and versions; nested ones as JSON text, which every reader of Zarr and netCDF takes."""
    return {
        "title": f"fastmm scan of {design.task.name}",
        "task": design.task.name,
        "seed": str(design.seed),  # any size
        "trials": design.trials,
        "settings": json.dumps(design.settings),
        "versions": json.dumps(versions()),
    }


def variable_attributes(design: Design, name: str) -> dict[str, Any]:
    """Text and units; the outcomes' codes in the way of the CF conventions."""
    variable = design.variables[name]
    out: dict[str, Any] = {"long_name": variable.text or name, "units": variable.units}
    if name == "status":
        out["flag_values"] = [int(outcome) for outcome in Outcome]
        out["flag_meanings"] = " ".join(outcome.name for outcome in Outcome)
    if variable.near:
        out["quantiles_near"] = variable.near
    return out


def dimensions(design: Design) -> tuple[str, ...]:
    """Names of the axes, then "trial"."""
    return (*design.grid.axes, "trial")


class Memory:
    """All rows in memory; nothing is left when the process ends."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.errors = Errors()
        self._arrays: dict[str, npt.NDArray[Any]] = {
            name: np.full(design.shape, variable.missing, variable.dtype) for name, variable in design.variables.items()
        }

    def missing(self, place: tuple[int, ...]) -> npt.NDArray[np.bool_]:
        """Which trials of a cell are still to be computed."""
        return np.asarray(self._arrays["status"][place] == Outcome.missing)

    def write(self, rows: Rows) -> None:
        """Takes the rows of a chunk."""
        for name, values in rows.values.items():
            self._arrays[name][rows.place][rows.first : rows.first + len(values)] = values
        self.errors.add(rows)

    def dataset(self) -> xr.Dataset:
        """What there is."""
        import xarray as xr

        design = self.design
        data = {
            name: (dimensions(design), array, variable_attributes(design, name)) for name, array in self._arrays.items()
        }
        return xr.Dataset(data, design.grid.coordinates(), dataset_attributes(design))

    def close(self) -> None:
        """Nothing to do."""
