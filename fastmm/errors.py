"""Statuses of a solved program and the exceptions that carry them."""

from __future__ import annotations

import enum
from typing import Any


class Status(enum.IntEnum):
    """How a max-margin program ended; the codes are fixed, and ``.advice`` says what to do about each.

    ``optimal`` is given only when a certificate recomputed from the data holds, ``infeasible`` only with a
    verified Farkas vector. Arrays of statuses are int8 arrays of these codes.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.Status(1).name
    'infeasible'
    """

    optimal = 0
    infeasible = 1
    ill_conditioned = 2
    max_iter = 3
    time_limit = 4

    @property
    def advice(self) -> str:
        """Cause and remedy in one sentence."""
        return _ADVICE[self]


_ADVICE = {
    Status.optimal: "The certificate holds.",
    Status.infeasible: "No vector satisfies all rows: select other tokens; `.farkas` weighs the rows in conflict.",
    Status.ill_conditioned: "Neither an answer nor infeasibility could be certified in double precision: rescale the "
    "features, or remove rows that are nearly parallel to others; the best point found is not to be trusted.",
    Status.max_iter: "The iteration limit was hit: raise `max_iter`.",
    Status.time_limit: "The time limit was hit: raise `time_limit`.",
}


class FastmmError(Exception):
    """Base of fastmm's own exceptions; ``result`` is the answer that was refused."""

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result

    def __reduce__(self) -> tuple[type[FastmmError], tuple[str, Any]]:
        return type(self), (str(self), self.result)


class InfeasibleError(FastmmError):
    """No vector satisfies the constraints; ``result.farkas`` proves it."""


class NotSolvedError(FastmmError):
    """A program ended without a certified answer; ``result.status`` says how."""
