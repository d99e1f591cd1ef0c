"""Entry of all programs to their solver: the compiled active set, or OSQP finished by it."""

from __future__ import annotations

from typing import Any

from fastmm.arrays import FloatArray
from fastmm.margin.program import Options, Program
from fastmm.margin.result import MaxMargin


def solve(program: Program, options: Options, start_dual: FloatArray | None = None) -> MaxMargin:
    """Solves a batch of programs and raises, if so asked, where an answer is missing.

    `start_dual` (count, rows) replaces the start of the options.
    """
    if options.solver == "osqp":
        from fastmm.margin import osqp_backend  # imports osqp, which takes longer than most solves

        raw: dict[str, Any] = osqp_backend.solve(program, options)
        solver = "osqp"
    else:
        raw, solver = program.solved(options, start_dual)
    if program.norm != 2:
        from fastmm.margin import power_norm

        power_norm.refine(program, raw, options)
        solver = "barrier"
    result = MaxMargin.from_raw(raw, program.batch, program.row_shape, program.point_shape, solver)
    result.remember(program)
    if options.throw:
        result.check(program.name, bool(raw["interrupted"]))
    return result
