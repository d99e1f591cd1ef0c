"""Step numbers to record during a run: linear, logarithmic or given."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from fastmm import integers
from fastmm.arrays import IntArray


def log_steps(steps: int, per_decade: int = 10) -> IntArray:
    """Step numbers 0, 1, ... spread evenly in the logarithm up to `steps`, without repetition.

    Parameters
    ----------
    steps : int
        The last one.
    per_decade : int
        How many between a number and ten times it.

    Returns
    -------
    ndarray of int, shape (R,)

    Raises
    ------
    ValueError
        For a negative number of steps or less than one a decade.

    Examples
    --------
    >>> from fastmm.descent import log_steps
    >>> log_steps(100, per_decade=3)
    array([  0,   1,   2,   5,  10,  22,  46, 100])
    """
    steps, per_decade = as_count("steps", steps), as_count("per_decade", per_decade)
    if per_decade == 0:
        raise ValueError("per_decade: got 0; allowed: a positive integer")
    count = 1 + int(np.ceil(per_decade * np.log10(max(steps, 1))))
    numbers = np.round(10.0 ** (np.arange(count + 1) / per_decade)).astype(np.int64)
    numbers = numbers[numbers < steps]
    return np.unique(np.concatenate([np.zeros(1, np.int64), numbers, np.full(1, steps, np.int64)]))


def as_count(name: str, value: Any) -> int:
    """A count: an integer, 0 or more."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        count = operator.index(value)
    except TypeError:
        raise ValueError(f"{name}: got {value!r}; allowed: an integer, 0 or more") from None
    if not 0 <= count < 2**62:
        raise ValueError(f"{name}: got {value!r}; allowed: an integer, 0 or more")
    return count


def as_records(record: Any, steps: int) -> IntArray:
    """The step numbers to record: none, every so many with start and end, "log", or those given."""
    if record is None:
        return np.zeros(0, dtype=np.int64)
    if isinstance(record, str):
        if record != "log":
            raise ValueError(f"record: got {record!r}; allowed: 'log', a positive integer or increasing step numbers")
        return log_steps(steps)
    if np.ndim(record) == 0:
        every = as_count("record", record)
        if every == 0:
            raise ValueError("record: got 0; allowed: a positive integer or increasing step numbers")
        numbers = np.arange(0, steps + 1, every, dtype=np.int64)
        return numbers if numbers[-1] == steps else np.append(numbers, np.int64(steps))
    numbers = integers.as_steps("record", record)
    if numbers.size and (numbers[0] < 0 or numbers[-1] > steps or np.any(np.diff(numbers) <= 0)):
        raise ValueError(f"record: got {numbers.tolist()[:10]}; allowed: increasing step numbers in 0..{steps}")
    return numbers
