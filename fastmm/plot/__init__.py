"""Pictures of runs in one house style: paths in the plane, tokens, max-margin directions, convergence."""

from fastmm.plot.curves import convergence, curves
from fastmm.plot.grids import scan
from fastmm.plot.house_style import COLORS, MARKERS, new_figure, style
from fastmm.plot.plane import PathArtists, note, paths, rays, tokens
from fastmm.plot.regions import BasinArtists, basin

__all__ = [
    "COLORS",
    "MARKERS",
    "BasinArtists",
    "PathArtists",
    "basin",
    "convergence",
    "curves",
    "new_figure",
    "note",
    "paths",
    "rays",
    "scan",
    "style",
    "tokens",
]
