// The inner loops of the active-set solver, which exist once for each instruction set.
//
// All work on lanes of eight doubles. Constraint rows stand in blocks of eight: entry j of row 8*k + l is
// rows[(k*d + j)*8 + l]. Columns of length d are padded with zeros to a multiple of eight, `stride`. Products and sums
// round one at a time (no fused multiply-add) in a fixed order, so that every instruction set gives the same bits.
#pragma once

#include <cstdint>

namespace fastmm {

struct MarginKernels {
    // The largest absolute entry, the Euclidean norm and one over it (0 for a zero row) of each of 8*blocks rows.
    void (*sizes)(const double* rows, std::int64_t blocks, std::int64_t d, double* largest, double* norm,
                  double* inverse);

    // slack = rhs - rows*w. Returns the row with the largest slack*weight among those above floor + noise, or -1.
    std::int64_t (*price)(const double* rows, std::int64_t blocks, std::int64_t d, const double* w, const double* rhs,
                          const double* weight, const double* floor, double noise, double* slack);

    // The slacks of one block, as if computed in twice the working precision and then rounded.
    void (*accurate_slacks)(const double* block, std::int64_t d, const double* w, const double* rhs, double* slack);

    // out_k = column_k . x for `count` columns.
    void (*dots)(const double* columns, std::int64_t count, std::int64_t stride, const double* x, double* out);

    // out = x - sum_k c_k column_k; returns out . out. `out` may be x.
    double (*subtract)(const double* columns, std::int64_t count, std::int64_t stride, const double* c, const double* x,
                       double* out);

    // The same two in twice the working precision: target_k - column_k . x, and x - sum_k c_k column_k.
    void (*accurate_dots)(const double* columns, std::int64_t count, std::int64_t stride, const double* x,
                          const double* target, double* out);
    void (*accurate_subtract)(const double* columns, std::int64_t count, std::int64_t stride, const double* c,
                              const double* x, double* out);

    // (x, y) becomes (c x + s y, c y - s x).
    void (*rotate)(double* x, double* y, std::int64_t stride, double c, double s);
};

} // namespace fastmm
