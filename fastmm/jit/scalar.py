"""The kernels for problems that run one at a time: those of `fastmm.jit.loop`, in single numbers instead of lanes."""

from __future__ import annotations

from fastmm.jit.twins import twin

run_stretch = twin(1, {}).run_stretch
