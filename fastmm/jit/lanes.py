"""Vectors of 8 doubles for Numba, one instance a lane, and memory by address: what LLVM makes fast without fast-math.

Numba's arrays check for negative indices and count references, and its compiler does not vectorise short loops; here
a vector is a value of its own, and a number in memory is read by address. All functions but `load` take
vectors and plain doubles alike, with the same bits in each lane: a kernel rebound to `load_one` is the scalar form of
itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

WIDTH = 8

_DOUBLE, _WORD = ir.DoubleType(), ir.IntType(64)


class _Lanes(types.Type):
    def __init__(self) -> None:
        super().__init__(name=f"Lanes{WIDTH}")


_LANES = _Lanes()


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.VectorType(_DOUBLE, WIDTH))  # type: ignore[no-untyped-call]


def _primitive(count: int, result: Any, build: Callable[..., Any]) -> Any:
    """A Numba function of `count` arguments from a builder of LLVM code; `result` is a type, or None: the first's."""

    def resolve(arguments: tuple[Any, ...]) -> Any:
        def generate(_: Any, builder: Any, signature: Any, values: Any) -> Any:
            return build(builder, *values)

        return (arguments[0] if result is None else result)(*arguments), generate

    return intrinsic(_BY_COUNT[count](resolve))


_BY_COUNT: dict[int, Callable[..., Any]] = {  # Numba reads the names of the arguments
    1: lambda resolve: lambda context, a: resolve((a,)),
    2: lambda resolve: lambda context, a, b: resolve((a, b)),
    3: lambda resolve: lambda context, a, b, c: resolve((a, b, c)),
    4: lambda resolve: lambda context, a, b, c, d: resolve((a, b, c, d)),
}


def _place(builder: Any, address: Any, k: Any, kind: Any) -> Any:
    return builder.gep(builder.inttoptr(address, kind.as_pointer()), [k])


def _loads(kind: Any, result: Any) -> Any:
    return _primitive(2, result, lambda b, address, k: b.load(_place(b, address, k, kind), align=8))


def _store(builder: Any, address: Any, k: Any, value: Any) -> Any:
    builder.store(value, _place(builder, address, k, value.type), align=8)
    return ir.Constant(_WORD, 0)


def _same_shape(value: Any, kind: Any) -> Any:
    return ir.VectorType(kind, WIDTH) if isinstance(value.type, ir.VectorType) else kind


def _library(name: str, builder: Any, *values: Any) -> Any:
    kind = values[0].type
    suffix = f"v{WIDTH}f64" if isinstance(kind, ir.VectorType) else "f64"
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(kind, [kind] * len(values)), f"llvm.{name}.{suffix}"
    )
    return builder.call(function, values)


def _any(builder: Any, mask: Any) -> Any:
    if not isinstance(mask.type, ir.VectorType):
        return mask
    bits = builder.bitcast(mask, ir.IntType(WIDTH))
    return builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))


def _times_power(builder: Any, value: Any, shifted: Any) -> Any:
    words = _same_shape(value, _WORD)
    by = ir.Constant(words, [52] * WIDTH) if isinstance(words, ir.VectorType) else ir.Constant(words, 52)
    exponent = builder.shl(builder.bitcast(shifted, words), by)
    return builder.bitcast(builder.add(builder.bitcast(value, words), exponent), value.type)


def _like(builder: Any, shape: Any, value: Any) -> Any:
    if not isinstance(shape.type, ir.VectorType):
        return value
    out = ir.Constant(shape.type, ir.Undefined)
    for lane in range(WIDTH):
        out = builder.insert_element(out, value, ir.Constant(ir.IntType(32), lane))
    return out


# Memory: the k-th vector, number or integer behind an address.
load = _loads(ir.VectorType(_DOUBLE, WIDTH), _LANES)
load_one = number = _loads(_DOUBLE, types.float64)
integer = _loads(_WORD, types.int64)
store = _primitive(3, types.int64, _store)  # of whatever is given

# Arithmetic, lane by lane.
like = _primitive(2, None, _like)  # the number y in every lane, if x has lanes
add_mul = _primitive(3, None, lambda b, x, y, z: _library("fmuladd", b, y, z, x))  # x + y z, in one where that is fast
root = _primitive(1, None, lambda b, x: _library("sqrt", b, x))
size_of = _primitive(1, None, lambda b, x: _library("fabs", b, x))
times_power = _primitive(2, None, _times_power)  # x 2^k for k in the lowest bits of the second
where_greater = _primitive(4, None, lambda b, x, y, yes, no: b.select(b.fcmp_ordered(">", x, y), yes, no))
where_equal = _primitive(4, None, lambda b, x, y, yes, no: b.select(b.fcmp_ordered("==", x, y), yes, no))
any_greater = _primitive(2, types.boolean, lambda b, x, y: _any(b, b.fcmp_ordered(">", x, y)))
any_unequal = _primitive(2, types.boolean, lambda b, x, y: _any(b, b.fcmp_unordered("!=", x, y)))
any_not_less = _primitive(2, types.boolean, lambda b, x, y: _any(b, b.fcmp_unordered(">=", x, y)))

_OPERATORS = {
    operator.add: _primitive(2, None, lambda b, x, y: b.fadd(x, y)),
    operator.sub: _primitive(2, None, lambda b, x, y: b.fsub(x, y)),
    operator.mul: _primitive(2, None, lambda b, x, y: b.fmul(x, y)),
    operator.truediv: _primitive(2, None, lambda b, x, y: b.fdiv(x, y)),
}


def _give_operator(symbol: Any, primitive: Any) -> None:
    def resolve(x: Any, y: Any) -> Any:
        return (lambda x, y: primitive(x, y)) if isinstance(x, _Lanes) and isinstance(y, _Lanes) else None

    resolve.__annotations__ = {}  # Numba compares signatures
    overload(symbol)(resolve)


for _symbol, _of_lanes in _OPERATORS.items():
    _give_operator(_symbol, _of_lanes)
