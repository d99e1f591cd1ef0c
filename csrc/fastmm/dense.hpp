// Small dense matrices, row by row in contiguous storage: products, Cholesky factors and what is solved with them.
//
// Inner loops run along rows and add without reordering, so the compiler may use vectors and the bits never change.
#pragma once

#include <cstdint>

namespace fastmm::dense {

// out (m x n) = or += scale * a (m x k) b (k x n), or a' (a then k x m) b. The leading dimensions are entries a row.
enum class Write { assign, add };
void multiply(Write write, double scale, const double* a, std::int64_t lda, const double* b, std::int64_t ldb,
              double* out, std::int64_t ldo, std::int64_t m, std::int64_t k, std::int64_t n);
void multiply_transposed(Write write, double scale, const double* a, std::int64_t lda, const double* b,
                         std::int64_t ldb, double* out, std::int64_t ldo, std::int64_t m, std::int64_t k,
                         std::int64_t n);

void transpose(const double* a, std::int64_t lda, double* out, std::int64_t ldo, std::int64_t m, std::int64_t n);

// Overwrites the upper triangle of a symmetric matrix (of which only that is read) by U with U'U = a. False when a is
// not positive definite.
bool cholesky(double* a, std::int64_t lda, std::int64_t n);

void solve_lower(const double* U, std::int64_t lda, std::int64_t n, double* x); // U' x
void solve_upper(const double* U, std::int64_t lda, std::int64_t n, double* x); // U x

// b (n x k) becomes the solution of U' x = b, or of U x = b.
void solve_lower(const double* U, std::int64_t lda, std::int64_t n, double* b, std::int64_t ldb, std::int64_t k);
void solve_upper(const double* U, std::int64_t lda, std::int64_t n, double* b, std::int64_t ldb, std::int64_t k);

double dot(const double* a, const double* b, std::int64_t n);

} // namespace fastmm::dense
