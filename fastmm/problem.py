"""Problem: the tokens, labels and head of one softmax-attention problem or of a batch, validated once."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fastmm import _core, arrays, integers
from fastmm.arrays import BoolArray, FloatArray, IntArray
from fastmm.config import resolve_threads


class Problem:
    """Data of the model ``f_i = v' X_i' softmax(K_i p)`` with labels ``Y``, for one problem or any batch of them.

    Parameters
    ----------
    X : array_like, shape (..., n, T, d)
        Tokens as rows: n inputs of T tokens each.
    Y : array_like, shape (..., n)
        Labels, usually -1 and +1; any nonzero reals.
    v : array_like, shape (..., d)
        The prediction head.
    K : array_like, shape (..., n, T, d_k), optional
        Keys. By default the keys are the tokens, or ``X W'`` when `W` is given without `Z`.
    W : array_like, shape (..., d_q, d), optional
        Key-query matrix.
    Z : array_like, shape (..., n, d_q) or (..., d_q), optional
        Queries for training `W`: the logits are ``X_i W' z_i``. One shared query is given as (1, d_q) or (d_q,).
    lengths : array_like of int, shape (..., n), optional
        Lengths of sequences shorter than T. What stands behind them is padding and never read.

    Attributes
    ----------
    X, Y, v, K, W, Z, lengths
        The data as stored: float32 when every array given is float32, else float64; read-only views. `K` is always set.
    n, T, d, d_k : int
        Inputs, tokens, width of tokens and of keys.
    batch_shape : tuple of int
        Common leading dimensions; ``()`` for a single problem.
    dtype : numpy.dtype

    Raises
    ------
    TypeError
        For complex, object and string arrays.
    ValueError
        For shapes that do not fit, NaN or infinity outside the padding, labels 0, lengths outside 1..T; the message
        names the argument, what was given and what is allowed.

    Notes
    -----
    Arrays that already have the working dtype in C order are used without a copy. Building a problem reads its data
    once; `scores` are computed on first use.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, "Max-Margin Token Selection in Attention Mechanism", NeurIPS 2023, section 2.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1.0, 0.0], [0.0, 1.0]]], [1.0], [1.0, 0.5])
    >>> problem.scores
    array([[1. , 0.5]])
    >>> problem.optimal
    array([0])
    """

    X: FloatArray
    Y: FloatArray
    v: FloatArray
    K: FloatArray
    W: FloatArray | None
    Z: FloatArray | None
    lengths: IntArray | None

    def __init__(
        self, X: Any, Y: Any, v: Any, K: Any = None, W: Any = None, Z: Any = None, lengths: Any = None
    ) -> None:
        if K is not None and W is not None:
            raise ValueError("K and W: got both; allowed: keys K, or a matrix W that makes them from X")
        named = [("X", X), ("v", v), ("K", K), ("W", W), ("Z", Z)]
        if hasattr(Y, "dtype") and arrays.raw("Y", Y).dtype.kind == "f":  # integer labels have no say in the dtype
            named.append(("Y", Y))
        dtype = arrays.working_dtype(*((name, value) for name, value in named if value is not None))
        set_ = self._set

        X = arrays.floats("X", X, dtype, ("n", "T", "d"), finite=False)
        n, T, d = X.shape[-3:]
        arrays.need_extents("X", X, ("n", "T", "d"))
        own_lengths = integers.as_lengths("lengths", lengths, n, T)
        set_(n=n, T=T, d=d, dtype=dtype, lengths=_locked(own_lengths))
        arrays.need_finite("X", X, self._match(own_lengths, X, "X"))
        set_(X=_locked(X), Y=_locked(arrays.as_labels("Y", Y, dtype)), v=_locked(arrays.floats("v", v, dtype, ("d",))))
        arrays.need_shape("Y", self.Y, ("n",), (n,), "X")
        arrays.need_shape("v", self.v, ("d",), (d,), "X")

        W = None if W is None else _locked(arrays.floats("W", W, dtype, ("d_q", "d")))
        if W is not None:
            arrays.need_shape("W", W, ("d",), (d,), "X")
        Z = None if Z is None else arrays.floats("Z", Z, dtype, ("d_q",))
        if Z is not None:
            Z = _locked(Z[None, :] if Z.ndim == 1 else Z)
            if Z.shape[-2] not in (1, n):
                raise ValueError(f"Z: got shape {Z.shape}; allowed: (..., n={n}, d_q), (..., 1, d_q) or (d_q,)")
            if W is not None:
                arrays.need_shape("W", W, ("d_q", "d"), (Z.shape[-1], d), "Z and X")
        set_(W=W, Z=Z)
        keys = self.X if K is None and (W is None or Z is not None) else _locked(self._keys(K, W, own_lengths))
        set_(K=keys, d_k=keys.shape[-1])
        set_(batch_shape=arrays.broadcast_batch(self.batches()))

    def with_head(self, v: Any) -> Problem:
        """The same problem with another head."""
        return Problem(self.X, self.Y, v, K=None if self.K is self.X else self.K, Z=self.Z, lengths=self.lengths)

    def _keys(self, K: Any, W: FloatArray | None, lengths: IntArray | None) -> FloatArray:
        if W is not None:
            X = self.X if lengths is None else np.where(self.real_tokens[..., None], self.X, 0)
            made: FloatArray = np.ascontiguousarray(X @ np.swapaxes(W, -1, -2)[..., None, :, :])
            return made
        keys = arrays.floats("K", K, self.dtype, ("n", "T", "d_k"), finite=False)
        arrays.need_extents("K", keys, ("n", "T", "d_k"))
        arrays.need_shape("K", keys, ("n", "T", "d_k"), (self.n, self.T, keys.shape[-1]), "X")
        arrays.need_finite("K", keys, self._match(lengths, keys, "K"))
        return keys

    def _match(self, lengths: IntArray | None, array: FloatArray, name: str) -> IntArray | None:
        """Lengths for the finiteness check of one array: tokens that are padding in every element sharing them."""
        if lengths is None:
            return None
        batch = arrays.broadcast_batch([("lengths", lengths.shape[:-1]), (name, array.shape[:-3])])
        whole = np.broadcast_to(lengths, (*batch, self.n))
        own = array.shape[:-3]
        extra = len(batch) - len(own)
        axes = tuple(range(extra)) + tuple(extra + k for k, e in enumerate(own) if e == 1 and batch[extra + k] != 1)
        return np.asarray(whole.max(axis=axes, keepdims=True).reshape(*own, self.n), dtype=np.int64)

    def batches(self, without: tuple[str, ...] = ()) -> list[tuple[str, tuple[int, ...]]]:
        """Name and leading dimensions of every array there is, but those named."""
        core = {"X": 3, "Y": 1, "v": 1, "K": 3, "W": 2, "Z": 2, "lengths": 1}
        found = [(name, getattr(self, name), axes) for name, axes in core.items()]
        return [
            (name, value.shape[: value.ndim - axes])
            for name, value, axes in found
            if value is not None and name not in without
        ]

    @cached_property
    def real_tokens(self) -> BoolArray:
        """True at tokens, False at padding; shape (..., n, T)."""
        if self.lengths is None:
            return np.ones((self.n, self.T), dtype=bool)
        return np.asarray(np.arange(self.T) < self.lengths[..., None])

    @cached_property
    def scores(self) -> FloatArray:
        """Token scores ``gamma_it = Y_i v' x_it`` (..., n, T), NaN at padding; ties are exact equality of these."""
        named: list[tuple[str, npt.NDArray[Any], int]] = [("X", self.X, 3), ("Y", self.Y, 1), ("v", self.v, 1)]
        if self.lengths is not None:
            named.append(("lengths", self.lengths, 1))
        batch = arrays.broadcast_batch([(name, array.shape[: array.ndim - core]) for name, array, core in named])
        X, Y, v = (arrays.blocks(array, core, batch) for _, array, core in named[:3])
        scores = _core.scores(*X, *Y, *v, *arrays.length_blocks(self.lengths, batch), resolve_threads())
        scores = scores.reshape(*batch, self.n, self.T)
        arrays.need_finite("scores", scores if self.lengths is None else np.where(self.real_tokens, scores, 0))
        locked: FloatArray = _locked(scores)
        return locked

    @cached_property
    def optimal(self) -> IntArray:
        """The token with the largest score of each input, the first of several, shape (..., n)."""
        optimal: IntArray = _locked(np.asarray(np.argmax(self._finite_scores, axis=-1), dtype=np.int64))
        return optimal

    @cached_property
    def tied(self) -> BoolArray:
        """True where several tokens of an input share the largest score, shape (..., n)."""
        scores = self._finite_scores
        tied: BoolArray = _locked(np.asarray((scores == scores.max(axis=-1, keepdims=True)).sum(axis=-1) > 1))
        return tied

    @property
    def _finite_scores(self) -> FloatArray:
        return self.scores if self.lengths is None else np.where(self.real_tokens, self.scores, -np.inf)

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    n: int
    T: int
    d: int
    d_k: int
    dtype: np.dtype[Any]
    batch_shape: tuple[int, ...]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Problem is frozen; make a new one to change {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Problem is frozen; make a new one without {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("X", "Y", "v", "W", "Z", "lengths")} | {
            "K": None if self.K is self.X or (self.W is not None and self.Z is None) else self.K
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        Problem.__init__(self, **state)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Problem):
            return NotImplemented
        names = ("X", "Y", "v", "K", "W", "Z", "lengths")
        return all(_same(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        batch = f", batch {self.batch_shape}" if self.batch_shape else ""
        ragged = ", ragged" if self.lengths is not None else ""
        return f"Problem(n={self.n}, T={self.T}, d={self.d}, d_k={self.d_k}, {self.dtype}{batch}{ragged})"


def _locked(array: Any) -> Any:
    """A read-only view: the user's own array stays writable."""
    if array is None:
        return None
    view = array.view()
    view.flags.writeable = False
    return view


def _same(a: npt.NDArray[Any] | None, b: npt.NDArray[Any] | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=True)
