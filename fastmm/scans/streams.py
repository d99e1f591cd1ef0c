"""Streams: the random numbers of each trial, which depend on the seed, the cell and the trial and on nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


def cell_key(seed: int, identity: str) -> tuple[int, int]:
    """The Philox key of a grid cell: NumPy's SeedSequence of the seed, spawned by a hash of what the cell is.

    The identity is the text of the cell's settings, not its place in the grid: more values and more axes leave the
    streams of the old cells as they are.
    """
    words = np.frombuffer(hashlib.sha256(identity.encode()).digest(), dtype="<u4")
    sequence = np.random.SeedSequence(seed, spawn_key=tuple(int(word) for word in words))
    low, high = sequence.generate_state(2, np.uint64)
    return int(low), int(high)


@dataclass(frozen=True)
class Streams:
    """The streams of the trials ``first, first + 1, ..., first + count - 1`` of one cell.

    All trials of a cell share one Philox key; the trial is the third word of the 256-bit counter, so that each has
    2**128 blocks of its own. Results therefore cannot depend on chunks, order, threads, processes or cluster, and more
    trials keep the old ones.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmm.scans.streams import Streams, cell_key
    >>> key = cell_key(7, "d=3")
    >>> whole, part = Streams(key, 0, 5).normals(4), Streams(key, 3, 2).normals(4)
    >>> np.array_equal(whole[3:], part)
    True
    """

    key: tuple[int, int]
    first: int
    count: int

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[np.random.Generator]:
        """A new generator for each trial."""
        key = np.array(self.key, np.uint64)
        for trial in range(self.first, self.first + self.count):
            yield np.random.Generator(np.random.Philox(key=key, counter=[0, 0, trial, 0]))

    def normals(self, width: int) -> npt.NDArray[np.float64]:
        """The first `width` standard normal numbers of each stream, shape (count, width).

        The same numbers as from ``[rng.standard_normal(width) for rng in streams]`` at a fraction of the overhead: one
        generator is set back to the start of each stream.
        """
        bits = np.random.Philox(key=np.array(self.key, np.uint64))
        state = bits.state
        counter = state["state"]["counter"]
        draw = np.random.Generator(bits).standard_normal
        out = np.empty((self.count, width))
        for trial, row in enumerate(out, self.first):
            counter[2] = trial
            bits.state = state
            draw(out=row)
        return out
