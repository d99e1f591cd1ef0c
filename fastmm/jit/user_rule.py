"""Step rules written as Python functions, compiled by Numba and inlined into the loops."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from fastmm.jit.compiling import compiled_user, short_reason


class CustomRule:
    """A user's step rule; made by `custom_rule`.

    Attributes
    ----------
    name : str
    compiled : Numba function
    state : int
        Numbers of memory for each number of the parameter.
    """

    def __init__(self, update: Any, state: Any = 0, name: str | None = None) -> None:
        if not callable(update):
            raise ValueError(f"update: got {type(update).__name__}; allowed: a function")
        try:
            if isinstance(state, bool):
                raise TypeError
            self.state = operator.index(state)
        except TypeError:
            raise ValueError(f"state: got {state!r}; allowed: an integer, 0 or more") from None
        if self.state < 0:
            raise ValueError(f"state: got {state!r}; allowed: an integer, 0 or more")
        self.name = name or getattr(update, "__name__", "custom").strip("<>")
        self.compiled = compiled_user(update)
        x, direction = np.array([1.0, 2.0]), np.array([0.6, 0.8])
        try:
            result = self.compiled(x, direction, -1.0, 0.1, 0, np.zeros(2 * self.state))
        except Exception as error:
            raise ValueError(
                "update: cannot be compiled or called as update(x, direction, log_norm, lr, step, state)"
                f" ({short_reason(error)})"
            ) from error
        if result is not None:
            raise ValueError(f"update: gives {type(result).__name__}; allowed: nothing (it changes x in place)")
        if not np.all(np.isfinite(x)):
            raise ValueError(f"update: makes x {x.tolist()} of [1.0, 2.0]; allowed: finite numbers")

    def __repr__(self) -> str:
        return f"custom_rule({self.name!r})"


def custom_rule(update: Callable[..., None], state: int = 0, name: str | None = None) -> CustomRule:
    """A step rule of your own, compiled and inlined into the Numba loops.

    Parameters
    ----------
    update : callable
        ``update(x, direction, log_norm, lr, step, state)``, in the Python that Numba compiles. It changes ``x``, the
        parameter vector of one group (p or v) of one instance, in place. ``direction`` is the unit vector of steepest
        descent (its own copy, free to be overwritten), ``log_norm`` the logarithm of the gradient's norm (it may be
        -1e6: take ``exp`` last), ``lr`` the step size of this step, ``step`` the number of steps taken before, and
        ``state`` a vector of ``state * len(x)`` numbers, a memory of its own for each group and instance, 0 at first.
        It is not called for a group whose gradient is exactly zero.
    state : int
        Numbers of memory for each entry of x. A scalar memory is the first entry of such a vector.
    name : str, optional

    Returns
    -------
    CustomRule

    Raises
    ------
    ValueError
        When `update` cannot be compiled or called on vectors of two entries (with Numba's reason), returns something,
        or leaves the numbers there.

    Notes
    -----
    A step after which x is not finite is not taken, and the run stops with "overflow". Compile times are those of
    `custom_loss`.

    Examples
    --------
    Normalised steps that shrink like ``1/sqrt(step + 1)``, and heavy-ball momentum:

    >>> import math
    >>> import fastmm as mm
    >>> def decaying(x, direction, log_norm, lr, step, state):
    ...     for j in range(len(x)):
    ...         x[j] += lr / math.sqrt(step + 1) * direction[j]
    >>> def heavy_ball(x, direction, log_norm, lr, step, state):
    ...     for j in range(len(x)):
    ...         state[j] = 0.9 * state[j] + math.exp(log_norm) * direction[j]
    ...         x[j] += lr * state[j]
    >>> mm.custom_rule(decaying), mm.custom_rule(heavy_ball, state=1)
    (custom_rule('decaying'), custom_rule('heavy_ball'))
    """
    return CustomRule(update, state, name)
