// Softmax and its logarithm of one row, right to a few units in the last place over the whole double range.
#include "exponential.hpp"
#include "rows.hpp"

#include <cmath>

namespace fastmm::FASTMM_ISA {

bool softmax_row(const double* logits, std::int64_t T, bool logarithm, double* out, double* workspace) {
    const double infinity = __builtin_inf();
    std::int64_t top = 0;
    for (std::int64_t t = 0; t < T; ++t) {
        if (!(logits[t] < infinity)) return false;
        if (logits[t] > logits[top]) top = t;
    }
    const double highest = logits[top];
    if (highest == -infinity) { // nothing but masks
        for (std::int64_t t = 0; t < T; ++t) out[t] = logarithm ? -infinity : 0.0;
        return true;
    }

    // A difference of 700 has lost ten bits that matter: gap + lost is the difference exactly (two-sum).
    constexpr int width = Lanes<double>::width;
    double* gaps = workspace;
    double* lost = workspace + padded(T);
    for (std::int64_t t = 0; t < padded(T); ++t) {
        const double x = t < T && t != top ? logits[t] : -infinity;
        const double gap = x - highest, part = gap - x;
        const double rest = (x - (gap - part)) - (highest + part);
        gaps[t] = gap;
        lost[t] = gap == -infinity ? 0.0 : rest;
    }

    // the sum without the top, compensated so that long rows lose nothing
    Doubles sums = splat(0.0), errors = splat(0.0);
    for (std::int64_t t = 0; t < T; t += width) {
        const Doubles power = exp_full(load<double>(gaps + t));
        const Doubles e = fma(power, load<double>(lost + t), power);
        const Doubles next = sums + e, part = next - sums;
        errors += (sums - (next - part)) + (e - part);
        sums = next;
        if (!logarithm) store<double>(gaps + t, e);
    }
    const double rest = sum(sums) + sum(errors);
    if (logarithm) {
        const double shift = ::log1p(rest);
        for (std::int64_t t = 0; t < T; ++t) out[t] = t == top ? 0.0 - shift : (gaps[t] - shift) + lost[t];
    } else {
        const double total = 1.0 + rest;
        for (std::int64_t t = 0; t < T; ++t) out[t] = t == top ? 1.0 / total : gaps[t] / total;
    }
    return true;
}

} // namespace fastmm::FASTMM_ISA
