// Gradient-descent runs for a batch of problems; the same bits for any number of threads and any batch.
#pragma once

#include "fastmm/batch.hpp"
#include "fastmm/gradient.hpp"
#include "fastmm/kernels.hpp"
#include "fastmm/parallel.hpp"
#include "fastmm/step_rule.hpp"
#include "fastmm/stopping.hpp"

#include <limits>
#include <vector>

namespace fastmm {

// The parameters of the model. The logits of input i are K_i p, or X_i q_i with q_i = W' z_i or q_i = K Q' z_i.
enum class Role : int { p = 0, v = 1, W = 2, Q = 3, K = 4 };

template <class R> struct Parameter {
    Role role;
    bool trained;
    std::int64_t rows, columns;                              // of a matrix; a vector has one column
    R* x;                                                    // (batch, rows * columns), start in and end out
    R* recorded;                                             // (records, batch, rows * columns), when trained
    double radius = std::numeric_limits<double>::infinity(); // of the ball that every step is projected to
    std::int64_t size() const { return rows * columns; }
};

template <class R> struct DescentBatch {
    GradientBatch<R> problem; // its scores are left out when v is among the parameters
    Blocks<R> queries;        // (n, d_q) for W, Q and K
    std::int64_t d_q = 0;
    std::vector<Parameter<R>> parameters;
    RuleSettings rule;
    const R* lr;                      // (batch)
    const double* schedule = nullptr; // (steps) factors of lr, or null
    StoppingRule stop;
    std::int64_t steps;
    const std::int64_t* record; // increasing step numbers in 0..steps
    std::int64_t records;       // rows never reached are left as they are
    std::int64_t* steps_done;   // (batch)
    StopReason* reason;         // (batch)
};

// Problems with at most this many key entries run one a vector lane, larger ones with lanes along their rows. A rule of
// the shape and the kind of run alone: a problem's bits do not depend on what else is in the batch.
constexpr std::int64_t lanes_limit = 8192;

// `monitor` is told the number of steps done, summed over the batch.
template <class R> void descend_batch(const DescentBatch<R>& batch, int threads, Monitor* monitor);

// One instance a vector lane: runs in p, and in any parameters. Lanes along the rows: everything.
template <class R> void descend_lanes(const DescentBatch<R>& batch, int threads, Monitor* monitor);
template <class R> void descend_joint(const DescentBatch<R>& batch, int threads, Monitor* monitor);
template <class R> void descend_rows(const DescentBatch<R>& batch, int threads, Monitor* monitor);

} // namespace fastmm
