"""Max-margin programs as differentiable PyTorch functions and layers, through their active sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fastmm.interop.torch.batching import aligned, sum_to
from fastmm.margin.least_norm import min_norm
from fastmm.margin.sensitivity import active_vjp


def max_margin(A: Any, b: Any = None) -> Any:
    """The vector of least norm with ``A w >= b``, differentiable in A and b.

    Parameters
    ----------
    A : Tensor, shape (..., m, d)
        Rows; for ATT-SVM the differences of the selected key to the others.
    b : Tensor, shape (..., m), or float, optional
        Right-hand sides; 1 by default. Leading dimensions broadcast.

    Returns
    -------
    Tensor, shape (..., d)
        ``w``, of the dtype of A and on its device; the margin is ``1 / w.norm(dim=-1)``.

    Raises
    ------
    InfeasibleError, NotSolvedError
        When a program is infeasible, or ends without a certified answer, as `fastmm.min_norm` does; ``.result`` has
        all answers of the batch.
    TypeError
        For an A that is not a tensor of a real floating dtype, or a b of another dtype.
    ValueError
        For shapes that do not fit, NaN or infinity.

    Notes
    -----
    Solved by `fastmm.min_norm` in float64 on the CPU, with torch's number of threads; tensors elsewhere are copied.
    The derivative is that of the active set, see `fastmm.margin_vjp`: exact where every row on the margin has a
    multiplier, one-sided where one has none. There is no second derivative: asking for it raises. Works under
    ``torch.compile``, ``torch.func.vmap`` and ``torch.func.grad``. Cost of a derivative: ``d q²`` a program with q
    active rows.

    References
    ----------
    Amos, Kolter, "OptNet: Differentiable Optimization as a Layer in Neural Networks", ICML 2017.

    Examples
    --------
    >>> import torch
    >>> from fastmm.interop.torch import max_margin
    >>> A = torch.tensor([[2.0, 0.0], [0.0, 1.0]], dtype=torch.float64, requires_grad=True)
    >>> w = max_margin(A)
    >>> w.detach()
    tensor([0.5000, 1.0000], dtype=torch.float64)
    >>> w.sum().backward()
    >>> A.grad
    tensor([[-0.2500, -0.5000],
            [-0.5000, -1.0000]], dtype=torch.float64)
    """
    if not isinstance(A, torch.Tensor) or not A.is_floating_point():
        raise TypeError(f"A: got {getattr(A, 'dtype', type(A).__name__)}; allowed: a torch.Tensor of floats")
    if A.ndim < 2 or A.shape[-1] == 0:
        raise ValueError(f"A: got shape {tuple(A.shape)}; allowed: (..., m, d) with d at least 1")
    if not isinstance(b, torch.Tensor):
        b = torch.full(A.shape[-2:-1], 1.0 if b is None else b, dtype=A.dtype, device=A.device)
    if b.dtype != A.dtype:
        raise TypeError(f"b: got {b.dtype}; allowed: {A.dtype}, that of A")
    if b.ndim < 1 or b.shape[-1] != A.shape[-2]:
        raise ValueError(f"b: got shape {tuple(b.shape)}; allowed: (..., {A.shape[-2]}) to match A")
    w, _ = Solved.apply(A, b)
    return w


class MaxMarginLayer(torch.nn.Module):
    """`max_margin` as a layer: rows in, separating vectors out; it has no parameters.

    Examples
    --------
    >>> import torch
    >>> from fastmm.interop.torch import MaxMarginLayer
    >>> MaxMarginLayer()(torch.eye(2))
    tensor([1., 1.])
    """

    def forward(self, A: Any, b: Any = None) -> Any:
        """See `max_margin`."""
        return max_margin(A, b)


@torch.library.custom_op("fastmm::min_norm", mutates_args=(), schema="(Tensor A, Tensor b) -> (Tensor, Tensor)")
def solved(A: Any, b: Any) -> Any:
    """Solutions (..., d) and multipliers (..., m)."""
    answer = min_norm(_doubles(A), _doubles(b), threads=torch.get_num_threads())
    return _like(answer.w, A), _like(answer.dual, A)


@solved.register_fake
def _(A: Any, b: Any) -> Any:
    batch = torch.broadcast_shapes(A.shape[:-2], b.shape[:-1])
    return A.new_empty((*batch, A.shape[-1])), A.new_empty((*batch, A.shape[-2]))


@solved.register_vmap
def _(info: Any, in_dims: Any, A: Any, b: Any) -> Any:
    return solved(*aligned((A, b), in_dims, (2, 1))), (0, 0)


@torch.library.custom_op(
    "fastmm::min_norm_vjp",
    mutates_args=(),
    schema="(Tensor A, Tensor w, Tensor dual, Tensor by_w) -> (Tensor, Tensor)",
)
def pulled_back(A: Any, w: Any, dual: Any, by_w: Any) -> Any:
    """Derivatives in the rows (..., m, d) and in the right-hand sides (..., m), of the batch of the answers."""
    shape = torch.broadcast_shapes(A.shape[:-2], dual.shape[:-1], by_w.shape[:-1])
    m, d = A.shape[-2:]

    def flat(x: Any, *core: int) -> Any:
        return np.broadcast_to(_doubles(x), (*shape, *core)).reshape(-1, *core)

    rows, multipliers, points, gradients = flat(A, m, d), flat(dual, m), flat(w, d), flat(by_w, d)
    by_rows, by_right = np.zeros_like(rows), np.zeros_like(multipliers)
    for k, own in enumerate(multipliers):
        active = np.flatnonzero(own)
        if active.size:
            by_rows[k, active], by_right[k, active] = active_vjp(rows[k, active], own[active], points[k], gradients[k])
    return _like(by_rows.reshape(*shape, m, d), A), _like(by_right.reshape(*shape, m), A)


@pulled_back.register_fake
def _(A: Any, w: Any, dual: Any, by_w: Any) -> Any:
    shape = torch.broadcast_shapes(A.shape[:-2], dual.shape[:-1], by_w.shape[:-1])
    return A.new_empty((*shape, *A.shape[-2:])), A.new_empty((*shape, A.shape[-2]))


@pulled_back.register_vmap
def _(info: Any, in_dims: Any, A: Any, w: Any, dual: Any, by_w: Any) -> Any:
    return pulled_back(*aligned((A, w, dual, by_w), in_dims, (2, 1, 1, 1))), (0, 0)


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs, *output)
    ctx.mark_non_differentiable(output[1])


def _backward(ctx: Any, by_w: Any, by_dual: Any) -> Any:
    A, b, w, dual = ctx.saved_tensors
    by_rows, by_right = PulledBack.apply(A, w, dual, by_w)
    return sum_to(by_rows, A.shape), sum_to(by_right, b.shape)


class Solved(torch.autograd.Function):
    """The operator with its derivative, in the form that `torch.func` understands."""

    generate_vmap_rule = True

    @staticmethod
    def forward(A: Any, b: Any) -> Any:
        return solved(A, b)

    setup_context = staticmethod(_keep)
    backward = staticmethod(_backward)


class PulledBack(torch.autograd.Function):
    """The operator of the derivative, likewise; it says that it has none itself."""

    generate_vmap_rule = True

    @staticmethod
    def forward(A: Any, w: Any, dual: Any, by_w: Any) -> Any:
        return pulled_back(A, w, dual, by_w)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is kept."""

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise NotImplementedError("max_margin: has no second derivative; allowed: first derivatives in A and b")


def _doubles(x: Any) -> Any:
    return x.to(torch.float64).numpy(force=True)


def _like(array: Any, x: Any) -> Any:
    return torch.from_numpy(np.ascontiguousarray(array)).to(x.device, x.dtype)
