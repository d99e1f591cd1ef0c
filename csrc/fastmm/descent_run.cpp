// Steps, records and ends of one run; see descent_run.hpp.
#include "fastmm/descent_run.hpp"

#include "fastmm/query_gradient.hpp"

#include <algorithm>
#include <cmath>

namespace fastmm {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class R> constexpr double largest_number() { return static_cast<double>(std::numeric_limits<R>::max()); }

template <class R> void store(const std::vector<double>& x, R* to) {
    std::transform(x.begin(), x.end(), to, [](double entry) { return static_cast<R>(entry); });
}

bool fits(const std::vector<double>& x, const std::vector<double>& step, double most) {
    for (std::size_t j = 0; j < x.size(); ++j)
        if (!(std::fabs(x[j] + step[j]) <= most)) return false;
    return true;
}

void project(std::vector<double>& x, double radius) {
    if (radius == infinity) return;
    double largest = 0.0, square = 0.0;
    for (const double entry : x) largest = std::max(largest, std::fabs(entry));
    if (largest == 0.0) return;
    for (const double entry : x) square += (entry / largest) * (entry / largest);
    const double norm = largest * std::sqrt(square);
    if (norm <= radius) return;
    for (double& entry : x) entry *= radius / norm;
}

} // namespace

template <class R> Group<R>::Group(const Parameter<R>& own, const RuleSettings& settings)
    : parameter(own), x(static_cast<std::size_t>(own.size())), unit(x), step(x), log_norm(-infinity),
      rule(settings, own.size()) {}

template <class R> Factored Group<R>::gradient() { return {-infinity, unit.data(), nullptr}; }

template <class R> DescentRun<R>::DescentRun(const DescentBatch<R>& batch) : batch_(batch), watch_(batch.stop) {
    groups_.reserve(batch.parameters.size());
    for (const auto& parameter : batch.parameters) {
        groups_.emplace_back(parameter, batch.rule);
        at_[static_cast<int>(parameter.role)] = &groups_.back();
        if (parameter.trained && parameter.role != Role::v) attention_trained_ = true;
    }
    if (of(Role::Q) != nullptr) product_.resize(static_cast<std::size_t>(batch.d_q * batch.problem.tokens.d));
}

template <class R> void DescentRun<R>::load(std::int64_t b) {
    instance_ = b;
    for (auto& group : groups_) {
        const R* from = group.parameter.x + b * group.parameter.size();
        std::copy(from, from + group.parameter.size(), group.x.begin());
        group.rule.restart();
    }
    watch_.restart(b);
}

template <class R> StopReason DescentRun<R>::take_step(std::int64_t step, const IterateFacts& facts) {
    StopReason reason = gradient_reason();
    if (reason == StopReason::steps && !batch_.stop.empty()) reason = watch_.met(iterate(step, facts));
    if (reason == StopReason::steps && !move(step, facts)) reason = StopReason::overflow;
    return reason;
}

// The reason to stop that the gradients give: all zero, or not numbers; else StopReason::steps.
template <class R> StopReason DescentRun<R>::gradient_reason() const {
    bool zero = true;
    for (const auto& group : groups_) {
        if (!group.parameter.trained) continue;
        if (std::isnan(group.log_norm) || group.log_norm == infinity) return StopReason::overflow;
        zero = zero && group.log_norm == -infinity;
    }
    return zero ? StopReason::zero_gradient : StopReason::steps;
}

// With the parameter whose direction the conditions look at: attention's, and the head's when only that is trained.
template <class R> Iterate DescentRun<R>::iterate(std::int64_t step, const IterateFacts& facts) {
    Iterate out{step, facts.risk, facts.saturation, nullptr, 0};
    if (!batch_.stop.needs_direction()) return out;
    Group<R>* group = !attention_trained_ ? of(Role::v) : of(Role::p) != nullptr ? of(Role::p) : of(Role::W);
    if (group == nullptr) {
        const Group<R>&q = *of(Role::Q), &k = *of(Role::K);
        rows_times_transposed(q.x.data(), q.parameter.rows, q.parameter.columns, k.x.data(), k.parameter.rows,
                              product_.data());
    }
    const std::vector<double>& x = group != nullptr ? group->x : product_;
    out.x = x.data();
    out.size = static_cast<std::int64_t>(x.size());
    return out;
}

// One step of every trained parameter, or of none when one of them would leave the numbers.
template <class R> bool DescentRun<R>::move(std::int64_t step, const IterateFacts& facts) {
    StepFacts shared{static_cast<double>(batch_.lr[instance_]), facts.log_excess, log_norm_of_all()};
    if (batch_.schedule != nullptr) shared.rate *= batch_.schedule[step];
    for (auto& group : groups_) {
        if (!group.parameter.trained) continue;
        group.rule.move(group.unit.data(), group.log_norm, shared, group.step.data());
        if (!fits(group.x, group.step, largest_number<R>())) return false;
    }
    for (auto& group : groups_) {
        if (!group.parameter.trained) continue;
        for (std::size_t j = 0; j < group.x.size(); ++j) group.x[j] += group.step[j];
        project(group.x, group.parameter.radius);
    }
    return true;
}

template <class R> double DescentRun<R>::log_norm_of_all() const {
    double largest = -infinity, square = 0.0;
    for (const auto& group : groups_)
        if (group.parameter.trained) largest = std::max(largest, group.log_norm);
    if (batch_.rule.kind != RuleKind::polyak) return largest; // nobody asks
    for (const auto& group : groups_)
        if (group.parameter.trained) square += std::exp(2 * (group.log_norm - largest));
    return largest + std::log(square) / 2;
}

template <class R> void DescentRun<R>::record(std::int64_t row) const {
    for (const auto& group : groups_)
        if (group.parameter.trained)
            store(group.x,
                  group.parameter.recorded + (row * batch_.problem.tokens.batch + instance_) * group.parameter.size());
}

template <class R> void DescentRun<R>::end(std::int64_t steps_done, StopReason reason) const {
    batch_.steps_done[instance_] = steps_done;
    batch_.reason[instance_] = reason;
    for (const auto& group : groups_)
        if (group.parameter.trained) store(group.x, group.parameter.x + instance_ * group.parameter.size());
}

template struct Group<double>;
template struct Group<float>;
template class DescentRun<double>;
template class DescentRun<float>;

} // namespace fastmm
