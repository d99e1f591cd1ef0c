// Batches of W-SVMs: min ||W|| subject to z_i' W (x_i,selected - x_it) >= 1, W (d_q, d), Frobenius or nuclear norm.
//
// The solution lies in span{z} x span{differences}. With orthonormal bases of both, the rows are products of
// coordinates and at most min(n, d_q) min(n (T-1), d) long. The answer is brought back and judged by the given data;
// where it fails there, whole rows of length d_q d are solved instead.
#pragma once

#include "fastmm/margin_batch.hpp"

#include <cstdint>

namespace fastmm {

template <class R> struct WeightPrograms {
    std::int64_t count = 0, n = 0, T = 0, d_q = 0, d = 0;
    const R* X = nullptr;                   // blocks of (n, T, d)
    const std::int64_t* block = nullptr;    // of each program
    const double* Z = nullptr;              // blocks of (queries, d_q)
    const std::int64_t* Z_block = nullptr;  // of each program
    std::int64_t queries = 0;               // n, or 1 when all inputs share one
    const std::int64_t* selected = nullptr; // (count, n)
    const std::int64_t* lengths = nullptr;  // (count, n) or null; tokens from there on are never read
    bool nuclear = false;
};

// As solve_batch, with d = d_q d variables and width = n T. For the nuclear norm, neighbors and residuals of optimal
// answers are left to the caller.
template <class R> bool solve_weights(const WeightPrograms<R>& programs, const Start& start, const Limits& limits,
                                      int threads, Monitor* monitor, const Answers& answers);

} // namespace fastmm
