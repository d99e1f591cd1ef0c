// Sums of parts with exponents; see factored.hpp.
#include "fastmm/factored.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fastmm {

void combine(const double* parts, std::int64_t stride, const double* scale, std::int64_t count, std::int64_t d,
             std::int64_t n, Factored& out) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    double common = -infinity;
    for (std::int64_t c = 0; c < count; ++c)
        if (std::isnan(scale[c]) || scale[c] > common) common = scale[c]; // NaN stays: no number is larger than it
    std::fill(out.unit, out.unit + d, 0.0);
    if (out.natural != nullptr) std::fill(out.natural, out.natural + d, 0.0);
    out.log_norm = -infinity;
    if (common == -infinity) return;
    if (std::isnan(common)) {
        out.log_norm = common;
        return;
    }
    for (std::int64_t c = 0; c < count; ++c) {
        if (scale[c] == -infinity) continue;
        const double factor = std::exp(scale[c] - common);
        for (std::int64_t j = 0; j < d; ++j) out.unit[j] += factor * parts[c * stride + j];
    }
    double largest = 0.0;
    for (std::int64_t j = 0; j < d; ++j)
        if (!(std::fabs(out.unit[j]) <= largest)) largest = std::fabs(out.unit[j]); // NaN stays
    if (largest == 0.0) return;
    if (out.natural != nullptr) { // e^common may lie outside the doubles where the product does not
        const double half = std::exp(common / 2);
        for (std::int64_t j = 0; j < d; ++j)
            if (out.unit[j] != 0.0) out.natural[j] = -(half * (out.unit[j] / static_cast<double>(n))) * half;
    }
    double square = 0.0;
    for (std::int64_t j = 0; j < d; ++j) {
        out.unit[j] /= largest;
        square += out.unit[j] * out.unit[j];
    }
    const double norm = std::sqrt(square);
    for (std::int64_t j = 0; j < d; ++j) out.unit[j] /= norm;
    out.log_norm = common + std::log(largest) + std::log(norm) - std::log(static_cast<double>(n));
}

} // namespace fastmm
