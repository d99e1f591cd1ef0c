// Gradients in a matrix W, or in factors W = Q K', from those in the queries q_i = W' z_i.
//
// The logits of input i are X_i q_i. When minus the gradient of its loss in q_i is e^(e_i) g_i, minus the gradient of
// the risk is in W the mean of e^(e_i) z_i g_i', in K that of e^(e_i) g_i (Q' z_i)', in Q that of e^(e_i) z_i (K'
// g_i)': always a mean of outer products. With one query for all inputs there is one such product, of the query and the
// gradient in p.
#pragma once

#include "fastmm/aligned.hpp"
#include "fastmm/factored.hpp"

#include <vector>

namespace fastmm {

// out (n, b) = A (n, a) B (a, b): the queries W' z_i, and Q' z_i.
void rows_times(const double* A, std::int64_t n, std::int64_t a, const double* B, std::int64_t b, double* out);

// out (n, b) = A (n, a) B' with B (b, a): K (Q' z_i).
void rows_times_transposed(const double* A, std::int64_t n, std::int64_t a, const double* B, std::int64_t b,
                           double* out);

// The mean of e^(e_i) left_i right_i' over i, (a, b), with its common exponent taken out before anything is added up.
// Holds its workspace; the same bits for any number of threads.
class OuterMean {
public:
    OuterMean(std::int64_t n, std::int64_t a, std::int64_t b);

    // left (n, a), right (n, b), exponents (n); the norm is Frobenius's.
    void operator()(const double* left, const double* right, const double* exponents, Factored& out, int threads = 1);

private:
    void chunk(std::int64_t c, const double* left, const double* right, const double* exponents);

    std::int64_t n_, a_, b_, inputs_, chunks_; // inputs a chunk, chunks
    AlignedVector<double> parts_;
    std::vector<double> scale_;
};

} // namespace fastmm
