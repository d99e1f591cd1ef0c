"""Losses written as Python functions: compiled by Numba, checked against numeric slopes, inlined into the loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from fastmm import arrays
from fastmm.jit.compiling import compiled_user, short_reason
from fastmm.losses import Loss

Scalar = Callable[[float], float]

# Margins at which a loss is checked: none of them special, dense around 0 where losses bend.
_GRID = np.sinh(np.linspace(-3.7, 3.7, 75)) + 0.0123
_STEP = 6e-6  # of central differences: about the cube root of an ulp
_CLOSE = 1e-6  # relative error that they may have


class CustomLoss(Loss):
    """A user's loss; made by `custom_loss`, used wherever a loss may be given that the Numba loops run.

    Attributes
    ----------
    name : str
    value_of, slope_of, log_slope_of : Numba functions of one float
        The compiled functions, to be called from other compiled code.
    curvature_of : Numba function or None
    parts : Numba function
        Minus the slope as a pair (size, exponent), ``size * exp(exponent)``: what the loops inline.
    """

    def __init__(
        self, value: Any, slope: Any, curvature: Any = None, log_slope: Any = None, name: str | None = None
    ) -> None:
        given = {"value": value, "slope": slope, "curvature": curvature, "log_slope": log_slope}
        own = {key: _compiled(key, function) for key, function in given.items() if function is not None}
        set_ = object.__setattr__
        set_(self, "name", name or getattr(value, "__name__", "custom").strip("<>"))
        set_(self, "value_of", own["value"])
        set_(self, "slope_of", own["slope"])
        set_(self, "curvature_of", own.get("curvature"))
        set_(self, "log_slope_of", own.get("log_slope") or _log_slope_from(own["slope"]))
        set_(self, "parts", _parts_from(own["slope"], self.log_slope_of))
        _check(self, "log_slope" in own)

    value_of: Any
    slope_of: Any
    curvature_of: Any
    log_slope_of: Any
    parts: Any

    @property
    def code(self) -> int:
        """The compiled core has no number for a user's loss."""
        raise ValueError(
            f"loss: got the custom loss {self.name!r}; allowed here: logistic, exponential, correlation"
            " (custom losses run in the Numba loops: backend='numba')"
        )

    def value(self, x: Any) -> Any:
        """The loss at the margins x."""
        return _elementwise(self.value_of, x)

    def slope(self, x: Any) -> Any:
        """Its first derivative."""
        return _elementwise(self.slope_of, x)

    def curvature(self, x: Any) -> Any:
        """Its second derivative; by central differences of the slope when the loss came without one."""
        if self.curvature_of is not None:
            return _elementwise(self.curvature_of, x)
        return _elementwise(lambda at: _difference(self.slope_of, at), x)

    def log_slope(self, x: Any) -> Any:
        """The logarithm of minus the slope."""
        return _elementwise(self.log_slope_of, x)

    @cached_property
    def address(self) -> int:
        """Address of a C function ``void f(double x, double* value, double* log_slope)``.

        Compiled code of other languages evaluates the loss through it, without the interpreter and without the GIL;
        it lives as long as this object.

        Examples
        --------
        >>> import ctypes, math
        >>> import fastmm as mm
        >>> loss = mm.custom_loss(lambda x: math.exp(-x), lambda x: -math.exp(-x), log_slope=lambda x: -x)
        >>> real = ctypes.POINTER(ctypes.c_double)
        >>> call = ctypes.CFUNCTYPE(None, ctypes.c_double, real, real)(loss.address)
        >>> value, log_slope = ctypes.c_double(), ctypes.c_double()
        >>> call(0.0, value, log_slope)
        >>> value.value, log_slope.value
        (1.0, -0.0)
        """
        import numba
        from numba import types

        carray: Any = vars(numba)["carray"]

        value, log_slope = self.value_of, self.log_slope_of
        pointer = types.CPointer(types.float64)

        def evaluate(x: Any, to_value: Any, to_log_slope: Any) -> None:
            carray(to_value, 1)[0] = value(x)
            carray(to_log_slope, 1)[0] = log_slope(x)

        function = numba.cfunc(types.void(types.float64, pointer, pointer))(evaluate)
        object.__setattr__(self, "_kept", function)
        return int(function.address or 0)

    def __repr__(self) -> str:
        return f"custom_loss({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def custom_loss(
    value: Scalar,
    slope: Scalar,
    curvature: Scalar | None = None,
    log_slope: Scalar | None = None,
    name: str | None = None,
) -> CustomLoss:
    """A loss of your own from scalar Python functions, compiled and inlined into the Numba loops.

    Parameters
    ----------
    value : callable
        ``ell(x)`` of a margin: a float to a float, in the Python that Numba compiles (``math``, ``numpy`` scalars).
    slope : callable
        ``ell'(x)``, negative.
    curvature : callable, optional
        ``ell''(x)``; where it is asked for and not given, central differences of the slope are taken.
    log_slope : callable, optional
        ``log(-ell'(x))``, by a formula that stays finite where ``ell'(x)`` underflows or overflows. Without it
        ``log(-slope(x))`` is taken: right as long as the slope is a nonzero number, but where the slopes of all
        inputs underflow the gradient is exactly zero to the loops, and a run stops with "zero_gradient" although
        its direction is defined. Give it whenever margins may become large, above all when v is trained.
    name : str, optional
        Shown in messages and kept in results; by default that of `value`.

    Returns
    -------
    CustomLoss
        With ``.name``, ``.value(x)``, ``.slope(x)``, ``.curvature(x)``, ``.log_slope(x)`` for arrays like those of
        `fastmm.losses`, the compiled scalar functions, and the ``.address`` of a C function.

    Raises
    ------
    ValueError
        When a function cannot be compiled (with Numba's reason), or when, at some of 75 margins between -20 and 20:
        a value is not finite, the slope is not negative, or slope, curvature or log_slope differ from central
        differences, or from one another, by more than about 1e-6. The message says which, where, and what was found.

    Notes
    -----
    Compiling and checking takes 1 to 4 s on a slow core, the loops with the loss inlined 18 s more at the first run
    (see `fastmm.jit.run`), once a process for each combination of loss and rule: a user's functions are not kept on
    disk, because Numba cannot tell there whether they changed. The functions must not keep state. A loss costs what
    its slope costs, once an input and step; `value` takes no part in a run.

    Examples
    --------
    >>> import math
    >>> import fastmm as mm
    >>> squared = mm.custom_loss(
    ...     lambda x: 0.5 * math.exp(-2 * x), lambda x: -math.exp(-2 * x), log_slope=lambda x: -2 * x, name="squared")
    >>> float(squared.slope(0.0)), squared.log_slope([1e4]).tolist()
    (-1.0, [-20000.0])
    """
    return CustomLoss(value, slope, curvature, log_slope, name)


def _compiled(key: str, function: Any) -> Any:
    if not callable(function):
        raise ValueError(f"{key}: got {type(function).__name__}; allowed: a function of one float")
    own = compiled_user(function)
    try:
        result = own(0.25)
    except Exception as error:
        raise ValueError(f"{key}: cannot be compiled or called with a float ({short_reason(error)})") from error
    if isinstance(result, bool) or not isinstance(result, (int, float)):
        raise ValueError(f"{key}: gives {type(result).__name__} at 0.25; allowed: a float")
    return own


def _log_slope_from(slope: Any) -> Any:
    def log_slope(x: float) -> float:
        size = -slope(x)
        return math.log(size) if size > 0.0 else -math.inf

    return compiled_user(log_slope)


def _parts_from(slope: Any, log_slope: Any) -> Any:
    def parts(x: float) -> tuple[float, float]:
        size = -slope(x)
        if 1e-60 < size < 1e60:
            return size, 0.0
        return 1.0, log_slope(x)

    return compiled_user(parts)


def _check(loss: CustomLoss, has_log_slope: bool) -> None:
    for x in map(float, _GRID):
        found = {key: float(getattr(loss, f"{key}_of")(x)) for key in ("value", "slope")}
        if loss.curvature_of is not None:
            found["curvature"] = float(loss.curvature_of(x))
        for key, got in found.items():
            if not math.isfinite(got):
                raise ValueError(f"{key}: is {got} at {x:.6g}; allowed: finite numbers")
        slope = found["slope"]
        if slope > 0 or (slope == 0 and not has_log_slope and x < 0):
            raise ValueError(f"slope: is {slope:.6g} at {x:.6g}; allowed: negative numbers (a decreasing loss)")
        _compare("slope", "value", loss.value_of, x, slope)
        if loss.curvature_of is not None:
            _compare("curvature", "slope", loss.slope_of, x, found["curvature"])
        if has_log_slope:
            log_slope = float(loss.log_slope_of(x))
            if not math.isfinite(log_slope):
                raise ValueError(f"log_slope: is {log_slope} at {x:.6g}; allowed: finite numbers")
            if slope < -1e-300 and abs(log_slope - math.log(-slope)) > _CLOSE * max(1.0, abs(log_slope)):
                raise ValueError(f"log_slope: is {log_slope:.9g} at {x:.6g}, but log(-slope) is {math.log(-slope):.9g}")


def _difference(function: Any, x: float) -> float:
    h = _STEP * max(1.0, abs(x))
    above, below = x + h, x - h
    return (float(function(above)) - float(function(below))) / (above - below)


def _compare(key: str, of: str, function: Any, x: float, got: float) -> None:
    """Refuses a derivative that is not the numeric one, up to the error of the latter."""
    h = _STEP * max(1.0, abs(x))
    numeric = _difference(function, x)
    rounding = 4e-16 * max(abs(float(function(x + h))), abs(float(function(x - h)))) / h
    allowed = _CLOSE * max(abs(got), abs(numeric)) + 4 * rounding
    # at a kink both one-sided slopes are slopes
    sides = sorted((float(function(x + s * h)) - float(function(x))) / (s * h) for s in (-1.0, 1.0))
    if abs(got - numeric) > allowed and not sides[0] - allowed <= got <= sides[1] + allowed:
        raise ValueError(f"{key}: is {got:.9g} at {x:.6g}, but differences of {of} give {numeric:.9g}")


def _elementwise(function: Callable[[float], float], x: Any) -> Any:
    dtype = arrays.working_dtype(("x", x))
    margins = arrays.floats("x", x, np.float64, ())
    out = np.array([function(float(at)) for at in margins.reshape(-1)], dtype=dtype)
    return out.reshape(margins.shape)[()]
