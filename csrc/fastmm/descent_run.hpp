// One run as its steps see it: parameters in double precision, their gradients, and what ends the run. Where the
// gradients come from is not known here.
#pragma once

#include "fastmm/descent.hpp"

#include <vector>

namespace fastmm {

// One parameter of one run: its numbers, its gradient, and its step rule.
template <class R> struct Group {
    const Parameter<R>& parameter;
    std::vector<double> x, unit, step; // unit: direction of steepest descent, or zeros
    double log_norm;                   // of the gradient; -inf when it is exactly zero, NaN when it overflowed
    StepRule rule;

    Group(const Parameter<R>& own, const RuleSettings& settings);
    Factored gradient(); // where a kernel writes to; log_norm is to be copied from there
};

// What is known of an iterate beside its gradients.
struct IterateFacts {
    double risk = 0.0, saturation = 0.0, log_excess = 0.0;
};

template <class R> class DescentRun {
public:
    explicit DescentRun(const DescentBatch<R>& batch);

    void load(std::int64_t b);
    Group<R>* of(Role role) { return at_[static_cast<int>(role)]; }
    bool attention_trained() const { return attention_trained_; }
    std::int64_t instance() const { return instance_; }

    // Looks at the gradients and the stopping rule, and if nothing speaks against it takes the step.
    StopReason take_step(std::int64_t step, const IterateFacts& facts);

    void record(std::int64_t row) const; // the present iterate, as number `row`
    void end(std::int64_t steps_done, StopReason reason) const;

private:
    StopReason gradient_reason() const;
    Iterate iterate(std::int64_t step, const IterateFacts& facts);
    bool move(std::int64_t step, const IterateFacts& facts);
    double log_norm_of_all() const;

    const DescentBatch<R>& batch_;
    std::vector<Group<R>> groups_;
    Group<R>* at_[5] = {};
    StopWatch watch_;
    std::vector<double> product_; // Q K', when a stopping rule looks at it
    std::int64_t instance_ = 0;
    bool attention_trained_ = false;
};

} // namespace fastmm
