"""Pooled softmax attention in PyTorch: the compiled weights as an operator, with exact derivatives of any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fastmm import _core, arrays
from fastmm.interop.torch.batching import aligned, sum_to

# Entries of the keys from which the operator is used on a CPU, as measured on two cores with AVX-512 against torch's
# own operations. Below, its way through Python costs more than the compiled weights save. It spares ragged inputs two
# cleared copies; full ones gain only when float64 keys lie far outside the caches.
RAGGED, LARGE = 1 << 19, 1 << 26

_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def softmax_attention(K: Any, X: Any, p: Any, lengths: Any = None) -> Any:
    """Pooled attention ``X_i' softmax(K_i p)`` of every input, differentiable in K, X and p.

    Parameters
    ----------
    K : Tensor, shape (..., n, T, d)
        Keys.
    X : Tensor, shape (..., n, T, d_v)
        Values; they may be the keys themselves.
    p : Tensor, shape (..., d)
        The query. Leading dimensions of all arguments broadcast.
    lengths : Tensor or array_like of int, shape (..., n), optional
        Lengths in 1..T of sequences shorter than T. What stands behind them has no influence, NaN included, and its
        derivatives are exactly 0.

    Returns
    -------
    Tensor, shape (..., n, d_v)
        Of the dtype of the arguments, on their device.

    Raises
    ------
    TypeError
        For arguments that are not tensors of one real floating dtype, or lengths that are not integers.
    ValueError
        For shapes that do not fit, no tokens, arguments on several devices, or lengths outside 1..T.

    Notes
    -----
    First and second derivatives are exact, under ``torch.func.vmap``, ``grad`` and ``jacrev`` too. NaN among the
    arguments and logits beyond the dtype's range give NaN, as they do in torch's own operations.

    Torch's own operations do the work where they are faster. On a CPU that is most often: the operator's way through
    Python costs about a millisecond a training step, and without lengths torch's products already run at the speed of
    memory. The operator ``torch.ops.fastmm.pooled_attention``, whose weights come from the compiled core in one pass
    over the keys, is taken on a CPU for float32 and float64 keys of `RAGGED` (2^19) entries or more with lengths, and
    for float64 keys of `LARGE` (2^26) entries or more without. Measured: with lengths the forward pass is 3 to 10 times
    as fast as torch's operations on cleared copies, which any padding asks for, and 1.2 times as fast as a masked
    softmax by hand on data padded with zeros; with the gradient in p 1.2 to 2.4 times as fast as on copies; without
    lengths 1.0 to 1.4 times. Contiguous tensors are read where they are. ``torch.compile`` keeps the operator as one
    opaque node. It has no forward-mode derivative: ``torch.func.jvp`` and ``hessian`` raise there, ``jacrev`` of
    ``jacrev`` does not. The first call of an operator in a process loads torch's compiler, which takes some seconds.

    The paper, section 2: with the head v, ``f_i = v' X_i' softmax(K_i p)``.

    Examples
    --------
    >>> import torch
    >>> from fastmm.interop.torch import softmax_attention
    >>> K = torch.tensor([[[1.0, 0.0], [0.0, 0.0]]], dtype=torch.float64)
    >>> p = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    >>> pooled = softmax_attention(K, K, p)
    >>> pooled.detach()
    tensor([[0.5000, 0.0000]], dtype=torch.float64)
    >>> pooled.sum().backward()
    >>> p.grad
    tensor([0.2500, 0.0000], dtype=torch.float64)
    """
    _check(K, X, p)
    own = None if lengths is None else _as_lengths(lengths, K)
    if _operator_pays(K, ragged=own is not None):
        pooled, _ = Pooled.apply(K, X, p, own)
        return pooled
    return plain_attention(K, X, p, own)


def _operator_pays(K: Any, *, ragged: bool) -> bool:
    if K.device.type != "cpu" or K.dtype not in (torch.float64, torch.float32):
        return False
    full = K.dtype == torch.float64 and K.numel() >= LARGE
    return bool(full or (ragged and K.numel() >= RAGGED))


def plain_attention(K: Any, X: Any, p: Any, lengths: Any) -> Any:
    """The same by torch's own operations; arguments are checked."""
    padding = None if lengths is None else _padding(lengths, K.shape[-2])
    K, X = _cleared(K, padding), _cleared(X, padding)
    logits = (_joined(K) @ p.unsqueeze(-1)).squeeze(-1).unflatten(-1, K.shape[-3:-1])
    if padding is not None:
        logits = logits.masked_fill(padding, -torch.inf)
    return _pool(torch.softmax(logits, -1), X)


# an operator, so that torch.compile need not look at the numbers
@torch.library.custom_op("fastmm::checked_lengths", mutates_args=(), schema="(Tensor lengths, int T) -> Tensor")
def _checked_lengths(lengths: Any, T: int) -> Any:
    wrong = (lengths < 1) | (lengths > T)
    if bool(wrong.any()):
        raise ValueError(f"lengths: got {int(lengths[wrong][0])}; allowed: 1..{T} tokens")
    return lengths.clone()


@_checked_lengths.register_fake
def _(lengths: Any, T: int) -> Any:
    return torch.empty_like(lengths)


@_checked_lengths.register_vmap
def _(info: Any, in_dims: Any, lengths: Any, T: int) -> Any:
    return _checked_lengths(lengths, T), in_dims[0]


@torch.library.custom_op(
    "fastmm::pooled_attention",
    mutates_args=(),
    schema="(Tensor K, Tensor X, Tensor p, Tensor? lengths) -> (Tensor, Tensor)",
    device_types="cpu",
)
def pooled_attention(K: Any, X: Any, p: Any, lengths: Any) -> Any:
    """The pooled outputs, and the weights (..., n, T), which the derivatives need; arguments are checked."""
    batch = _weight_batch(K, p, lengths)
    keys, point = K.numpy(force=True), p.to(torch.float64).numpy(force=True)
    own = None if lengths is None else np.ascontiguousarray(lengths.numpy(force=True))
    weights = torch.from_numpy(
        _core.attention(
            *arrays.blocks(np.ascontiguousarray(keys), 3, batch),
            *arrays.blocks(np.ascontiguousarray(point), 1, batch),
            *arrays.length_blocks(own, batch),
            torch.get_num_threads(),
        ).reshape(*batch, *K.shape[-3:-1])
    )
    pooled = _pool(weights, X)
    if lengths is not None and not bool(torch.isfinite(pooled).all()):
        # weights of padding are exactly 0: it matters only where it is not finite, and then it is cleared
        pooled = _pool(weights, _cleared(X, _padding(lengths, K.shape[-2])))
    return pooled, weights


@pooled_attention.register_fake
def _(K: Any, X: Any, p: Any, lengths: Any) -> Any:
    n, T = K.shape[-3:-1]
    batch = _weight_batch(K, p, lengths)
    pooled = K.new_empty((*torch.broadcast_shapes(batch, X.shape[:-3]), n, X.shape[-1]))
    return pooled, K.new_empty((*batch, n, T))


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    K, X, p, lengths = inputs
    ctx.save_for_backward(K, X, p, lengths, output[1])


def _backward(ctx: Any, by_pooled: Any, by_weights: Any) -> Any:
    """In torch's own operations on the arguments and the weights, an output itself: so it has derivatives in turn."""
    K, X, p, lengths, weights = ctx.saved_tensors
    needs_K, needs_X, needs_p, _ = ctx.needs_input_grad
    shapes, padding = (K.shape, X.shape), None
    if lengths is not None:
        padding = _padding(lengths, K.shape[-2])
        if needs_p:
            K = _cleared(K, padding)
        if torch.is_grad_enabled():  # only derivatives of what follows would meet the padding
            X = _cleared(X, padding)
    # a row times the transposed values: torch's product with a column takes four times as long
    slopes = (by_pooled.unsqueeze(-2) @ X.mT).squeeze(-2)
    slopes = (slopes if padding is None else slopes.masked_fill(padding, 0.0)) + by_weights
    by_logits = weights * (slopes - (weights * slopes).sum(-1, keepdim=True))
    grad_K = grad_X = grad_p = None
    if needs_K:
        grad_K = sum_to(_cleared(by_logits.unsqueeze(-1) * p[..., None, None, :], padding), shapes[0])
    if needs_X:
        grad_X = sum_to(_cleared(weights.unsqueeze(-1) * by_pooled.unsqueeze(-2), padding), shapes[1])
    if needs_p:
        each = by_logits.reshape(*by_logits.shape[:-2], 1, -1) @ _joined(K)
        grad_p = sum_to(each.squeeze(-2), p.shape)
    return grad_K, grad_X, grad_p, None


pooled_attention.register_autograd(_backward, setup_context=_keep)


class Pooled(torch.autograd.Function):
    """The operator once more, for `torch.func`, whose gradients do not see those of operators written in Python."""

    generate_vmap_rule = True

    @staticmethod
    def forward(K: Any, X: Any, p: Any, lengths: Any) -> Any:
        return pooled_attention(K, X, p, lengths)

    setup_context = staticmethod(_keep)
    backward = staticmethod(_backward)


@pooled_attention.register_vmap
def _(info: Any, in_dims: Any, K: Any, X: Any, p: Any, lengths: Any) -> Any:
    """The new axis becomes the first one of the batch, so that one call does all."""
    outputs = pooled_attention(*aligned((K, X, p, lengths), in_dims, (3, 3, 1, 1)))
    # a batch of the weights may lack axes that only X has, never the new one once an argument of theirs has it
    weights = any(dim is not None for dim in (in_dims[0], in_dims[2], in_dims[3]))
    return outputs, (0, 0 if weights else None)


def _pool(weights: Any, X: Any) -> Any:
    return (weights.unsqueeze(-2) @ X).squeeze(-2)


def _joined(K: Any) -> Any:
    """All tokens of all inputs in one axis."""
    return K.reshape(*K.shape[:-3], -1, K.shape[-1])


def _padding(lengths: Any, T: int) -> Any:
    return torch.arange(T, device=lengths.device) >= lengths.unsqueeze(-1)


def _cleared(rows: Any, padding: Any) -> Any:
    """Rows (..., n, T, d) with zeros for the padding (..., n, T), if there is any."""
    return rows if padding is None else rows.masked_fill(padding.unsqueeze(-1), 0.0)


def _weight_batch(K: Any, p: Any, lengths: Any) -> tuple[int, ...]:
    own = () if lengths is None else lengths.shape[:-1]
    return tuple(torch.broadcast_shapes(K.shape[:-3], p.shape[:-1], own))


def _check(K: Any, X: Any, p: Any) -> None:
    """Shapes, dtypes and devices; nothing that torch.compile could not do while tracing."""
    for name, x, axes in (("K", K, ("n", "T", "d")), ("X", X, ("n", "T", "d_v")), ("p", p, ("d",))):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name}: got {type(x).__name__}; allowed: a torch.Tensor")
        if x.dtype not in _FLOATS or x.dtype != K.dtype:
            raise TypeError(f"{name}: got {x.dtype}; allowed: one real floating dtype for K, X and p (K: {K.dtype})")
        if x.device != K.device:
            raise ValueError(f"{name}: is on {x.device}; allowed: one device for all (K: {K.device})")
        if x.ndim < len(axes):
            raise ValueError(f"{name}: got shape {tuple(x.shape)}; allowed: (..., {', '.join(axes)})")
    if K.shape[-2] == 0 or K.shape[-1] == 0:
        raise ValueError(f"K: got shape {tuple(K.shape)}; allowed: (..., n, T, d) with T and d at least 1")
    if X.shape[-3:-1] != K.shape[-3:-1]:
        raise ValueError(f"X: got shape {tuple(X.shape)}; allowed: n and T of the keys {tuple(K.shape)}")
    if p.shape[-1] != K.shape[-1]:
        raise ValueError(f"p: got shape {tuple(p.shape)}; allowed: (..., {K.shape[-1]}) to match the keys")


def _as_lengths(lengths: Any, K: Any) -> Any:
    """Checked lengths as an int64 tensor beside the keys."""
    own = torch.as_tensor(lengths, device=K.device)
    if own.is_floating_point() or own.is_complex() or own.dtype == torch.bool:
        raise TypeError(f"lengths: got {own.dtype}; allowed: integers")
    if own.ndim < 1 or own.shape[-1] != K.shape[-3]:
        raise ValueError(f"lengths: got shape {tuple(own.shape)}; allowed: (..., {K.shape[-3]}), one for each input")
    return _checked_lengths(own.to(torch.int64), K.shape[-2])
