"""Step rules of descent runs and their settings."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np


@dataclass(frozen=True)
class Rule:
    """How a run moves, given the direction of steepest descent and the size of the gradient of each trained parameter.

    A ball around the origin for a parameter is set with `within`; every step is then projected onto it.
    """

    name: ClassVar[str]
    code: ClassVar[int]
    radii: dict[str, float] = field(default_factory=dict, kw_only=True)

    @property
    def settings(self) -> tuple[int, float, float, float, float]:
        """Code, momentum, beta1, beta2, epsilon as the compiled core takes them."""
        return self.code, 0.0, 0.0, 0.0, 0.0

    def within(self, **radii: float) -> Rule:
        """The same rule with every step projected onto balls: ``rule.within(p=10, v=5)``.

        Parameters
        ----------
        **radii : float
            Radius by the name of a trained parameter: p, v, W, Q or K.

        Returns
        -------
        Rule

        Raises
        ------
        ValueError
            For other names, and radii that are not positive.

        Examples
        --------
        >>> import fastmm as mm
        >>> problem = mm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [1.0], [1.0, 0.0])
        >>> mm.descend(problem, rule=mm.rules.Gradient().within(p=2.0), lr=1.0, steps=500).p
        array([2., 0.])
        """
        for name, radius in radii.items():
            if name not in ("p", "v", "W", "Q", "K"):
                raise ValueError(f"within: got {name!r}; allowed: p, v, W, Q, K")
            if isinstance(radius, bool) or not isinstance(radius, (int, float, np.number)) or not radius > 0:
                raise ValueError(f"within: got {name}={radius!r}; allowed: a positive radius")
        return replace(self, radii={**self.radii, **{name: float(radius) for name, radius in radii.items()}})


@dataclass(frozen=True)
class Normalized(Rule):
    """``x - lr g/||g||``, each trained parameter normalised by itself (the paper's algorithm, without epsilon)."""

    name, code = "normalized", 0


@dataclass(frozen=True)
class Gradient(Rule):
    """``x - lr g``."""

    name, code = "gradient", 1


@dataclass(frozen=True)
class Polyak(Rule):
    """``x - lr (L - inf L) g / ||g||^2``, the norm taken over all trained parameters; lr = 1 is Polyak's own step.

    The infimum of the risk is 0 when the head is trained (logistic and exponential loss), else the mean loss of the
    inputs' best scores, which is approached when a global max-margin direction exists. The excess is computed in the
    log domain, so that the steps stay right when both it and the gradient underflow. Vasudeva, Deora, Thrampoulidis,
    "Implicit bias and fast convergence rates for self-attention", TMLR 2025.
    """

    name, code = "polyak", 2


@dataclass(frozen=True)
class Sign(Rule):
    """``x - lr sign(g)``, entry by entry; the sign of an entry that is exactly zero is 0."""

    name, code = "sign", 3


@dataclass(frozen=True)
class Momentum(Rule):
    """``m <- momentum m + g; x <- x - lr m`` (heavy ball, as in PyTorch's SGD)."""

    momentum: float = 0.9
    name, code = "momentum", 4

    def __post_init__(self) -> None:
        _fraction("momentum", self.momentum)

    @property
    def settings(self) -> tuple[int, float, float, float, float]:
        return self.code, float(self.momentum), 0.0, 0.0, 0.0


@dataclass(frozen=True)
class Adam(Rule):
    """Adam with bias correction; `epsilon` is added to the root of the second moment, as in PyTorch.

    With ``epsilon=0`` the rule is exact at any size of the gradient: moments are kept with their exponent apart. With
    PyTorch's default 1e-8 runs stall once the gradient is smaller than that. Kingma and Ba, "Adam", ICLR 2015.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    name, code = "adam", 5

    def __post_init__(self) -> None:
        _fraction("beta1", self.beta1)
        _fraction("beta2", self.beta2)
        if isinstance(self.epsilon, bool) or not isinstance(self.epsilon, (int, float, np.number)):
            raise ValueError(f"epsilon: got {self.epsilon!r}; allowed: a number, 0 or more")
        if not 0 <= self.epsilon < math.inf:
            raise ValueError(f"epsilon: got {self.epsilon!r}; allowed: a number, 0 or more")

    @property
    def settings(self) -> tuple[int, float, float, float, float]:
        return self.code, 0.0, float(self.beta1), float(self.beta2), float(self.epsilon)


_RULES: dict[str, type[Rule]] = {rule.name: rule for rule in (Normalized, Gradient, Polyak, Sign, Momentum, Adam)}


def get(rule: Any) -> Any:
    """The rule of a name with its default settings; a rule is returned as it is.

    Parameters
    ----------
    rule : {"normalized", "gradient", "polyak", "sign", "momentum", "adam"}, Rule or custom rule

    Returns
    -------
    Rule or custom rule

    Raises
    ------
    ValueError
        For anything else.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.rules.get("momentum").momentum
    0.9
    """
    if isinstance(rule, Rule) or (hasattr(rule, "compiled") and hasattr(rule, "state")):  # the latter are custom rules
        return rule
    if not isinstance(rule, str) or rule not in _RULES:
        raise ValueError(f"rule: got {rule!r}; allowed: {', '.join(map(repr, _RULES))} or a rule of fastmm.rules")
    return _RULES[rule]()


def _fraction(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 <= value < 1:
        raise ValueError(f"{name}: got {value!r}; allowed: a number in [0, 1)")
