"""Normalised gradient descent as a PyTorch optimiser that keeps its direction however small the gradient is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch


class NormalizedGD(torch.optim.Optimizer):
    """Steps of a fixed length along minus the gradient: ``x -= lr * g / ||g||``.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        Parameters, or groups of them with an `lr` of their own, as for any optimiser.
    lr : float
        Length of a step, positive.
    scope : {"global", "group"}
        What is normalised together: all parameters, so that ``||g||`` is the norm over all groups, or each group by
        itself (as `fastmm.descend` does when it trains p and v jointly).

    Attributes
    ----------
    zero_steps : int
        How often a step found a gradient that is exactly zero (in any group, with ``scope="group"``) and left its
        parameters where they were. Kept in the state dict.
    log_norms : list of float
        Logarithm of the gradient's norm at the last step: one number, or one for each group; -inf for a zero gradient.

    Raises
    ------
    ValueError
        For an lr that is not a positive number or an unknown scope.
    FloatingPointError
        By `step`, before anything is moved, when a gradient has NaN or infinity.
    TypeError
        By `step`, for sparse or complex gradients.

    Notes
    -----
    The gradient is divided by the power of two of its largest entry before it is squared, so that 1e-200, subnormal
    numbers and 1e200 all give a unit vector; nothing is added to the norm. float16, bfloat16 and float32 gradients are
    squared and scaled in float64. Parameters without a gradient are left out, several devices are allowed; a step
    waits for the norm. The softmax itself underflows beyond ``||p||`` of some 700: where the gradient that autograd
    delivers is zero or rounding noise, no optimiser can repair it, and `fastmm.descend` is the exact loop.

    The paper, section 1, (normalised gradient descent); `fastmm.descend` with ``rule="normalized"``.

    Examples
    --------
    >>> import torch
    >>> from fastmm.interop.torch import NormalizedGD
    >>> x = torch.tensor([3.0, 4.0], dtype=torch.float64, requires_grad=True)
    >>> optimizer = NormalizedGD([x], lr=1.0)
    >>> (x @ torch.tensor([3e-200, 4e-200], dtype=torch.float64)).backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([2.4000, 3.2000], dtype=torch.float64)
    >>> optimizer.zero_steps
    0
    """

    def __init__(self, params: Iterable[Any], lr: float, *, scope: str = "global") -> None:
        if scope not in ("global", "group"):
            raise ValueError(f"scope: got {scope!r}; allowed: 'global', 'group'")
        self.scope = scope
        self.zero_steps = 0
        self.log_norms: list[float] = []
        super().__init__(params, {"lr": _as_lr(lr)})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of parameters, with the lr of the optimiser unless it has one."""
        if "lr" in param_group:
            _as_lr(param_group["lr"])
        super().add_param_group(param_group)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Moves the parameters once.

        Parameters
        ----------
        closure : callable, optional
            Evaluates the model again, with gradients, and returns the loss.

        Returns
        -------
        Tensor or None
            What the closure returned.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        trained = [[x for x in group["params"] if x.grad is not None] for group in self.param_groups]
        shared = [[x for part in trained for x in part]] if self.scope == "global" else trained
        sizes = [_size(part) for part in shared]  # of all before anything is moved
        self.log_norms = [math.log(norm) + power * math.log(2) if norm else -math.inf for norm, power in sizes]
        self.zero_steps += any(part and not norm for part, (norm, _) in zip(shared, sizes, strict=True))
        for k, (group, part) in enumerate(zip(self.param_groups, trained, strict=True)):
            norm, power = sizes[0 if self.scope == "global" else k]
            for x in part if norm else ():
                x.copy_(x.to(torch.float64) - group["lr"] * (_near_one(x.grad, power) / norm))
        return loss

    def __getstate__(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("scope", "zero_steps", "log_norms")}
        return {**super().__getstate__(), **own}

    def state_dict(self) -> dict[str, Any]:
        """The groups, the scope and the number of steps that met a zero gradient."""
        return {**super().state_dict(), "scope": self.scope, "zero_steps": self.zero_steps}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes back what `state_dict` gave."""
        own = dict(state_dict)
        scope, zero_steps = own.pop("scope"), own.pop("zero_steps")
        super().load_state_dict(own)
        self.scope, self.zero_steps = scope, zero_steps


def _size(parameters: list[Any]) -> tuple[float, int]:
    """The norm over all gradients as a float near 1 and a power of two; 0 for a zero gradient."""
    for x in parameters:
        if x.grad.is_sparse or not x.grad.is_floating_point():
            raise TypeError(f"gradient: got {x.grad.layout}, {x.grad.dtype}; allowed: dense real gradients")
    gradients = [x.grad for x in parameters if x.grad.numel()]
    if not gradients:
        return 0.0, 0
    largest = float(_together([gradient.abs().max() for gradient in gradients]).max())
    if not math.isfinite(largest):
        raise FloatingPointError("gradient: has NaN or infinity; allowed: finite numbers (no parameter was moved)")
    power = math.frexp(largest)[1]
    squares = _together([_near_one(gradient, power).square().sum() for gradient in gradients]).sum()
    return math.sqrt(float(squares)), power


def _together(values: list[Any]) -> Any:
    """One tensor of doubles on one device: a step waits for devices twice, not twice for each parameter."""
    return torch.stack([value.to(values[0].device, torch.float64) for value in values])


def _near_one(gradient: Any, power: int) -> Any:
    """The gradient over two to this power, in float64 and without rounding; a power of 1074 takes two factors."""
    half = power // 2
    return gradient.to(torch.float64) * 2.0**-half * 2.0 ** (half - power)


def _as_lr(lr: Any) -> float:
    if isinstance(lr, bool) or not isinstance(lr, float | int) or not 0 < lr < math.inf:
        raise ValueError(f"lr: got {lr!r}; allowed: a positive number")
    return float(lr)
