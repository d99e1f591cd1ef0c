"""Programs over tokens: one row for each token of an input that is not the selected one."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmm import arrays, integers
from fastmm.arrays import BoolArray, FloatArray, IntArray
from fastmm.margin.program import Program


class TokenProgram(Program):
    """Validated tokens, selections and lengths of a batch; kept as blocks, nothing is broadcast."""

    n: int
    T: int

    def _read(
        self,
        name: str,
        tokens: Any,
        selected: Any,
        lengths: Any,
        dtype: np.dtype[Any],
        others: list[tuple[str, tuple[int, ...]]],
    ) -> None:
        """Reads what all such programs have; `others` names the batch shapes of further arguments."""
        array = arrays.floats(name, tokens, dtype, ("n", "T", "d"), finite=False)
        n, T, d = array.shape[-3:]
        if T == 0 or d == 0:
            raise ValueError(f"{name}: got shape {array.shape}; allowed: (..., n, T, d) with T and d at least 1")
        own = integers.as_lengths("lengths", lengths, n, T)
        arrays.need_finite(name, array, None if own is None else _longest(name, own, array))
        chosen = integers.as_selected("selected", selected, n, T, own)
        named = [(name, array.shape[:-3]), ("selected", chosen.shape[:-1])]
        if own is not None:
            named.append(("lengths", own.shape[:-1]))
        self.batch = arrays.broadcast_batch([*named, *others])
        self.n, self.T, self.row_shape = n, T, (n, T)
        self._width = d
        self._tokens, self._block = arrays.blocks(array, 3, self.batch)
        self._selected: IntArray = self._whole(chosen)
        self._lengths: IntArray | None = None if own is None else self._whole(own)

    def _whole(self, value: Any) -> Any:
        """(..., n) for each program of the flattened batch; these are small beside the tokens."""
        return np.ascontiguousarray(np.broadcast_to(value, (*self.batch, self.n))).reshape(self.count, self.n)

    def real(self, part: Any = slice(None)) -> BoolArray:
        """Which places of (programs, n, T) have a row: neither the selected token nor padding."""
        tokens = np.arange(self.T)
        real: BoolArray = tokens != self._selected[part][..., None]
        return real if self._lengths is None else real & (tokens < self._lengths[part][..., None])

    def describe(self, places: list[int]) -> str:
        """Inputs, and the tokens of each that stand against its selected one."""
        tokens: dict[int, list[str]] = {}
        for place in places:
            tokens.setdefault(place // self.T, []).append(str(place % self.T))
        parts = [f"token{'s'[: len(own) > 1]} {' and '.join(own)} of input {i}" for i, own in tokens.items()]
        return f"inputs {', '.join(map(str, tokens))}: {', '.join(parts)}"

    def differences(self, part: Any) -> FloatArray:
        """Selected token minus each token, (programs, n, T, d) in float64; 0 where there is no row."""
        tokens = self._tokens[self._block[part]].astype(np.float64, copy=False)
        chosen = np.take_along_axis(tokens, self._selected[part][..., None, None], axis=-2)
        return np.where(self.real(part)[..., None], chosen - tokens, 0.0)


def _longest(name: str, lengths: IntArray, tokens: FloatArray) -> IntArray:
    """Lengths of the blocks of tokens as stored: of programs that share a block the longest counts."""
    own = tokens.shape[:-2]
    batch = arrays.broadcast_batch([("lengths", lengths.shape[:-1]), (name, own[:-1])])
    whole = np.broadcast_to(lengths, (*batch, own[-1]))
    extra = len(batch) - len(own) + 1
    shared = tuple(range(extra)) + tuple(
        extra + axis for axis, extent in enumerate(own[:-1]) if extent == 1 and batch[extra + axis] != 1
    )
    return np.asarray(whole.max(axis=shared, keepdims=True, initial=1).reshape(own), np.int64)
