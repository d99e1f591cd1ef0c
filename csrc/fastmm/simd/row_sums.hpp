// Weighted sums of the tokens of one input: for the query, for the head, or for both in one reading of the tokens.
#pragma once

#include "fetching.hpp"
#include "row_access.hpp"

namespace fastmm::FASTMM_ISA {

template <int width> struct Columns {
    static constexpr int value = width;
};

// of_p = sum_t p_t (x_t - base) and of_v = sum_t v_t x_t; sums have margins.
template <class R> struct SumsOf {
    const R* base;
    const double *p, *v; // weights of the tokens
    double *of_p, *of_v;
};

// `columns` vectors of the sums, from vector number `first` on. The first and the last may be parts, where columns may
// be anything, or else single ones.
template <bool with_p, bool with_v, int columns, class R>
__attribute__((noinline)) void add_columns(const R* x, std::int64_t T, std::int64_t d, int shift, const SumsOf<R>& to,
                                           std::int64_t first, const char* fetch) {
    const std::int64_t j = first * row_width - shift;
    const Part front = part_of(first, d, shift), back = part_of(first + columns - 1, d, shift);
    const auto read_own = [&](const R* row, int u) {
        if (u == 0) return read_part(row, front);
        return u == columns - 1 ? read_part(row + u * row_width, back) : read(row + u * row_width);
    };
    Doubles of_p[columns], of_v[columns], base[columns];
    const double *p = to.p, *v = to.v;
#pragma GCC unroll 9
    for (int u = 0; u < columns; ++u) {
        if (with_p) of_p[u] = splat(0.0);
        if (with_v) of_v[u] = splat(0.0);
        if (with_p) base[u] = read_own(to.base + j, u);
    }
    const R* row = x + j;
    for (std::int64_t t = 0; t < T; ++t, row += d) {
        const Doubles by_p = with_p ? splat(p[t]) : splat(0.0), by_v = with_v ? splat(v[t]) : splat(0.0);
        fetch = fetch_lines<columns / 2 * 2 * row_width * sizeof(R)>(fetch);
#pragma GCC unroll 9
        for (int u = 0; u < columns; ++u) {
            const Doubles own = read_own(row, u);
            if (with_p) of_p[u] = fma(by_p, own - base[u], of_p[u]);
            if (with_v) of_v[u] = fma(by_v, own, of_v[u]);
        }
    }
#pragma GCC unroll 9
    for (int u = 0; u < columns; ++u) {
        if (with_p) store<double>(to.of_p + j + u * row_width, of_p[u]);
        if (with_v) store<double>(to.of_v + j + u * row_width, of_v[u]);
    }
}

// All tokens of one input, while their share is fetched of what is read next.
template <bool with_p, bool with_v, class R>
void add_rows(const R* x, std::int64_t T, std::int64_t d, const SumsOf<R>& to, const R* fetch) {
    const int shift = shift_of(x, d);
    std::int64_t first = 0;
    const auto add = [&](auto columns) {
        constexpr int width = decltype(columns)::value;
        add_columns<with_p, with_v, width>(x, T, d, shift, to, first,
                                           reinterpret_cast<const char*>(fetch + T * first * row_width * 3 / 8));
        first += width;
    };
    const std::int64_t count = vectors_of(d, shift);
    if (register_bytes == 64) { // as many vectors of each sum in registers as fit beside those of the base
        while (first < count) {
            const std::int64_t left = count - first;
            if (left >= 9 && left % 8 == 1)
                add(Columns<9>{}); // eight that are shifted
            else if (left >= 8)
                add(Columns<8>{});
            else if (left >= 4)
                add(Columns<4>{});
            else if (left >= 2)
                add(Columns<2>{});
            else
                add(Columns<1>{});
        }
        return;
    }
    constexpr int most = with_p && with_v ? 2 : 4;
    while (first + most <= d / row_width) add(Columns<most>{});
    while (first < count) add(Columns<1>{});
}

} // namespace fastmm::FASTMM_ISA
