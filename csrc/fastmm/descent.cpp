// The choice of layout for a batch of runs; see descent.hpp.
#include "fastmm/descent.hpp"

#include <algorithm>

namespace fastmm {

namespace {

enum class Layout { lanes, joint, rows };

// Keys that are the values: the same memory for every instance.
template <class R> bool is_tied(const DescentBatch<R>& batch) {
    const auto& problem = batch.problem;
    if (problem.d_v != problem.tokens.d) return false;
    for (std::int64_t b = 0; b < problem.tokens.batch; ++b)
        if (problem.values[b] != problem.tokens.keys[b]) return false;
    return true;
}

// Polyak's rule wants the excess risk, which only the rows kernel computes.
template <class R> Layout layout_of(const DescentBatch<R>& batch) {
    const auto& tokens = batch.problem.tokens;
    std::int64_t most = tokens.n * tokens.T * tokens.d;
    bool head = false, only_p = true;
    for (const auto& parameter : batch.parameters) {
        most = std::max(most, parameter.size());
        head = head || parameter.role == Role::v;
        only_p = only_p && parameter.role == Role::p;
    }
    if (most > lanes_limit || batch.rule.kind == RuleKind::polyak || (head && !is_tied(batch))) return Layout::rows;
    return only_p ? Layout::lanes : Layout::joint;
}

} // namespace

template <class R> void descend_batch(const DescentBatch<R>& batch, int threads, Monitor* monitor) {
    const std::int64_t count = batch.problem.tokens.batch;
    // instances that are never begun, because the call was interrupted, say so
    std::fill(batch.steps_done, batch.steps_done + count, 0);
    std::fill(batch.reason, batch.reason + count, StopReason::interrupted);
    switch (layout_of(batch)) {
    case Layout::lanes:
        return descend_lanes(batch, threads, monitor);
    case Layout::joint:
        return descend_joint(batch, threads, monitor);
    case Layout::rows:
        return descend_rows(batch, threads, monitor);
    }
}

template void descend_batch<double>(const DescentBatch<double>&, int, Monitor*);
template void descend_batch<float>(const DescentBatch<float>&, int, Monitor*);

} // namespace fastmm
