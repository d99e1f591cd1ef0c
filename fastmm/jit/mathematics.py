"""Mathematics of the Numba kernels, for vector lanes and single doubles: the exponential and the built-in losses."""

from __future__ import annotations

from typing import Any

from fastmm.jit.compiling import part
from fastmm.jit.lanes import add_mul, like, size_of, times_power, where_greater

_LOG2E = 1.4426950408889634
_MAGIC = 6755399441055744.0  # 1.5 * 2**52: a number added to it is rounded, and its integer stands in the lowest bits
_LN2_HIGH = -0.6931471803691238  # 33 bits, so that its products with exponents are exact
_LN2_LOW = -1.9082149292705877e-10
_MOST = 138.0


@part
def exp_cut(x: Any) -> Any:
    """exp(x) to about 1 ulp for x <= 700, exactly 0 below -700, NaN for NaN.

    ``x = k ln 2 + r``; on ``|r| <= ln(2)/2`` the Taylor series to the power 13 leaves a relative error of 4e-18.
    """
    shifted = add_mul(like(x, _MAGIC), x, like(x, _LOG2E))
    k = shifted - like(x, _MAGIC)
    r = add_mul(add_mul(x, k, like(x, _LN2_HIGH)), k, like(x, _LN2_LOW))
    r2 = r * r
    r4 = r2 * r2
    a = add_mul(add_mul(like(x, 1 / 2), r, like(x, 1 / 6)), r2, add_mul(like(x, 1 / 24), r, like(x, 1 / 120)))
    b = add_mul(
        add_mul(like(x, 1 / 720), r, like(x, 1 / 5040)), r2, add_mul(like(x, 1 / 40320), r, like(x, 1 / 362880))
    )
    c = add_mul(
        add_mul(like(x, 1 / 3628800), r, like(x, 1 / 39916800)),
        r2,
        add_mul(like(x, 1 / 479001600), r, like(x, 1 / 6227020800)),
    )
    power = like(x, 1.0) + add_mul(r, r2, add_mul(a, r4, add_mul(b, r4, c)))
    return where_greater(like(x, -700.0), x, like(x, 0.0), times_power(power, shifted))


@part
def slope_parts(loss: int, z: Any) -> tuple[Any, Any]:
    """Minus the slope of a built-in loss as ``size * exp(exponent)``; the exponent is 0 unless the slope is extreme.

    Sizes lie between e^-138 and e^138, which leaves room for exponents that differ by hundreds between the inputs.
    """
    most, one, none = like(z, _MOST), like(z, 1.0), like(z, 0.0)
    if loss == 0:  # logistic: 1 / (1 + e^z)
        exponent = where_greater(z, most, none - z, none)
        size = one / (one + exp_cut(where_greater(z, most, none - most, z)))
        return where_greater(z, most, one, size), exponent
    if loss == 1:  # exponential: e^-z
        exponent = where_greater(size_of(z), most, none - z, none)
        return exp_cut(where_greater(size_of(z), most, none, none - z)), exponent
    return one, none  # correlation
