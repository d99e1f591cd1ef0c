// The constraint rows of one program, a.w >= b and a.w = b, stored in blocks of eight for the kernels.
#pragma once

#include "fastmm/aligned.hpp"
#include "fastmm/margin_kernels.hpp"

#include <cstdint>

namespace fastmm {

class RowBlocks {
public:
    static constexpr std::int64_t lanes = 8;

    explicit RowBlocks(const MarginKernels& kernels) : kernels_(kernels) {}

    // Makes room for programs of up to `most` rows; later calls within it do not allocate.
    void reserve(std::int64_t most, std::int64_t d);

    // Begins a program. Its rows are then written through entry() and rhs(), the equalities first.
    void begin(std::int64_t equalities, std::int64_t inequalities);
    double* entry(std::int64_t row) {
        return rows_.data() + (row / lanes) * d_ * lanes + row % lanes;
    } // j at [j*lanes]
    double& rhs(std::int64_t row) { return rhs_[static_cast<std::size_t>(row)]; }

    // Ends it: norms, and powers of two where sizes are so far from 1 that products could leave the double range.
    void end();

    // A coordinate of w, a multiplier and an entry of a Farkas vector (of which only the direction counts), brought
    // back from the stored rows to those given.
    double given_point(double w) const;
    double given_multiplier(std::int64_t row, double multiplier) const;
    double given_weight(std::int64_t row, double y) const;

    // False when the powers of two were not exact: then nothing proved of the stored rows holds for the given ones.
    bool exact() const { return exact_; }

    void gather(std::int64_t row, double sign, double* out) const;

    std::int64_t count() const { return count_; }
    std::int64_t equalities() const { return equalities_; }
    std::int64_t width() const { return d_; }
    std::int64_t blocks() const { return (count_ + lanes - 1) / lanes; }
    const double* rows() const { return rows_.data(); }
    const double* rhs() const { return rhs_.data(); }
    const double* norm() const { return norm_.data(); }
    const double* inverse_norm() const { return inverse_.data(); } // 0 for a zero row
    const MarginKernels& kernels() const { return kernels_; }

private:
    void rescale();

    const MarginKernels& kernels_;
    std::int64_t d_ = 0, count_ = 0, equalities_ = 0;
    AlignedVector<double> rows_, rhs_, norm_, inverse_, largest_;
    std::vector<int> exponent_;
    int rhs_exponent_ = 0, least_exponent_ = 0;
    bool scaled_ = false, exact_ = true;
};

} // namespace fastmm
