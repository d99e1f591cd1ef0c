// Gram-Schmidt for span.hpp.
#include "fastmm/span.hpp"

#include "fastmm/dense.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fastmm {

void Span::reserve(std::int64_t count, std::int64_t d) {
    width_ = std::min(count, d);
    basis_.resize(static_cast<std::size_t>(width_ * d));
    coordinates_.resize(static_cast<std::size_t>(count * width_));
    rest_.resize(static_cast<std::size_t>(d));
}

void Span::build(const double* vectors, std::int64_t count, std::int64_t d) {
    rank_ = 0;
    std::fill_n(coordinates_.data(), count * width_, 0.0);
    for (std::int64_t i = 0; i < count; ++i) {
        double *rest = rest_.data(), *own = coordinates_.data() + i * width_;
        std::copy_n(vectors + i * d, d, rest);
        const double whole = std::sqrt(dense::dot(rest, rest, d));
        // what is left of a vector in the span of the others is rounding of about this size
        const double noise = 4 * std::numeric_limits<double>::epsilon() * static_cast<double>(rank_ + 2) * whole;
        double size = whole;
        for (int round = 0; round < 4; ++round) {
            const double before = size;
            for (std::int64_t k = 0; k < rank_; ++k) {
                const double* unit = basis_.data() + k * d;
                const double part = dense::dot(unit, rest, d);
                own[k] += part;
                for (std::int64_t j = 0; j < d; ++j) rest[j] -= part * unit[j];
            }
            size = std::sqrt(dense::dot(rest, rest, d));
            if (size <= noise || size > 0.7 * before) break; // nothing was lost, so what is left is orthogonal
        }
        if (!(size > noise) || rank_ == width_) continue;
        double* unit = basis_.data() + rank_ * d;
        for (std::int64_t j = 0; j < d; ++j) unit[j] = rest[j] / size;
        own[rank_++] = size;
    }
}

} // namespace fastmm
