// The choice of layout for a batch of runs; see descent.hpp.
#include "fastmm/descent.hpp"

#include <algorithm>

namespace fastmm {

namespace {

// The lanes kernel knows runs in p. Polyak's rule wants the excess risk, which only the rows kernel computes.
template <class R> bool fits_lanes(const DescentBatch<R>& batch) {
    const auto& tokens = batch.problem.tokens;
    return tokens.n * tokens.T * tokens.d <= lanes_limit && batch.parameters.size() == 1 &&
           batch.parameters[0].role == Role::p && batch.parameters[0].trained && batch.rule.kind != RuleKind::polyak;
}

} // namespace

template <class R> void descend_batch(const DescentBatch<R>& batch, int threads, Monitor* monitor) {
    const std::int64_t count = batch.problem.tokens.batch;
    // instances that are never begun, because the call was interrupted, say so
    std::fill(batch.steps_done, batch.steps_done + count, 0);
    std::fill(batch.reason, batch.reason + count, StopReason::interrupted);
    if (fits_lanes(batch))
        descend_lanes(batch, threads, monitor);
    else
        descend_rows(batch, threads, monitor);
}

template void descend_batch<double>(const DescentBatch<double>&, int, Monitor*);
template void descend_batch<float>(const DescentBatch<float>&, int, Monitor*);

} // namespace fastmm
