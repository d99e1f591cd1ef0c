// Conditions that end a run; see stopping.hpp.
#include "fastmm/stopping.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fastmm {

namespace {

double largest_of(const double* x, std::int64_t size) {
    double largest = 0.0;
    for (std::int64_t j = 0; j < size; ++j) largest = std::max(largest, std::fabs(x[j]));
    return largest;
}

double norm_of(const double* x, std::int64_t size) {
    const double largest = largest_of(x, size);
    if (largest == 0.0) return 0.0;
    double square = 0.0;
    for (std::int64_t j = 0; j < size; ++j) square += (x[j] / largest) * (x[j] / largest);
    return largest * std::sqrt(square);
}

} // namespace

double angle_between(const double* a, const double* b, std::int64_t size) {
    const double largest_a = largest_of(a, size), largest_b = largest_of(b, size);
    if (largest_a == 0.0 || largest_b == 0.0) return std::numeric_limits<double>::quiet_NaN();
    double square_a = 0.0, square_b = 0.0;
    for (std::int64_t j = 0; j < size; ++j) {
        square_a += (a[j] / largest_a) * (a[j] / largest_a);
        square_b += (b[j] / largest_b) * (b[j] / largest_b);
    }
    const double norm_a = largest_a * std::sqrt(square_a), norm_b = largest_b * std::sqrt(square_b);
    double difference = 0.0, total = 0.0; // Kahan: 2 atan(||u - v|| / ||u + v||) loses nothing at either end
    for (std::int64_t j = 0; j < size; ++j) {
        const double u = a[j] / norm_a, v = b[j] / norm_b;
        difference += (u - v) * (u - v);
        total += (u + v) * (u + v);
    }
    return 2 * std::atan2(std::sqrt(difference), std::sqrt(total));
}

StopWatch::StopWatch(const StoppingRule& rule)
    : rule_(rule), kept_(rule.conditions.size()), changed_little_(rule.conditions.size()) {}

void StopWatch::restart(std::int64_t instance) {
    instance_ = instance;
    start_ = std::chrono::steady_clock::now();
    for (auto& direction : kept_) direction.clear();
    std::fill(changed_little_.begin(), changed_little_.end(), 0);
}

StopReason StopWatch::met(const Iterate& iterate) {
    for (std::size_t k = 0; k < rule_.conditions.size(); ++k)
        if (rule_.conditions[k].kind == StopKind::direction_change) changed_little_[k] = direction_held(k, iterate);
    for (std::size_t c = 0; c < rule_.clauses.size(); ++c) {
        const auto& clause = rule_.clauses[c];
        const auto one = [&](int k) { return holds(static_cast<std::size_t>(k), iterate); };
        if (std::all_of(clause.begin(), clause.end(), one))
            return static_cast<StopReason>(static_cast<std::size_t>(first_clause) + c);
    }
    return StopReason::steps;
}

bool StopWatch::holds(std::size_t k, const Iterate& iterate) {
    const auto& condition = rule_.conditions[k];
    switch (condition.kind) {
    case StopKind::steps:
        return static_cast<double>(iterate.step) >= condition.bound;
    case StopKind::loss:
        return iterate.risk <= condition.bound;
    case StopKind::saturation:
        return iterate.saturation >= condition.bound;
    case StopKind::norm:
        return norm_of(iterate.x, iterate.size) >= condition.bound;
    case StopKind::direction_change:
        return changed_little_[k] != 0;
    case StopKind::angle:
        return angle_between(iterate.x, condition.target[instance_], iterate.size) <= condition.bound;
    case StopKind::time:
        break;
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    return elapsed.count() >= condition.bound;
}

// Compares the direction with that of `every` steps ago; between comparisons the last verdict stands.
bool StopWatch::direction_held(std::size_t k, const Iterate& iterate) {
    const auto& condition = rule_.conditions[k];
    if (iterate.step % condition.every != 0) return changed_little_[k] != 0;
    const bool compared = !kept_[k].empty();
    const bool held = compared && angle_between(kept_[k].data(), iterate.x, iterate.size) <= condition.bound;
    kept_[k].assign(iterate.x, iterate.x + iterate.size);
    return held;
}

} // namespace fastmm
