from typing import Any

import numpy as np
import numpy.typing as npt

def build_info() -> dict[str, Any]: ...
def first_nonfinite(
    x: npt.NDArray[np.floating[Any]], T: int, d: int, lengths: npt.NDArray[np.int64] | None = None
) -> int: ...

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
