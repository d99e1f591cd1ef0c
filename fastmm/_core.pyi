from typing import Any

import numpy as np
import numpy.typing as npt

def build_info() -> dict[str, Any]: ...
def first_nonfinite(
    x: npt.NDArray[np.floating[Any]], T: int, d: int, lengths: npt.NDArray[np.int64] | None = None
) -> int: ...
