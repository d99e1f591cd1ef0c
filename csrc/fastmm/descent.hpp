// Gradient-descent runs in p for a batch of problems; the same bits for any number of threads and any batch.
#pragma once

#include "fastmm/batch.hpp"
#include "fastmm/kernels.hpp"
#include "fastmm/parallel.hpp"

namespace fastmm {

template <class R> struct DescentBatch {
    TokenBatch<R> tokens;
    LossKind loss;
    bool normalized; // else plain steps lr * gradient
    R* p;            // (batch, d), start in and end out
    const R* lr;     // (batch)
    std::int64_t steps;
    const std::int64_t* record; // increasing step numbers in 0..steps
    std::int64_t records;
    R* recorded;              // (records, batch, d); rows never reached are left as they are
    std::int64_t* steps_done; // (batch)
    StopReason* reason;       // (batch)
};

// Problems with at most this many key entries run one a vector lane, larger ones with lanes along their rows. A rule of
// the shape alone: a problem's bits do not depend on what else is in the batch.
constexpr std::int64_t lanes_limit = 8192;

// `monitor` is told the number of steps done, summed over the batch.
template <class R> void descend_batch(const DescentBatch<R>& batch, int threads, Monitor* monitor);

} // namespace fastmm
