"""AttentionMonitor: attention maps, their sparsity and the norm of query-key weights while any PyTorch model trains."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from fastmm.interop.torch.capture import MultiheadAttention, captured, find, query_key

if TYPE_CHECKING:
    import xarray as xr

_Array = npt.NDArray[Any]
_SERIES = {
    "norm_ratio": "l1 norm of the average map over its l2 norm",
    "entropy": "entropy of the average map",
    "query_key_norm": "Frobenius norm of the query and key weights",
    "product_norm": "Frobenius norm of their products, all heads together",
}


class AttentionMonitor:
    """Watches where chosen inputs are attended to while a model trains.

    Each record passes the inputs through the model in evaluation mode, without gradients, and keeps the weights with
    which one query attends to all tokens. Training flags, random numbers and the model's results are left as they were.

    Parameters
    ----------
    model : torch.nn.Module
    inputs : Tensor, tuple or mapping
        What the model is called with: one argument, several, or keyword arguments. Kept as given, on its device.
    attention : str or callable, optional
        Where the weights come from: the name of a ``torch.nn.MultiheadAttention`` in the model, of another submodule
        that returns weights, or of a method of the model or of a submodule that returns them during the forward pass;
        of several calls in one pass the last counts. A submodule itself will do, too; another callable is called with
        the inputs instead of the model. By default the last ``torch.nn.MultiheadAttention`` of the model.
    pick : int, optional
        Which item of a tuple holds the weights, where what `attention` names returns a tuple.
    query : int
        Row of the weights to keep; 0 is usually [CLS].
    weights : pair of str, optional
        Names of the parameters with query and key weights, both (width, inputs); those of a
        ``torch.nn.MultiheadAttention`` are found by themselves. Without any the norms are NaN.
    optimizer : torch.optim.Optimizer, optional
        Records after every `every` of its steps, by a hook that `close` removes. The record's label is then the number
        of steps.
    every : int
        Steps between records; the number of batches makes it once an epoch.

    Attributes
    ----------
    labels : list
        One for each record.
    maps : ndarray, shape (records, inputs, tokens)
        Attention weights of the query, averaged over heads.
    average : ndarray, shape (records, tokens)
        Mean of the maps over the inputs.
    norm_ratio : ndarray, shape (records,)
        ``||a||_1 / ||a||_2`` of the average map a, from 1 (one token) to the square root of the number of tokens.
    entropy : ndarray, shape (records,)
        ``-sum a log a`` of the average map, in nats, from 0 to the logarithm of the number of tokens.
    query_key_norm : ndarray, shape (records,)
        ``sqrt(||W_q||² + ||W_k||²)``, Frobenius norms.
    product_norm : ndarray, shape (records,)
        ``sqrt(sum over heads of ||W_q' W_k||²)``: that of the matrix called W in the paper.

    Raises
    ------
    ValueError
        For names that do not exist, and by `record` when what was captured are no attention weights (not 3 axes or 2,
        negative, not summing to 1) or have another shape than before.
    TypeError
        For a model, inputs or an optimizer of another kind.
    RuntimeError
        By `record`, when the forward pass did not reach what `attention` names.

    Notes
    -----
    Weights have the shape (inputs, heads, queries, tokens), (inputs, queries, tokens) or, for a single query, (inputs,
    tokens). Nothing stays attached to the model between records, and no graph is kept: what grows is the results, one
    map a record. ``torch.nn.TransformerEncoderLayer`` hides its weights in a fused path, which is switched off for the
    process while a record is made, and switched back.

    Section on the vision transformer and Figures 6 and 7 of the paper: maps become sparse while the norm grows.

    Examples
    --------
    >>> import torch
    >>> from fastmm.interop.torch import AttentionMonitor
    >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> with AttentionMonitor(layer, torch.zeros(3, 5, 8)) as monitor:
    ...     monitor.record()
    ...     monitor.record()
    >>> monitor.maps.shape, monitor.entropy.round(4)  # equal tokens: uniform weights, log 5
    ((2, 3, 5), array([1.6094, 1.6094]))
    """

    def __init__(
        self,
        model: Any,
        inputs: Any,
        attention: str | Callable[..., Any] | None = None,
        *,
        pick: int | None = None,
        query: int = 0,
        weights: Sequence[str] | None = None,
        optimizer: Any = None,
        every: int = 1,
    ) -> None:
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"model: got {type(model).__name__}; allowed: a torch.nn.Module")
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ValueError(f"every: got {every!r}; allowed: a positive number of steps")
        self.model, self.query, self.pick, self.every = model, query, pick, every
        self._args, self._kwargs = _as_call(inputs)
        self._attention = attention if callable(attention) else find(model, attention)
        self._weights = query_key(model, self._attention, weights)
        self.labels: list[Any] = []
        self._maps: list[_Array] = []
        self._norms: list[tuple[float, float]] = []
        self._steps = 0
        self._hook: Any = None
        if optimizer is not None:
            if not isinstance(optimizer, torch.optim.Optimizer):
                raise TypeError(f"optimizer: got {type(optimizer).__name__}; allowed: a torch.optim.Optimizer")
            self._hook = optimizer.register_step_post_hook(self._after_step)

    def record(self, label: Any = None) -> None:
        """Records the maps and norms as they are now.

        Parameters
        ----------
        label : object, optional
            Epoch, step or time of this record; by default the number of records before it.
        """
        with _evaluating(self.model), torch.no_grad(), _fused_paths_off():
            weights = self._captured()
        own = _rows(weights, self.query)
        if self._maps and own.shape != self._maps[0].shape:
            raise ValueError(f"attention: got maps of shape {own.shape}; allowed: {self._maps[0].shape} as before")
        self._norms.append(_norms(*self._weights()))
        self._maps.append(own)
        self.labels.append(len(self.labels) if label is None else label)

    def close(self) -> None:
        """Removes the hook from the optimizer; the results stay."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def __enter__(self) -> AttentionMonitor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def maps(self) -> _Array:
        return np.stack(self._maps) if self._maps else np.zeros((0, 0, 0))

    @property
    def average(self) -> _Array:
        return self.maps.mean(axis=1, dtype=np.float64) if self._maps else np.zeros((0, 0))

    @property
    def norm_ratio(self) -> _Array:
        average = self.average
        ratio: _Array = np.abs(average).sum(-1) / np.linalg.norm(average, axis=-1)
        return ratio

    @property
    def entropy(self) -> _Array:
        average = self.average
        entropy: _Array = -(average * np.log(np.where(average > 0, average, 1))).sum(-1)
        return entropy

    @property
    def query_key_norm(self) -> _Array:
        return np.array([own for own, _ in self._norms])

    @property
    def product_norm(self) -> _Array:
        return np.array([own for _, own in self._norms])

    def to_xarray(self) -> xr.Dataset:
        """All records as a labelled dataset.

        Returns
        -------
        xarray.Dataset
            With ``maps`` (record, input, token), ``average`` (record, token) and the series over ``record``.
        """
        import xarray as xr

        series = {name: ("record", getattr(self, name), {"long_name": text}) for name, text in _SERIES.items()}
        return xr.Dataset(
            {
                "maps": (("record", "input", "token"), self.maps, {"long_name": "attention weights"}),
                "average": (("record", "token"), self.average, {"long_name": "mean of the maps over the inputs"}),
                **series,
            },
            coords={"record": self.labels},
            attrs={"query": self.query},
        )

    def _captured(self) -> Any:
        if callable(self._attention) and not isinstance(self._attention, torch.nn.Module):
            return _picked(self._attention(*self._args, **self._kwargs), self.pick)
        seen: list[Any] = []
        with captured(self._attention, seen):
            self.model(*self._args, **self._kwargs)
        if not seen:
            raise RuntimeError("attention: what it names was not called by the model; allowed: a part of forward")
        if not isinstance(self._attention, MultiheadAttention):
            return _picked(seen[-1], self.pick)
        weights = _picked(seen[-1], 1)
        return weights if weights.ndim == 4 else weights.unsqueeze(0)  # one sequence without a batch axis

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._steps += 1
        if self._steps % self.every == 0:
            self.record(self._steps)


def _as_call(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(inputs, torch.Tensor):
        return (inputs,), {}
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    if isinstance(inputs, tuple):
        return inputs, {}
    raise TypeError(f"inputs: got {type(inputs).__name__}; allowed: a tensor, a tuple or a mapping")


def _picked(output: Any, pick: int | None) -> Any:
    found = output[pick] if pick is not None and isinstance(output, tuple | list) else output
    if not isinstance(found, torch.Tensor):
        raise ValueError(f"attention: returned {type(found).__name__}; allowed: a tensor, or a tuple with pick=")
    return found


def _rows(weights: Any, query: int) -> _Array:
    """The query's weights (inputs, tokens), averaged over heads; refuses what are no weights."""
    if weights.ndim not in (2, 3, 4):
        raise ValueError(
            f"attention: got weights of shape {tuple(weights.shape)}; allowed: (inputs, heads, queries, tokens), "
            "(inputs, queries, tokens) or (inputs, tokens)"
        )
    coarse = weights.dtype in (torch.float16, torch.bfloat16)
    if weights.ndim > 2:
        if not -weights.shape[-2] <= query < weights.shape[-2]:
            raise ValueError(f"query: got {query}; allowed: one of the {weights.shape[-2]} queries")
        weights = weights[..., query, :]
    rows: _Array = (weights.float() if coarse else weights).numpy(force=True)
    if not (np.all(rows >= 0) and np.allclose(rows.sum(-1), 1, rtol=0, atol=0.05 if coarse else 1e-3)):
        raise ValueError("attention: rows are negative, NaN or do not sum to 1; allowed: attention weights")
    own: _Array = rows.mean(axis=1) if rows.ndim == 3 else rows.copy()
    return own


def _norms(query: Any, key: Any) -> tuple[float, float]:
    """Norms of weights (heads, width, inputs); ``||Q'K||² = <QQ', KK'>`` spares the large product."""
    if query is None:
        return np.nan, np.nan
    query, key = query.detach().double(), key.detach().double()
    both = (query.square().sum() + key.square().sum()).sqrt()
    product = ((query @ query.mT) * (key @ key.mT)).sum().clamp_min(0).sqrt()
    return float(both), float(product)


@contextlib.contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, flag in flags:
            module.training = flag


@contextlib.contextmanager
def _fused_paths_off() -> Iterator[None]:
    own = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(own)
