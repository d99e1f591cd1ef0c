"""Pictures of runs in one house style: paths in the plane, tokens, max-margin directions, convergence."""

from fastmm.plot.curves import convergence, curves
from fastmm.plot.grids import scan
from fastmm.plot.house_style import COLORS, MARKERS, new_figure, style
from fastmm.plot.plane import PathArtists, note, paths, rays, tokens

__all__ = [
    "COLORS",
    "MARKERS",
    "PathArtists",
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
