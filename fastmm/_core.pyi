from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

_Float = npt.NDArray[np.floating[Any]]
_Index = npt.NDArray[np.int64]
_Doubles = npt.NDArray[np.floating[Any]]  # float64, C order

def build_info() -> dict[str, Any]: ...
def c_entries() -> dict[str, int]: ...
def first_nonfinite(x: _Float, T: int, d: int, lengths: _Index | None = None) -> int: ...
def loss_value(loss: int, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]: ...
def loss_slope(loss: int, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]: ...
def loss_curvature(loss: int, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]: ...
def softmax(logits: _Float, lengths: _Index | None, logarithm: bool) -> _Float: ...
def attention(
    keys: _Float,
    key_index: _Index,
    p: npt.NDArray[np.float64],
    p_index: _Index,
    lengths: _Index | None,
    length_index: _Index | None,
    threads: int,
) -> _Float: ...
def scores(
    X: _Float,
    X_index: _Index,
    Y: _Float,
    Y_index: _Index,
    v: _Float,
    v_index: _Index,
    lengths: _Index | None,
    length_index: _Index | None,
    threads: int,
) -> _Float: ...
def gradient(
    keys: _Float,
    key_index: _Index,
    lengths: _Index | None,
    length_index: _Index | None,
    *,
    scores: _Float | None = None,
    score_index: _Index | None = None,
    values: _Float | None = None,
    value_index: _Index | None = None,
    labels: _Float | None = None,
    label_index: _Index | None = None,
    p: _Doubles | None = None,
    p_index: _Index | None = None,
    queries: _Doubles | None = None,
    query_index: _Index | None = None,
    v: _Doubles | None = None,
    v_index: _Index | None = None,
    along: _Doubles | None = None,
    along_index: _Index | None = None,
    loss: int,
    with_p: bool = False,
    with_v: bool = False,
    extras: bool = False,
    threads: int,
) -> dict[str, _Doubles]: ...
def rows_times(A: _Doubles, B: _Doubles, transposed: bool) -> _Doubles: ...
def outer_mean(left: _Doubles, right: _Doubles, exponents: _Doubles, threads: int) -> dict[str, _Doubles]: ...
def nothing(a: object, b: object, c: object) -> None: ...

class Plan64:
    def __init__(
        self,
        keys: _Float,
        key_index: _Index,
        lengths: _Index | None,
        length_index: _Index | None,
        scores: _Float,
        score_index: _Index,
        values: _Float,
        value_index: _Index,
        labels: _Float,
        label_index: _Index,
        Z: _Doubles | None,
        with_p: bool,
        with_v: bool,
        with_W: bool,
        loss: int,
        threads: int,
    ) -> None: ...
    def run(self, p: object, v: object, W: object) -> None: ...
    def loss(self) -> _Float: ...
    def outputs(self) -> dict[str, dict[str, _Float]]: ...

class Plan32(Plan64): ...

def descend(
    *,
    keys: _Float,
    key_index: _Index,
    scores: _Float | None = None,
    score_index: _Index | None = None,
    values: _Float | None = None,
    value_index: _Index | None = None,
    labels: _Float | None = None,
    label_index: _Index | None = None,
    queries: _Float | None = None,
    query_index: _Index | None = None,
    loss: int,
    parameters: list[tuple[int, bool, _Float, float]],
    lr: _Float,
    schedule: npt.NDArray[np.float64] | None = None,
    rule: tuple[int, float, float, float, float],
    conditions: list[tuple[Any, ...]],
    clauses: list[list[int]],
    steps: int,
    record: _Index,
    lengths: _Index | None = None,
    length_index: _Index | None = None,
    threads: int,
    progress: Callable[[int], object] | None,
) -> dict[str, Any]: ...

_Indices = npt.NDArray[np.int64]

class MarginSettings:
    def __init__(
        self,
        start_dual: _Float | None = None,
        start_point: _Float | None = None,
        max_iter: int = -1,
        seconds: float = ...,
        threads: int = 1,
    ) -> None: ...

def att_svm(
    K: npt.NDArray[np.floating[Any]],
    block: _Indices,
    selected: _Indices,
    relaxed: npt.NDArray[np.bool_] | None,
    lengths: _Indices | None,
    settings: MarginSettings,
) -> dict[str, Any]: ...
def weight_svm(
    X: npt.NDArray[np.floating[Any]],
    block: _Indices,
    Z: _Float,
    Z_block: _Indices,
    selected: _Indices,
    lengths: _Indices | None,
    nuclear: bool,
    settings: MarginSettings,
) -> dict[str, Any]: ...
def label_svm(R: _Float, block: _Indices, Y: _Float, settings: MarginSettings) -> dict[str, Any]: ...
def min_norm(
    A: _Float,
    block: _Indices,
    b: _Float,
    E: _Float,
    E_block: _Indices,
    e: _Float,
    settings: MarginSettings,
) -> dict[str, Any]: ...
