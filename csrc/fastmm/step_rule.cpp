// Step rules in plain doubles; see step_rule.hpp.
#include "fastmm/step_rule.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fastmm {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

} // namespace

double scaled_rate(double rate, double log_size) {
    const double half = std::exp(log_size / 2);
    return rate * half * half;
}

StepRule::StepRule(const RuleSettings& settings, std::int64_t size)
    : settings_(settings), size_(static_cast<std::size_t>(size)) {
    if (settings.kind == RuleKind::momentum || settings.kind == RuleKind::adam) first_.resize(size_);
    if (settings.kind == RuleKind::adam) second_.resize(size_);
    restart();
}

void StepRule::restart() {
    std::fill(first_.begin(), first_.end(), 0.0);
    std::fill(second_.begin(), second_.end(), 0.0);
    scale_ = -infinity;
    decay1_ = decay2_ = 1.0;
}

void StepRule::move(const double* unit, double log_norm, const StepFacts& facts, double* step) {
    double length = facts.rate;
    switch (settings_.kind) {
    case RuleKind::momentum:
        return momentum_step(unit, log_norm, facts.rate, step);
    case RuleKind::adam:
        return adam_step(unit, log_norm, facts.rate, step);
    case RuleKind::sign:
        for (std::size_t j = 0; j < size_; ++j) step[j] = unit[j] > 0 ? facts.rate : unit[j] < 0 ? -facts.rate : 0.0;
        return;
    case RuleKind::gradient:
        length = scaled_rate(facts.rate, log_norm);
        break;
    case RuleKind::polyak:
        length = scaled_rate(facts.rate, facts.log_excess - 2 * facts.log_norm + log_norm);
        break;
    case RuleKind::normalized:
        break;
    }
    const bool zero = log_norm == -infinity; // a rate that overflowed must not make NaN of a zero
    for (std::size_t j = 0; j < size_; ++j) step[j] = zero ? 0.0 : length * unit[j];
}

// Takes the larger of the present scale and the gradient's as the common one. What the averages lost in size since is
// put back into their numbers, so that they never become subnormal.
void StepRule::rescale(double log_norm) {
    double largest = 0.0;
    for (std::size_t j = 0; j < size_; ++j) {
        largest = std::max(largest, std::fabs(first_[j]));
        if (!second_.empty()) largest = std::max(largest, std::sqrt(second_[j]));
    }
    const double own = largest > 0 ? scale_ + std::log(largest) : -infinity;
    const double common = std::max(own, log_norm);
    if (common == -infinity) return;
    if (log_norm <= scale_ && own > scale_ - 200) return; // still of moderate size
    const double factor = largest > 0 ? std::exp(scale_ - common) : 0.0;
    for (double& x : first_) x *= factor;
    for (double& x : second_) x = (x * factor) * factor;
    scale_ = common;
}

void StepRule::momentum_step(const double* unit, double log_norm, double rate, double* step) {
    rescale(log_norm);
    const double size = log_norm == -infinity ? 0.0 : std::exp(log_norm - scale_);
    const double length = scaled_rate(rate, scale_);
    for (std::size_t j = 0; j < size_; ++j) {
        first_[j] = settings_.momentum * first_[j] + size * unit[j];
        step[j] = first_[j] == 0.0 ? 0.0 : length * first_[j];
    }
}

void StepRule::adam_step(const double* unit, double log_norm, double rate, double* step) {
    rescale(log_norm);
    const double size = log_norm == -infinity ? 0.0 : std::exp(log_norm - scale_);
    const double epsilon = settings_.epsilon == 0.0 ? 0.0 : settings_.epsilon * std::exp(-scale_);
    decay1_ *= settings_.beta1;
    decay2_ *= settings_.beta2;
    for (std::size_t j = 0; j < size_; ++j) {
        const double g = size * unit[j];
        first_[j] = settings_.beta1 * first_[j] + (1 - settings_.beta1) * g;
        second_[j] = settings_.beta2 * second_[j] + (1 - settings_.beta2) * (g * g);
        const double spread = std::sqrt(second_[j] / (1 - decay2_)) + epsilon;
        step[j] = spread == 0.0 ? 0.0 : rate * (first_[j] / (1 - decay1_)) / spread;
    }
}

} // namespace fastmm
