// Means of outer products, in chunks of inputs; see query_gradient.hpp.
#include "fastmm/query_gradient.hpp"

#include "fastmm/parallel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fastmm {

namespace {

double largest_size(const double* x, std::int64_t count) {
    double out = 0.0;
    for (std::int64_t j = 0; j < count; ++j)
        if (!(std::fabs(x[j]) <= out)) out = std::fabs(x[j]); // NaN stays
    return out;
}

} // namespace

void rows_times(const double* A, std::int64_t n, std::int64_t a, const double* B, std::int64_t b, double* out) {
    std::fill(out, out + n * b, 0.0);
    for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = 0; k < a; ++k) {
            const double factor = A[i * a + k];
            for (std::int64_t j = 0; j < b; ++j) out[i * b + j] += factor * B[k * b + j];
        }
}

void rows_times_transposed(const double* A, std::int64_t n, std::int64_t a, const double* B, std::int64_t b,
                           double* out) {
    for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < b; ++j) {
            double total = 0.0;
            for (std::int64_t k = 0; k < a; ++k) total += A[i * a + k] * B[j * a + k];
            out[i * b + j] = total;
        }
}

// Chunks by the shape alone, and few, because each has a matrix of its own.
OuterMean::OuterMean(std::int64_t n, std::int64_t a, std::int64_t b)
    : n_(n), a_(a), b_(b), inputs_(std::max<std::int64_t>(64, (n + 31) / 32)), chunks_((n + inputs_ - 1) / inputs_),
      parts_(static_cast<std::size_t>(chunks_ * a * b)), scale_(static_cast<std::size_t>(chunks_)) {}

void OuterMean::chunk(std::int64_t c, const double* left, const double* right, const double* exponents) {
    const std::int64_t from = c * inputs_, to = std::min(n_, from + inputs_);
    double* part = parts_.data() + c * a_ * b_;
    std::fill(part, part + a_ * b_, 0.0);
    // the size of a product counts as well: one that is zero must not hide the others
    double common = -std::numeric_limits<double>::infinity();
    for (std::int64_t i = from; i < to; ++i) {
        const double size =
            exponents[i] + std::log(largest_size(left + i * a_, a_)) + std::log(largest_size(right + i * b_, b_));
        if (std::isnan(size) || size > common) common = size;
    }
    scale_[static_cast<std::size_t>(c)] = common;
    if (!(common > -std::numeric_limits<double>::infinity())) return;
    for (std::int64_t i = from; i < to; ++i) {
        const double factor = std::exp((exponents[i] - common) / 2); // each half is a double where the product is
        if (factor == 0.0) continue;
        for (std::int64_t k = 0; k < a_; ++k) {
            const double own = factor * left[i * a_ + k] * factor;
            if (own == 0.0) continue;
            for (std::int64_t j = 0; j < b_; ++j) part[k * b_ + j] += own * right[i * b_ + j];
        }
    }
}

void OuterMean::operator()(const double* left, const double* right, const double* exponents, Factored& out,
                           int threads) {
    const std::int64_t work = n_ * a_ * b_;
    const int useful = static_cast<int>(std::min<std::int64_t>(threads, 1 + work / (1 << 20)));
    if (useful <= 1) {
        for (std::int64_t c = 0; c < chunks_; ++c) chunk(c, left, right, exponents);
    } else {
        parallel_for(chunks_, useful, nullptr, [&](std::int64_t c, int, Pulse&) { chunk(c, left, right, exponents); });
    }
    combine(parts_.data(), a_ * b_, scale_.data(), chunks_, a_ * b_, n_, out);
}

} // namespace fastmm
