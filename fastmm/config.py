"""Thread count: the argument, else the environment, else the CPUs this process may use."""

from __future__ import annotations

import math
import os


def resolve_threads(threads: int | None = None) -> int:
    """Number of threads a compiled call will use.

    Parameters
    ----------
    threads : int or None
        A positive count is taken as given. None asks the environment variables ``FASTMM_NUM_THREADS`` and
        ``OMP_NUM_THREADS`` in this order (a value that is not a positive number is passed over), then counts the
        CPUs this process may run on, container quotas included.

    Returns
    -------
    int
        At least 1. Results never depend on it.

    Raises
    ------
    ValueError
        If `threads` is not a positive integer.

    Examples
    --------
    >>> from fastmm.config import resolve_threads
    >>> resolve_threads(3)
    3
    """
    if threads is not None:
        if isinstance(threads, bool) or not hasattr(threads, "__index__") or int(threads) < 1:
            raise ValueError(f"threads: got {threads!r}; allowed: None or a positive integer")
        return int(threads)
    for variable in ("FASTMM_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(variable, "").split(",")[0].strip()
        if text.isdecimal() and int(text) > 0:
            return int(text)
    return max(1, min(_allowed_cpus(), _quota()))


def _allowed_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota(path: str = "/sys/fs/cgroup/cpu.max") -> int:
    """CPUs granted by a container's quota, rounded up; a large number when there is none."""
    try:
        with open(path, encoding="ascii") as file:  # importing pathlib would take longer than all of this package
            quota, period = file.read().split()
        return max(1, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):  # no control group, or "max"
        return 1 << 30
