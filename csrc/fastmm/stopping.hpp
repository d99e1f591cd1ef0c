// Stopping rules: conditions on a run, joined by "all of" inside a clause and "any of" between clauses.
#pragma once

#include "fastmm/batch.hpp"
#include "fastmm/kernels.hpp"

#include <chrono>
#include <cstdint>
#include <vector>

namespace fastmm {

enum class StopKind : int { steps = 0, loss = 1, saturation = 2, norm = 3, direction_change = 4, angle = 5, time = 6 };

struct StopCondition {
    StopKind kind;
    double bound;          // the run may stop when the quantity is at most (loss, angles) or at least (others) this
    std::int64_t every;    // steps between the directions that direction_change compares
    Blocks<double> target; // for angle: direction, one block an instance
};

struct StoppingRule {
    std::vector<StopCondition> conditions;
    std::vector<std::vector<int>> clauses; // numbers of conditions

    bool empty() const { return clauses.empty(); }
    bool needs(StopKind kind) const {
        for (const auto& condition : conditions)
            if (condition.kind == kind) return true;
        return false;
    }
    bool needs_direction() const {
        return needs(StopKind::norm) || needs(StopKind::direction_change) || needs(StopKind::angle);
    }
};

// What the conditions look at, at one iterate.
struct Iterate {
    std::int64_t step;
    double risk, saturation;
    const double* x; // the parameter whose direction counts
    std::int64_t size;
};

// The state of the conditions of one run.
class StopWatch {
public:
    explicit StopWatch(const StoppingRule& rule);

    void restart(std::int64_t instance);

    // The code of the first clause that holds, or StopReason::steps.
    StopReason met(const Iterate& iterate);

private:
    bool holds(std::size_t condition, const Iterate& iterate);
    bool direction_held(std::size_t condition, const Iterate& iterate);

    const StoppingRule& rule_;
    std::int64_t instance_ = 0;
    std::chrono::steady_clock::time_point start_;
    std::vector<std::vector<double>> kept_; // for direction_change: the unit vector at the last comparison
    std::vector<char> changed_little_;
};

// Angle between two vectors of any size, right to rounding also where it is tiny; NaN when one of them is zero.
double angle_between(const double* a, const double* b, std::int64_t size);

} // namespace fastmm
