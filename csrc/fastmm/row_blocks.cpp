// Storage and scaling of constraint rows; see row_blocks.hpp.
#include "fastmm/row_blocks.hpp"

#include <algorithm>
#include <cmath>

namespace fastmm {

void RowBlocks::reserve(std::int64_t most, std::int64_t d) {
    const auto padded = static_cast<std::size_t>((most + lanes - 1) / lanes * lanes);
    const auto entries = padded * static_cast<std::size_t>(d);
    d_ = d;
    if (rows_.size() < entries) rows_.resize(entries);
    if (rhs_.size() < padded) {
        rhs_.resize(padded);
        norm_.resize(padded);
        inverse_.resize(padded);
        largest_.resize(padded);
        exponent_.resize(padded);
    }
}

void RowBlocks::begin(std::int64_t equalities, std::int64_t inequalities) {
    equalities_ = equalities;
    count_ = equalities + inequalities;
    scaled_ = false;
    exact_ = true;
    for (std::int64_t row = count_; row < blocks() * lanes; ++row) { // the rest of the last block: rows 0.w >= 0
        double* x = entry(row);
        for (std::int64_t j = 0; j < d_; ++j) x[j * lanes] = 0;
        rhs(row) = 0;
    }
}

void RowBlocks::end() {
    kernels_.sizes(rows_.data(), blocks(), d_, largest_.data(), norm_.data(), inverse_.data());
    // within these bounds squares, multipliers and squared norms of w all stay far inside the double range
    constexpr double least = 0x1p-200, most = 0x1p200;
    bool inside = true;
    for (std::int64_t row = 0; row < count_; ++row) {
        const auto at = static_cast<std::size_t>(row);
        const double size = largest_[at], b = std::fabs(rhs_[at]);
        inside = inside && (size == 0 || (size >= least && size <= most)) && (b == 0 || (b >= least && b <= most));
    }
    if (!inside) rescale();
}

void RowBlocks::rescale() {
    scaled_ = true;
    least_exponent_ = 100000;
    int top = -100000; // binary exponent of the largest right-hand side of the scaled rows
    for (std::int64_t row = 0; row < count_; ++row) {
        const auto at = static_cast<std::size_t>(row);
        exponent_[at] = largest_[at] > 0 ? std::ilogb(largest_[at]) : 0;
        least_exponent_ = std::min(least_exponent_, exponent_[at]);
        if (rhs_[at] != 0) top = std::max(top, std::ilogb(rhs_[at]) - exponent_[at]);
    }
    rhs_exponent_ = top == -100000 ? 0 : top;
    for (std::int64_t row = 0; row < count_; ++row) {
        const auto at = static_cast<std::size_t>(row);
        double* x = entry(row);
        for (std::int64_t j = 0; j < d_; ++j) {
            const double before = x[j * lanes], after = std::ldexp(before, -exponent_[at]);
            exact_ = exact_ && std::ldexp(after, exponent_[at]) == before;
            x[j * lanes] = after;
        }
        const int shift = exponent_[at] + rhs_exponent_;
        const double before = rhs_[at], after = std::ldexp(before, -shift);
        exact_ = exact_ && std::ldexp(after, shift) == before;
        rhs_[at] = after;
    }
    kernels_.sizes(rows_.data(), blocks(), d_, largest_.data(), norm_.data(), inverse_.data());
}

double RowBlocks::given_point(double w) const { return scaled_ ? std::ldexp(w, rhs_exponent_) : w; }

double RowBlocks::given_multiplier(std::int64_t row, double multiplier) const {
    return scaled_ ? std::ldexp(multiplier, rhs_exponent_ - exponent_[static_cast<std::size_t>(row)]) : multiplier;
}

double RowBlocks::given_weight(std::int64_t row, double y) const {
    return scaled_ ? std::ldexp(y, least_exponent_ - exponent_[static_cast<std::size_t>(row)]) : y;
}

void RowBlocks::gather(std::int64_t row, double sign, double* out) const {
    const double* x = rows_.data() + (row / lanes) * d_ * lanes + row % lanes;
    for (std::int64_t j = 0; j < d_; ++j) out[j] = sign * x[j * lanes];
}

} // namespace fastmm
