"""Scans: a task over a grid of settings and many random trials, in one process or on a cluster, with nothing lost.

`fastmm.scan` is the function; here is what it works with.
"""

from fastmm.scans.generators import Benign, Gaussian, Generator, Mixture, Sphere
from fastmm.scans.outcomes import Outcome
from fastmm.scans.run import scan
from fastmm.scans.sampling import Estimate, estimate
from fastmm.scans.statistics import summarise
from fastmm.scans.streams import Streams
from fastmm.scans.tasks import batched

__all__ = [
    "Benign",
    "Estimate",
    "Gaussian",
    "Generator",
    "Mixture",
    "Outcome",
    "Sphere",
    "Streams",
    "batched",
    "estimate",
    "scan",
    "summarise",
]
