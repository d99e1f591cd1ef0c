// Dot products of the tokens of one input with the query, the head, or both in one reading of the tokens.
//
// Rows are taken a vector of them at a time, and the lanes of their partial sums are added up for all of them together.
// The rows behind the last are repeats of it.
#pragma once

#include "row_access.hpp"

namespace fastmm::FASTMM_ISA {

// What to multiply with: vectors padded with zeros to whole vectors.
struct DotsOf {
    const double* p; // logits (x_t - x_0) p: softmax needs no more, and keys far from the origin keep their digits
    const double* v; // scores label * (x_t v), products and sums rounded one by one in the order of eight partial sums
    double label;
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

// The tokens from t on, one a lane. Returns the lanes where a result is not finite.
template <bool of_p, bool of_v, class R, class Ahead>
FASTMM_INLINE Int64s dots_block(const R* x, std::int64_t t, std::int64_t T, std::int64_t d, const DotsOf& with,
                                Ahead& ahead) {
    const R* row[row_width];
    for (int u = 0; u < row_width; ++u) row[u] = x + (t + u < T ? t + u : T - 1) * d;
    Doubles logits[row_width], scores[row_width][eighths];
    for (int u = 0; u < row_width; ++u) {
        logits[u] = splat(0.0);
        for (int q = 0; q < eighths; ++q) scores[u][q] = splat(0.0);
    }
    std::int64_t j = 0;
    for (; j + 8 <= d; j += 8) {
        ahead.rows(row_width);
#pragma GCC unroll 4
        for (int q = 0; q < eighths; ++q) {
            const std::int64_t at = j + q * row_width;
            const Doubles first = of_p ? read(x + at) : splat(0.0), p = of_p ? load<double>(with.p + at) : splat(0.0);
            const Doubles v = of_v ? load<double>(with.v + at) : splat(0.0);
#pragma GCC unroll 8
            for (int u = 0; u < row_width; ++u) {
                const Doubles own = read(row[u] + at);
                if (of_p) logits[u] = fma(own - first, p, logits[u]);
                if (of_v) scores[u][q] += own * v;
            }
        }
    }
    if (j < d) {
#pragma GCC unroll 4
        for (int q = 0; q < eighths; ++q) {
            const std::int64_t at = j + q * row_width;
            if (at >= d) break;
            const Doubles first = read_at(x, at, d);
            const Doubles p = of_p ? load<double>(with.p + at) : splat(0.0);
            const Doubles v = of_v ? load<double>(with.v + at) : splat(0.0);
#pragma GCC unroll 8
            for (int u = 0; u < row_width; ++u) {
                const Doubles own = read_at(row[u], at, d);
                if (of_p) logits[u] = fma(own - first, p, logits[u]);
                if (of_v) scores[u][q] += own * v;
            }
        }
    }
    const Doubles infinite = splat(__builtin_inf());
    Int64s broken = infinite != infinite;
    if (of_p) {
        const Doubles out = sums_of(logits);
        broken |= ~(absolute<double>(out) < infinite);
        const Int64s real = lane_numbers() < splat_integer(T - t);
        store<double>(with.logits + t, choose<double>(real, out, -infinite));
    }
    if (of_v) {
        Doubles whole[row_width];
        for (int u = 0; u < row_width; ++u) whole[u] = folded(scores[u]);
        const Doubles out = rounded<R>(splat(with.label) * sums_of(whole));
        broken |= ~(absolute<double>(out) < infinite);
        store<double>(with.scores + t, out);
    }
    return broken;
}

// All tokens of one input. Returns false when a result is not finite.
template <bool of_p, bool of_v, class R, class Ahead>
bool dots_of_rows(const R* x, std::int64_t T, std::int64_t d, const DotsOf& with, Ahead& ahead) {
    Int64s broken = splat(0.0) != splat(0.0);
    for (std::int64_t t = 0; t < T; t += row_width) broken |= dots_block<of_p, of_v>(x, t, T, d, with, ahead);
    return !any(broken);
}

// For readers that need no fetching ahead.
struct NothingAhead {
    void rows(int) {}
};

} // namespace fastmm::FASTMM_ISA
