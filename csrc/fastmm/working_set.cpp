// Thin QR with Gram-Schmidt updates and Givens downdates; see working_set.hpp.
#include "fastmm/working_set.hpp"

#include <algorithm>
#include <cmath>

namespace fastmm {

namespace {

template <class Vector> void grow(Vector& vector, std::int64_t size) {
    if (static_cast<std::int64_t>(vector.size()) < size) vector.resize(static_cast<std::size_t>(size));
}

} // namespace

void WorkingSet::reserve(std::int64_t capacity, std::int64_t d) {
    stride_ = (d + 7) / 8 * 8;
    capacity_ = capacity;
    size_ = 0;
    grow(n_, (capacity + 1) * stride_);
    grow(q_, capacity * stride_);
    grow(r_, capacity * capacity);
    grow(inverse_, capacity);
    grow(again_, capacity);
    grow(zero_, stride_);
    std::fill(n_.begin(), n_.end(), 0.0);
    std::fill(q_.begin(), q_.end(), 0.0);
}

double WorkingSet::project(const double* x, double* c, double* z) const {
    if (size_ == 0) {
        double zz = kernels_.subtract(q_.data(), 0, stride_, c, x, z);
        return zz;
    }
    kernels_.dots(q_.data(), size_, stride_, x, c);
    double zz = kernels_.subtract(q_.data(), size_, stride_, c, x, z);
    double whole = zz;
    for (std::int64_t k = 0; k < size_; ++k) whole += c[k] * c[k];
    // twice is enough (Giraud, Langou, Rozloznik 2005); once is enough while no digit has cancelled
    if (zz < 0.01 * whole) {
        kernels_.dots(q_.data(), size_, stride_, z, again_.data());
        zz = kernels_.subtract(q_.data(), size_, stride_, again_.data(), z, z);
        for (std::int64_t k = 0; k < size_; ++k) c[k] += again_[static_cast<std::size_t>(k)];
    }
    return zz;
}

void WorkingSet::append(const double* c, const double* z, double zz) {
    const double length = std::sqrt(zz), inverse = 1 / length;
    double* column = r(0, size_);
    for (std::int64_t k = 0; k < size_; ++k) column[k] = c[k];
    column[size_] = length;
    inverse_[static_cast<std::size_t>(size_)] = inverse;
    double* unit = q_.data() + size_ * stride_;
    for (std::int64_t j = 0; j < stride_; ++j) unit[j] = z[j] * inverse;
    ++size_;
}

double WorkingSet::remove(std::int64_t k, double* c, double* z, double zz) {
    const std::int64_t last = size_ - 1;
    // the pending row stands in next(), one column behind the others
    std::copy(n_.data() + (k + 1) * stride_, n_.data() + (size_ + 1) * stride_, n_.data() + k * stride_);
    for (std::int64_t column = k; column < last; ++column)
        std::copy(r(0, column + 1), r(column + 2, column + 1), r(0, column));
    for (std::int64_t row = k; row < last; ++row) { // clear the subdiagonal
        const double a = *r(row, row), b = *r(row + 1, row);
        const double length = std::sqrt(a * a + b * b), cosine = a / length, sine = b / length;
        *r(row, row) = length;
        inverse_[static_cast<std::size_t>(row)] = 1 / length;
        for (std::int64_t column = row + 1; column < last; ++column) {
            double &x = *r(row, column), &y = *r(row + 1, column);
            const double above = cosine * x + sine * y;
            y = cosine * y - sine * x;
            x = above;
        }
        kernels_.rotate(q_.data() + row * stride_, q_.data() + (row + 1) * stride_, stride_, cosine, sine);
        const double above = cosine * c[row] + sine * c[row + 1];
        c[row + 1] = cosine * c[row + 1] - sine * c[row];
        c[row] = above;
    }
    size_ = last;
    const double* freed = q_.data() + last * stride_;
    for (std::int64_t j = 0; j < stride_; ++j) z[j] += c[last] * freed[j];
    return zz + c[last] * c[last];
}

void WorkingSet::solve(const double* c, double* out) const {
    std::copy(c, c + size_, out);
    for (std::int64_t k = size_ - 1; k >= 0; --k) {
        const double value = out[k] * inverse_[static_cast<std::size_t>(k)];
        const double* column = r(0, k);
        out[k] = value;
        for (std::int64_t row = 0; row < k; ++row) out[row] -= value * column[row];
    }
}

void WorkingSet::solve_transposed(const double* c, double* out) const {
    for (std::int64_t k = 0; k < size_; ++k) {
        const double* column = r(0, k);
        double value = c[k];
        for (std::int64_t row = 0; row < k; ++row) value -= column[row] * out[row];
        out[k] = value * inverse_[static_cast<std::size_t>(k)];
    }
}

void WorkingSet::combine(const double* c, double* out) const {
    // subtract() from zero with the signs turned by the caller would need a copy of c
    std::fill(out, out + stride_, 0.0);
    for (std::int64_t k = 0; k < size_; ++k) {
        const double* unit = q_.data() + k * stride_;
        for (std::int64_t j = 0; j < stride_; ++j) out[j] += c[k] * unit[j];
    }
}

} // namespace fastmm
