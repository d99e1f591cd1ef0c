"""PyTorch's CPU `randn` without PyTorch, so that the paper's seeded data can be rebuilt anywhere."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Float32Array = npt.NDArray[np.float32]


class TorchGenerator:
    """Stream of the normal numbers that ``torch.manual_seed(seed); torch.randn(...)`` gives on a CPU.

    Parameters
    ----------
    seed : int
        From 0 to ``2**32 - 1``.

    Notes
    -----
    The source of bits is the Mersenne twister MT19937 in its classical seeding. Torch turns them into normals in two
    ways. From 16 numbers on, it draws one 24-bit uniform a number and combines the two halves of each block of 16 by
    the Box-Muller transform; when 16 does not divide the size, the last 16 numbers are drawn again. Below 16 it
    spends two 53-bit uniforms on each pair and keeps the second of the pair for the next call. Torch evaluates the
    transform in single precision where this class uses double and rounds once: the two agree to 2e-6.

    Examples
    --------
    >>> from fastmm.paper.torch_random import TorchGenerator
    >>> TorchGenerator(0).randn(3)
    array([ 1.5409961, -0.2934289, -2.1787894], dtype=float32)
    """

    def __init__(self, seed: int) -> None:
        if not 0 <= seed < 2**32:
            raise ValueError(f"seed: got {seed}; allowed: 0..2**32 - 1")
        self._bits = np.random.RandomState(seed)
        self._kept: float | None = None

    def randn(self, *shape: int) -> Float32Array:
        """The next standard normal numbers.

        Parameters
        ----------
        *shape : int

        Returns
        -------
        ndarray of float32, shape `shape`
        """
        size = math.prod(shape)
        numbers = self._block_normals(size) if size >= 16 else np.array([self._normal() for _ in range(size)])
        return np.asarray(numbers, dtype=np.float32).reshape(shape)

    def _words(self, count: int) -> npt.NDArray[np.uint32]:
        return self._bits.randint(0, 2**32, size=count, dtype=np.uint32)

    def _uniforms(self, count: int) -> npt.NDArray[np.float64]:
        low = self._words(count) & np.uint32(2**24 - 1)
        return np.asarray(low * 2.0**-24, dtype=np.float64)

    def _block_normals(self, size: int) -> npt.NDArray[np.float64]:
        uniforms = self._uniforms(size)
        whole = size - size % 16
        numbers = np.empty(size)
        numbers[:whole] = _box_muller(uniforms[:whole])
        if whole < size:
            numbers[-16:] = _box_muller(self._uniforms(16))
        return numbers

    def _normal(self) -> float:
        if self._kept is not None:
            number, self._kept = self._kept, None
            return number
        angle, radius = 2 * math.pi * self._double(), math.sqrt(-2 * math.log1p(-self._double()))
        self._kept = radius * math.sin(angle)
        return radius * math.cos(angle)

    def _double(self) -> float:
        high, low = (int(word) for word in self._words(2))
        return ((high << 32 | low) & (2**53 - 1)) * 2.0**-53


def _box_muller(uniforms: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Normals from uniforms, 16 at a time: the first eight give the radius, the other eight the angle."""
    pairs = uniforms.reshape(-1, 2, 8)
    radius, angle = np.sqrt(-2 * np.log1p(-pairs[:, 0])), 2 * np.pi * pairs[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)
