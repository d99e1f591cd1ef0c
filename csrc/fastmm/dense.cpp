// Loops of dense.hpp.
#include "fastmm/dense.hpp"

#include <algorithm>
#include <cmath>

namespace fastmm::dense {

namespace {

inline void axpy(double c, const double* __restrict x, double* __restrict y, std::int64_t n) {
    for (std::int64_t j = 0; j < n; ++j) y[j] += c * x[j];
}

} // namespace

void multiply(Write write, double scale, const double* a, std::int64_t lda, const double* b, std::int64_t ldb,
              double* out, std::int64_t ldo, std::int64_t m, std::int64_t k, std::int64_t n) {
    for (std::int64_t i = 0; i < m; ++i) {
        if (write == Write::assign) std::fill_n(out + i * ldo, n, 0.0);
        for (std::int64_t r = 0; r < k; ++r) axpy(scale * a[i * lda + r], b + r * ldb, out + i * ldo, n);
    }
}

void multiply_transposed(Write write, double scale, const double* a, std::int64_t lda, const double* b,
                         std::int64_t ldb, double* out, std::int64_t ldo, std::int64_t m, std::int64_t k,
                         std::int64_t n) {
    for (std::int64_t i = 0; i < m; ++i) {
        if (write == Write::assign) std::fill_n(out + i * ldo, n, 0.0);
        for (std::int64_t r = 0; r < k; ++r) axpy(scale * a[r * lda + i], b + r * ldb, out + i * ldo, n);
    }
}

void transpose(const double* a, std::int64_t lda, double* out, std::int64_t ldo, std::int64_t m, std::int64_t n) {
    for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) out[j * ldo + i] = a[i * lda + j];
}

bool cholesky(double* a, std::int64_t lda, std::int64_t n) {
    for (std::int64_t j = 0; j < n; ++j) {
        double* row = a + j * lda;
        if (!(row[j] > 0)) return false; // NaN too
        const double root = std::sqrt(row[j]), inverse = 1 / root;
        row[j] = root;
        for (std::int64_t k = j + 1; k < n; ++k) row[k] *= inverse;
        for (std::int64_t i = j + 1; i < n; ++i) axpy(-row[i], row + i, a + i * lda + i, n - i);
    }
    return true;
}

void solve_lower(const double* U, std::int64_t lda, std::int64_t n, double* x) {
    for (std::int64_t j = 0; j < n; ++j) {
        x[j] /= U[j * lda + j];
        axpy(-x[j], U + j * lda + j + 1, x + j + 1, n - j - 1);
    }
}

void solve_upper(const double* U, std::int64_t lda, std::int64_t n, double* x) {
    for (std::int64_t j = n - 1; j >= 0; --j)
        x[j] = (x[j] - dot(U + j * lda + j + 1, x + j + 1, n - j - 1)) / U[j * lda + j];
}

void solve_lower(const double* U, std::int64_t lda, std::int64_t n, double* b, std::int64_t ldb, std::int64_t k) {
    for (std::int64_t j = 0; j < n; ++j) {
        const double inverse = 1 / U[j * lda + j];
        for (std::int64_t c = 0; c < k; ++c) b[j * ldb + c] *= inverse;
        for (std::int64_t i = j + 1; i < n; ++i) axpy(-U[j * lda + i], b + j * ldb, b + i * ldb, k);
    }
}

void solve_upper(const double* U, std::int64_t lda, std::int64_t n, double* b, std::int64_t ldb, std::int64_t k) {
    for (std::int64_t j = n - 1; j >= 0; --j) {
        for (std::int64_t i = j + 1; i < n; ++i) axpy(-U[j * lda + i], b + i * ldb, b + j * ldb, k);
        const double inverse = 1 / U[j * lda + j];
        for (std::int64_t c = 0; c < k; ++c) b[j * ldb + c] *= inverse;
    }
}

double dot(const double* a, const double* b, std::int64_t n) {
    double sum[4] = {0, 0, 0, 0}; // four chains: one would wait for each addition
    std::int64_t j = 0;
    for (; j + 4 <= n; j += 4)
        for (int c = 0; c < 4; ++c) sum[c] += a[j + c] * b[j + c];
    double rest = 0;
    for (; j < n; ++j) rest += a[j] * b[j];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]) + rest;
}

} // namespace fastmm::dense
