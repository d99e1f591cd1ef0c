"""Outcome: how one instance of a scan ended."""

from __future__ import annotations

import enum


class Outcome(enum.IntEnum):
    """The codes of a scan's variable ``status``; they are fixed. 0 to 4 are those of `fastmm.Status`.

    An instance that failed is a row with its outcome: whatever it has no value for is NaN, and the outcome says why.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.scans.Outcome(-1).name
    'missing'
    """

    missing = -1
    """Not computed yet."""
    ok = 0
    """All variables are there; a max-margin answer among them is certified."""
    infeasible = 1
    """The selected tokens cannot be separated from the others (proved)."""
    ill_conditioned = 2
    """The max-margin program could be neither solved nor refuted in double precision."""
    max_iter = 3
    """The max-margin program hit its iteration limit."""
    time_limit = 4
    """The max-margin program hit its time limit."""
    error = 5
    """The generator or the task raised an exception; the scan's attribute ``errors`` has its text."""
    no_direction = 6
    """The run ended at zero, which has no direction."""
    overflow = 7
    """The run left the range of double precision."""
    not_a_number = 8
    """A function of the user's own returned NaN."""
