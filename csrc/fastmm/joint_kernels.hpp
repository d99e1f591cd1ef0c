// Arguments of the kernel that computes the gradients of runs in any parameters, one instance a vector lane.
#pragma once

#include "fastmm/kernels.hpp"

namespace fastmm {

// Arrays of parameters and gradients are (size, lanes), the lane fastest; null where a run has no such parameter.
struct JointLanes {
    DescentLanes<double> data;    // shape, loss, keys, scores (any when v is given) and lengths of each lane
    std::int64_t d_q, m;          // width of the queries, columns of Q and K
    const double* const* labels;  // (n) of each lane, with v
    const double* const* queries; // (n, d_q) of each lane, with W, Q and K
    const double *p, *v, *W, *Q, *K;
    bool pulls;                               // the gradient of attention is wanted, not only that of v
    double *of_p, *of_v, *of_W, *of_Q, *of_K; // out: minus the gradient of the sum of losses is e^scale times this
    double* scale;      // (lanes) out, of attention's gradients; -inf when they are exactly zero, NaN on overflow
    double* scale_v;    // (lanes) out
    double* margins;    // (n, lanes) out
    double* saturation; // (lanes) out, least over the inputs of the largest attention weight
};

} // namespace fastmm
