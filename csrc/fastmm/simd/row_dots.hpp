// Dot products of the tokens of one input with the query, the head, or both in one reading of the tokens.
//
// Rows are taken a vector of them at a time, and the lanes of their partial sums are added up for all of them together.
// The rows behind the last are repeats of it.
#pragma once

#include "fetching.hpp"
#include "row_access.hpp"

namespace fastmm::FASTMM_ISA {

// What to multiply with: vectors padded with zeros to whole vectors, and with margins of zeros before and behind where
// it says so.
struct DotsOf {
    const double* p; // logits (x_t - x_0) p: softmax needs no more, and keys far from the origin keep their digits
    const double* v; // scores label * (x_t v), products and sums rounded one by one in the order of eight partial sums
    double label;
    bool margins;
    double *logits, *scores; // out, room for whole vectors; logits of the lanes behind the last token are -inf
};

// Eight partial sums, whatever the width of a vector: scores have the same bits with every instruction set.
inline constexpr int eighths = 8 / row_width;

inline Doubles folded(const Doubles (&parts)[eighths]) {
    Doubles out[eighths];
    for (int q = 0; q < eighths; ++q) out[q] = parts[q];
    for (int half = eighths / 2; half > 0; half /= 2)
        for (int q = 0; q < half; ++q) out[q] += out[q + half];
    return out[0];
}

// One vector of each of the rows, taken into their sums.
template <bool of_p, bool of_v, class R> struct Sums {
    Doubles logits[row_width], scores[row_width][eighths];

    FASTMM_INLINE void clear() {
#pragma GCC unroll 8 // not a call to memset
        for (int u = 0; u < row_width; ++u) {
            if (of_p) logits[u] = splat(0.0);
#pragma GCC unroll 4
            for (int q = 0; q < eighths; ++q)
                if (of_v) scores[u][q] = splat(0.0);
        }
    }

    // `all` reads whole vectors, the others part of them.
    template <bool all> FASTMM_INLINE void take(const R* x, const R* const (&row)[row_width], const double* p,
                                                const double* v, std::int64_t at, Part part, int q) {
        const auto read_own = [&](const R* from) { return all ? read(from) : read_part(from, part); };
        const Doubles first = of_p ? read_own(x + at) : splat(0.0), by_p = of_p ? load<double>(p + at) : splat(0.0);
        const Doubles by_v = of_v ? load<double>(v + at) : splat(0.0);
#pragma GCC unroll 8
        for (int u = 0; u < row_width; ++u) {
            const Doubles own = read_own(row[u] + at);
            if (of_p) logits[u] = fma(own - first, by_p, logits[u]);
            if (of_v) scores[u][q] += own * by_v;
        }
    }
};

// All tokens of one input, while their share is fetched of what is read next. Returns false when a result is not
// finite. (A function of its own, so that rows and sums stay in registers.)
template <bool of_p, bool of_v, class R> __attribute__((noinline)) bool
dots_of_rows(const R* x, std::int64_t T, std::int64_t d, const DotsOf& with, const R* fetch_from) {
    const int shift = with.margins ? shift_of(x, d) : 0;
    const char* fetch = reinterpret_cast<const char*>(fetch_from);
    const double *p = of_p ? with.p - shift : nullptr, *v = of_v ? with.v - shift : nullptr;
    const std::int64_t whole = (d + shift) / 8 * 8, count = vectors_of(d, shift);
    const Doubles none = splat(-__builtin_inf()), zero = splat(0.0);
    x -= shift;
    Doubles broken = zero; // becomes NaN
    for (std::int64_t t = 0; t < T; t += row_width) {
        const R* row[row_width] = {x + t * d}; // one from the other: worked out in vectors they would take longer
#pragma GCC unroll 8
        for (int u = 1; u < row_width; ++u) {
            row[u] = row[u - 1] + (t + u < T ? d : 0);
            asm("" : "+r"(row[u]));
        }
        Sums<of_p, of_v, R> sums;
        sums.clear();
        std::int64_t j = 0;
        if (shift != 0) {
            fetch = fetch_lines<row_width * 8 * sizeof(R)>(fetch);
            sums.template take<false>(x, row, p, v, 0, part_of(0, d, shift), 0);
            j = row_width;
        }
        for (; j < whole; j += 8) {
            fetch = fetch_lines<row_width * 8 * sizeof(R)>(fetch);
#pragma GCC unroll 4
            for (int q = 0; q < eighths; ++q) sums.template take<true>(x, row, p, v, j + q * row_width, 0, q);
        }
        if (j < d + shift) {
#pragma GCC unroll 4
            for (int q = 0; q < eighths; ++q) {
                const std::int64_t vector = j / row_width + q;
                if (vector < count)
                    sums.template take<false>(x, row, p, v, vector * row_width, part_of(vector, d, shift), q);
            }
        }
        if (of_p) {
            const Doubles out = sums_of(sums.logits);
            broken = fma(out, zero, broken);
            store<double>(with.logits + t, out);
            if (T - t < row_width) {
                const Int64s real = lane_numbers() < splat_integer(T - t);
                store<double>(with.logits + t, choose<double>(real, out, none));
            }
        }
        if (of_v) {
            Doubles all[row_width];
            for (int u = 0; u < row_width; ++u) all[u] = folded(sums.scores[u]);
            const Doubles out = rounded<R>(splat(with.label) * sums_of(all));
            broken = fma(out, zero, broken);
            store<double>(with.scores + t, out);
        }
    }
    return !any(broken != zero);
}

} // namespace fastmm::FASTMM_ISA
