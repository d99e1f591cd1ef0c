"""The losses of the paper: logistic, exponential, correlation, with slope and curvature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fastmm import _core, arrays


@dataclass(frozen=True)
class Loss:
    """A decreasing loss ``ell`` of the margin ``Y f(X)``; all functions work elementwise on arrays of margins.

    Values are right to 4 units in the last place over the whole double range, subnormal results included.

    Attributes
    ----------
    name : str
    code : int
        Number of the loss in the compiled core.

    Examples
    --------
    >>> import fastmm as mm
    >>> loss = mm.losses.get("logistic")
    >>> float(loss.value(-10000.0)), float(loss.slope(0.0)), float(loss.curvature(0.0))
    (10000.0, -0.5, 0.25)
    """

    name: str
    code: int

    def value(self, x: Any) -> Any:
        """The loss at the margins x (any shape of finite numbers), of x's floating dtype."""
        return self._apply(_core.loss_value, x)

    def slope(self, x: Any) -> Any:
        """Its first derivative."""
        return self._apply(_core.loss_slope, x)

    def curvature(self, x: Any) -> Any:
        """Its second derivative."""
        return self._apply(_core.loss_curvature, x)

    def _apply(self, function: Callable[[int, npt.NDArray[np.float64]], npt.NDArray[np.float64]], x: Any) -> Any:
        dtype = arrays.working_dtype(("x", x))
        margins: npt.NDArray[np.float64] = arrays.floats("x", x, np.float64, ()).astype(np.float64, copy=False)
        return function(self.code, margins.reshape(-1)).reshape(margins.shape).astype(dtype, copy=False)[()]


_LOSSES = {name: Loss(name, code) for code, name in enumerate(("logistic", "exponential", "correlation"))}


def get(loss: str | Loss) -> Loss:
    """The loss of a name; a loss is returned as it is.

    Parameters
    ----------
    loss : {"logistic", "exponential", "correlation"} or Loss
        A Loss may be one of `fastmm.custom_loss`.

    Returns
    -------
    Loss

    Raises
    ------
    ValueError
        For an unknown name.

    Notes
    -----
    ``log(1 + exp(-x))``, ``exp(-x)`` and ``-x`` (the paper, section 2).

    Examples
    --------
    >>> import fastmm as mm
    >>> float(mm.losses.get("correlation").slope(3.0))
    -1.0
    """
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str) or loss not in _LOSSES:
        raise ValueError(f"loss: got {loss!r}; allowed: {', '.join(_LOSSES)}")
    return _LOSSES[loss]
