"""Pooled attention in PyTorch as people write it: full sequences, padding of zeros, and padding that may be anything.

Each maker takes tensors of keys (n, T, d), values (n, T, d_v), a query p (d) and perhaps lengths (n), and gives a
callable without arguments to the pooled outputs (n, d_v).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Call = Callable[[], Any]


def own_operations(K: Any, X: Any, p: Any) -> Call:
    import torch

    def pooled() -> Any:
        s = torch.softmax(K @ p, dim=-1)
        return (s.unsqueeze(-2) @ X).squeeze(-2)

    return pooled


def masked(K: Any, X: Any, p: Any, lengths: Any) -> Call:
    """Right when the padding is finite, as in data padded with zeros."""
    import torch

    def pooled() -> Any:
        padding = torch.arange(K.shape[1]) >= lengths[:, None]
        s = torch.softmax((K @ p).masked_fill(padding, -torch.inf), dim=-1)
        return (s.unsqueeze(-2) @ X).squeeze(-2)

    return pooled


def cleared(K: Any, X: Any, p: Any, lengths: Any) -> Call:
    """Right for any padding."""
    import torch

    def pooled() -> Any:
        padding = torch.arange(K.shape[1]) >= lengths[:, None]
        keys, values = (x.masked_fill(padding[..., None], 0.0) for x in (K, X))
        s = torch.softmax((keys @ p).masked_fill(padding, -torch.inf), dim=-1)
        return (s.unsqueeze(-2) @ values).squeeze(-2)

    return pooled
