"""Store: a Zarr store on disk that is written chunk by chunk and continued after any interruption.

A chunk counts as there when its ``status`` is: that is written last, and every file is renamed into place when it is
whole. Each file ends with a CRC-32C, Zarr's own codec, so that a torn or damaged chunk is found and computed anew.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastmm.scans.design import Design
from fastmm.scans.outcomes import Outcome
from fastmm.scans.results import Errors, dataset_attributes, dimensions, variable_attributes
from fastmm.scans.tasks import Rows

if TYPE_CHECKING:
    import xarray as xr

_PARTIAL = ".partial"


class ZarrStore:
    """The only writer of a store, held by a lock that ends with the process."""

    def __init__(self, path: Any, design: Design, resume: bool = True) -> None:
        self.design = design
        self.path = Path(path)
        self.errors = Errors()
        _need_zarr()
        if not self.path.exists():
            _create(self.path, design)
        elif not resume:
            raise ValueError(f"store: {self.path} exists; allowed: a new path, or to resume")
        self._lock = _lock(self.path)
        try:
            group = _open(self.path)
            stored = group.attrs.asdict()
            _need_same(self.path, stored, design)
            if stored["trials"] < design.trials:
                self._grow(group)
        except BaseException:
            self.close()
            raise

    def _grow(self, group: Any) -> None:
        """More trials: the arrays first and their number last, so that an interruption in between does no harm."""
        for name in self.design.variables:
            group[name].resize(self.design.shape)
        _consolidate(self.path)
        with _young_formats():
            _open(self.path).attrs["trials"] = self.design.trials

    def missing(self, place: tuple[int, ...]) -> npt.NDArray[np.bool_]:
        """Which trials of a cell are still to be computed: those of absent, incomplete and damaged chunks."""
        design = self.design
        out = np.ones(design.trials, np.bool_)
        for first in range(0, design.trials, design.chunk):
            chunk = self._read(place, first)
            if chunk is not None:
                out[first : first + design.chunk] = (chunk["status"] == Outcome.missing)[: design.trials - first]
        return out

    def write(self, rows: Rows) -> None:
        """Writes the rows of a chunk, whole or not at all; rows of the same chunk that were there stay."""
        first = rows.first - rows.first % self.design.chunk
        end = rows.first + len(rows.values["status"])
        if first == rows.first and end == first + self.design.chunk:
            chunk = rows.values
        else:
            old = self._read(rows.place, first)
            chunk = {
                name: np.full(self.design.chunk, variable.missing, variable.dtype) if old is None else old[name]
                for name, variable in self.design.variables.items()
            }
            for name, values in rows.values.items():
                chunk[name][rows.first - first : end - first] = values
        for name in sorted(self.design.variables, key="status".__eq__):  # the status last
            self._write_file(self._file(name, rows.place, first), self._encoded(name, chunk[name]))
        if rows.errors:
            self.errors.add(rows)

    def dataset(self) -> xr.Dataset:
        """What is there, read from disk when it is used."""
        import xarray as xr

        if self.errors.counts:
            self._keep_errors()
        found: xr.Dataset = xr.open_zarr(str(self.path), chunks=None, consolidated=True)
        wanted: xr.Dataset = found.isel(trial=slice(self.design.trials))
        return wanted

    def close(self) -> None:
        """Lets others write."""
        if self._lock >= 0:
            os.close(self._lock)
            _LOCKS.discard(self._lock)
            self._lock = -1

    def _keep_errors(self) -> None:
        """Messages of this call and of those before it."""
        group = _open(self.path)
        self.errors.join(json.loads(group.attrs.get("errors", "{}")))
        with _young_formats():
            group.attrs["errors"] = self.errors.text()

    def _file(self, name: str, place: tuple[int, ...], first: int) -> Path:
        return self.path.joinpath(name, "c", *map(str, place), str(first // self.design.chunk))

    def _encoded(self, name: str, values: npt.NDArray[Any]) -> bytes:
        data = values.astype(np.dtype(self.design.variables[name].dtype).newbyteorder("<")).tobytes()
        return data + _checksum(data)

    def _read(self, place: tuple[int, ...], first: int) -> dict[str, npt.NDArray[Any]] | None:
        """All variables of a chunk, or None when a file is absent or damaged."""
        out = {}
        for name, variable in self.design.variables.items():
            dtype = np.dtype(variable.dtype).newbyteorder("<")
            try:
                data = self._file(name, place, first).read_bytes()
            except FileNotFoundError:
                return None
            if len(data) != self.design.chunk * dtype.itemsize + 4 or _checksum(data[:-4]) != data[-4:]:
                return None
            out[name] = np.frombuffer(data[:-4], dtype).astype(variable.dtype)
        return out

    def _write_file(self, file: Path, data: bytes) -> None:
        """Zarr's own writing takes some milliseconds a file, which would slow scans of small problems down."""
        partial = file.with_name(file.name + _PARTIAL)
        try:
            try:
                partial.write_bytes(data)
            except FileNotFoundError:
                file.parent.mkdir(parents=True, exist_ok=True)
                partial.write_bytes(data)
            os.replace(partial, file)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise OSError(
                error.errno,
                f"store: cannot write ({error.strerror}); what was stored before is whole: "
                "make room and call the scan again to continue",
                str(file),
            ) from error


def stored_chunk(path: Any) -> int | None:
    """The chunk length of a store that is there: it is continued with its own unless another is asked for."""
    if not Path(path).exists():
        return None
    _need_zarr()
    return int(json.loads(_open(Path(path)).attrs["settings"])["chunk"])


def _need_zarr() -> None:
    try:
        import zarr.codecs  # noqa: F401 - Zarr 2 has no such module
    except ImportError as error:
        raise ImportError("store: needs Zarr 3 (Python 3.11 or later): pip install fastmm[scan]") from error


def _create(path: Path, design: Design) -> None:
    """An empty store, made under another name first: it is there whole or not at all."""
    import xarray as xr
    import zarr
    from zarr.codecs import Crc32cCodec

    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as folder, _young_formats():
        made = Path(folder, "store")
        coordinates = xr.Dataset(coords=design.grid.coordinates(), attrs=dataset_attributes(design))
        coordinates.to_zarr(str(made), mode="w", zarr_format=3, consolidated=False)
        group = zarr.open_group(str(made), mode="r+")
        for name, variable in design.variables.items():
            group.create_array(
                name,
                shape=design.shape,
                chunks=(*(1 for _ in design.grid.axes), design.chunk),
                dtype=variable.dtype,
                fill_value=variable.missing,
                compressors=[Crc32cCodec()],
                dimension_names=dimensions(design),
                attributes=variable_attributes(design, name),
            )
        _consolidate(made)
        try:
            os.rename(made, path)
        except OSError:
            if not path.exists():  # else another writer was faster; what it made is looked at next
                raise


def _consolidate(path: Path) -> None:
    """All metadata in one file, where xarray looks first."""
    import zarr

    with _young_formats():
        zarr.consolidate_metadata(str(path))


@contextmanager
def _young_formats() -> Iterator[None]:
    """Zarr warns that format 3 has no final word on consolidated metadata and on text, which names the axes' values."""
    with warnings.catch_warnings():
        for start in ("Consolidated metadata", ".*does not have a Zarr V3 specification"):
            warnings.filterwarnings("ignore", message=start)
        yield


def _open(path: Path) -> Any:
    import zarr

    try:
        group = zarr.open_group(str(path), mode="r+")
        if "settings" in group.attrs:
            return group
    except (OSError, ValueError, KeyError):
        pass
    raise ValueError(f"store: {path} is not the store of a scan; allowed: a new path, or such a store")


def _need_same(path: Path, stored: dict[str, Any], design: Design) -> None:
    """Refuses to mix results of different settings, and lists how they differ."""
    old, new = _flat(json.loads(stored["settings"])), _flat(design.settings)
    lines = [
        f"  {name}: the store has {_shown(old, name)}, this call has {_shown(new, name)}"
        for name in dict.fromkeys([*old, *new])
        if _shown(old, name) != _shown(new, name)
    ]
    if lines:
        raise ValueError(
            f"store: {path} belongs to a scan with other settings; allowed: a new path, or the same settings\n"
            + "\n".join(lines)
        )


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in settings.items() if name not in ("axes", "fixed")}
    return {**rest, **settings["fixed"], **settings["axes"], "order of the axes": list(settings["axes"])}


def _shown(settings: dict[str, Any], name: str) -> str:
    return json.dumps(settings[name]) if name in settings else "nothing"


def _checksum(data: bytes) -> bytes:
    import google_crc32c  # Zarr brings it

    return int(google_crc32c.value(data)).to_bytes(4, "little")


_LOCKS: set[int] = set()


def _lock(path: Path) -> int:
    """An exclusive lock on the store's folder. The system ends it with the process, whatever ends that."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise RuntimeError(f"store: another scan is writing to {path}; allowed: one writer at a time") from None
    _LOCKS.add(descriptor)
    return descriptor


def _let_go() -> None:
    """In a forked child: the copies of the locks would outlive the parent's."""
    while _LOCKS:
        os.close(_LOCKS.pop())


os.register_at_fork(after_in_child=_let_go)
