// Weighted sums of the tokens of one input: for the query, for the head, or for both in one reading of the tokens.
#pragma once

#include "row_access.hpp"

namespace fastmm::FASTMM_ISA {

// of_p += sum_t p_t (x_t - base) and of_v += sum_t v_t x_t; sums are padded to whole vectors.
template <class R> struct SumsOf {
    const R* base;
    const double *p, *v; // weights of the tokens
    double *of_p, *of_v;
};

namespace sums {

template <bool with_p, bool with_v, int columns, class R, class Ahead> FASTMM_INLINE void
add_columns(const R* x, std::int64_t T, std::int64_t d, const SumsOf<R>& to, std::int64_t j, Ahead& ahead) {
    Doubles of_p[columns], of_v[columns], base[columns];
    for (int u = 0; u < columns; ++u) {
        of_p[u] = with_p ? load<double>(to.of_p + j + u * row_width) : splat(0.0);
        of_v[u] = with_v ? load<double>(to.of_v + j + u * row_width) : splat(0.0);
        base[u] = with_p ? read_at(to.base, j + u * row_width, d) : splat(0.0);
    }
    const bool whole = j + columns * row_width <= d;
    for (std::int64_t t = 0; t < T; ++t) {
        const Doubles p = with_p ? splat(to.p[t]) : splat(0.0), v = with_v ? splat(to.v[t]) : splat(0.0);
        const R* row = x + t * d;
        ahead.vectors(columns);
#pragma GCC unroll 8
        for (int u = 0; u < columns; ++u) {
            const std::int64_t at = j + u * row_width;
            const Doubles own = columns > 1 || whole ? read(row + at) : read_at(row, at, d);
            if (with_p) of_p[u] = fma(p, own - base[u], of_p[u]);
            if (with_v) of_v[u] = fma(v, own, of_v[u]);
        }
    }
    for (int u = 0; u < columns; ++u) {
        if (with_p) store<double>(to.of_p + j + u * row_width, of_p[u]);
        if (with_v) store<double>(to.of_v + j + u * row_width, of_v[u]);
    }
}

} // namespace sums

template <bool with_p, bool with_v, class R, class Ahead>
void add_rows(const R* x, std::int64_t T, std::int64_t d, const SumsOf<R>& to, Ahead& ahead) {
    // vectors of each sum in registers, beside as many of the base
    constexpr int most = register_bytes == 64 ? 8 : with_p && with_v ? 2 : 4;
    std::int64_t j = 0;
    for (; j + most * row_width <= d; j += most * row_width)
        sums::add_columns<with_p, with_v, most>(x, T, d, to, j, ahead);
    for (; j < d; j += row_width) sums::add_columns<with_p, with_v, 1>(x, T, d, to, j, ahead);
}

} // namespace fastmm::FASTMM_ISA
