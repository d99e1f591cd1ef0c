from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

_Float = npt.NDArray[np.floating[Any]]
_Index = npt.NDArray[np.int64]

def build_info() -> dict[str, Any]: ...
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
    scores: _Float,
    score_index: _Index,
    p: npt.NDArray[np.float64],
    p_index: _Index,
    loss: int,
    values: _Float | None,
    value_index: _Index | None,
    labels: _Float | None,
    label_index: _Index | None,
    lengths: _Index | None,
    length_index: _Index | None,
    threads: int,
) -> dict[str, npt.NDArray[np.float64]]: ...
def descend(
    keys: _Float,
    key_index: _Index,
    scores: _Float,
    score_index: _Index,
    p0: _Float,
    lr: _Float,
    loss: int,
    normalized: bool,
    steps: int,
    record: _Index,
    lengths: _Index | None,
    length_index: _Index | None,
    threads: int,
    progress: Callable[[int], None] | None,
) -> dict[str, Any]: ...

_Doubles = npt.NDArray[np.floating[Any]]  # float64, C order
_Indices = npt.NDArray[np.int64]

class MarginSettings:
    def __init__(
        self,
        start_dual: _Doubles | None = None,
        start_point: _Doubles | None = None,
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
    Z: _Doubles,
    Z_block: _Indices,
    selected: _Indices,
    lengths: _Indices | None,
    nuclear: bool,
    settings: MarginSettings,
) -> dict[str, Any]: ...
def label_svm(R: _Doubles, block: _Indices, Y: _Doubles, settings: MarginSettings) -> dict[str, Any]: ...
def min_norm(
    A: _Doubles,
    block: _Indices,
    b: _Doubles,
    E: _Doubles,
    E_block: _Indices,
    e: _Doubles,
    settings: MarginSettings,
) -> dict[str, Any]: ...
