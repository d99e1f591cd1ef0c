// The active rows of a program with their thin QR factorisation N = Q R, one column a row.
#pragma once

#include "fastmm/aligned.hpp"
#include "fastmm/margin_kernels.hpp"

#include <cstdint>

namespace fastmm {

class WorkingSet {
public:
    explicit WorkingSet(const MarginKernels& kernels) : kernels_(kernels) {}

    // Makes room for `capacity` columns of length d; later calls within it do not allocate.
    void reserve(std::int64_t capacity, std::int64_t d);
    void clear() { size_ = 0; }

    std::int64_t size() const { return size_; }
    std::int64_t capacity() const { return capacity_; }
    std::int64_t stride() const { return stride_; } // of all vectors of length d, zero behind d
    const double* columns() const { return n_.data(); }
    double* next() { return n_.data() + size_ * stride_; } // where a row that may be appended is written

    // Splits x into Q c + z with z orthogonal to Q (Gram-Schmidt, repeated where digits cancel); returns z.z.
    double project(const double* x, double* c, double* z) const;

    // Appends the row in next(), whose projection is c and z.
    void append(const double* c, const double* z, double zz);

    // Takes out column k. A projection (c, z) made before stays one; returns the new z.z.
    double remove(std::int64_t k, double* c, double* z, double zz);

    void solve(const double* c, double* out) const;            // R out = c
    void solve_transposed(const double* c, double* out) const; // R' out = c
    void combine(const double* c, double* out) const;          // out = Q c
    const double* orthonormal() const { return q_.data(); }

private:
    double* r(std::int64_t row, std::int64_t column) { return r_.data() + column * capacity_ + row; }
    const double* r(std::int64_t row, std::int64_t column) const { return r_.data() + column * capacity_ + row; }

    const MarginKernels& kernels_;
    std::int64_t size_ = 0, capacity_ = 0, stride_ = 0;
    AlignedVector<double> n_, q_, r_, inverse_, zero_; // inverse_: one over the diagonal of R
    mutable AlignedVector<double> again_;
};

} // namespace fastmm
