// Exponential of vector lanes: x = n ln 2 + r, a polynomial in r fitted by the Remez exchange, then 2^n into the
// exponent.
#pragma once

#include "lanes.hpp"

namespace fastmm::FASTMM_ISA {

struct DoubleExp {
    static constexpr double log2e = 1.4426950408889634, magic = 6755399441055744.0; // 1.5 * 2^52
    static constexpr double ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33;
    static constexpr double cut = -700.0; // exp_cut is 0 below: no subnormal ever enters a sum
    static constexpr int mantissa = 52;
    // (exp(r) - 1 - r) / r^2 on |r| <= ln(2)/2, relative error of exp 2.7e-17
    static constexpr double c[10] = {0.50000000000000012001,     0.16666666666665992583,   0.041666666666624983569,
                                     0.0083333333339004663013,   0.0013888888917097367556, 0.00019841268392668086302,
                                     0.000024801520361115399319, 2.7558722841885009458e-6, 2.7620932303581392661e-7,
                                     2.4611979979343570018e-8};
};

struct FloatExp {
    static constexpr float log2e = 1.44269504f, magic = 12582912.0f; // 1.5 * 2^23
    static constexpr float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
    static constexpr float cut = -80.0f;
    static constexpr int mantissa = 23;
    // relative error of exp 3.1e-9
    static constexpr float c[5] = {0.499999934322f, 0.166665203991f, 0.0416683907697f, 0.00836874510461f,
                                   0.00138145410565f};
};

template <class R> struct ExpConstants;
template <> struct ExpConstants<double> : DoubleExp {};
template <> struct ExpConstants<float> : FloatExp {};

inline Doubles exp_polynomial(Doubles r) {
    const auto& c = DoubleExp::c;
    const auto at = [&c](int k, Doubles x) { return fma(splat(c[k + 1]), x, splat(c[k])); };
    const Doubles r2 = r * r, r4 = r2 * r2;
    const Doubles low = fma(at(2, r), r2, at(0, r)), middle = fma(at(6, r), r2, at(4, r));
    const Doubles q = fma(fma(at(8, r), r4, middle), r4, low);
    return splat(1.0) + fma(q, r2, r);
}

inline Floats exp_polynomial(Floats r) {
    const auto& c = FloatExp::c;
    const Floats r2 = r * r;
    const Floats low = fma(splat(c[1]), r, splat(c[0])), high = fma(splat(c[3]), r, splat(c[2]));
    const Floats q = fma(fma(splat(c[4]), r2, high), r2, low);
    return splat(1.0f) + fma(q, r2, r);
}

// n of x = n ln 2 + r as the low bits of a float, and exp(r).
template <class R> struct Reduced {
    Vec<R> shifted; // n + magic: the integer n stands in the lowest bits
    Vec<R> fraction;
};

template <class R> inline Reduced<R> reduce(Vec<R> x) {
    using C = ExpConstants<R>;
    const Vec<R> shifted = fma(x, splat(C::log2e), splat(C::magic));
    const Vec<R> n = shifted - splat(C::magic);
    const Vec<R> r = fma(n, splat(-C::ln2_low), fma(n, splat(-C::ln2_high), x));
    return {shifted, exp_polynomial(r)};
}

// exp(x) for x <= 700 (80 for floats); exactly 0 below -700 (-80), so that neither a sum nor its terms are subnormal.
// NaN gives NaN.
template <class R> inline Vec<R> exp_cut(Vec<R> x) {
    using C = ExpConstants<R>;
    const auto part = reduce<R>(x);
    const auto bits = (Words<R>)part.fraction + ((Words<R>)part.shifted << C::mantissa);
    return zero_where<R>(x < splat(C::cut), (Vec<R>)bits);
}

// exp(x) for any x <= 0, gradual underflow included.
inline Doubles exp_full(Doubles x) {
    using C = DoubleExp;
    x = larger(x, splat(-800.0));
    const auto part = reduce<double>(x);
    constexpr std::int64_t magic_bits = 0x4338000000000000; // of C::magic, whose low bits are 0
    const Int64s n = (Int64s)part.shifted - magic_bits;
    const Int64s half = n >> 1, rest = n - half;
    const auto power = [](Int64s e) { return (Doubles)((e + 1023) << C::mantissa); };
    return part.fraction * power(half) * power(rest);
}

} // namespace fastmm::FASTMM_ISA
