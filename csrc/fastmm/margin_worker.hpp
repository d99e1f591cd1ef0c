// One max-margin program after the other in one workspace: where to start, the solve, and the answer as it was asked.
#pragma once

#include "fastmm/active_set.hpp"
#include "fastmm/margin_batch.hpp"

#include <cstdint>
#include <vector>

namespace fastmm {

class MarginWorker {
public:
    // For programs of up to `most_rows` rows in d variables, whose answers have `width` places for inequalities.
    MarginWorker(std::int64_t most_rows, std::int64_t d, std::int64_t width);

    RowBlocks& rows() { return solver_.rows(); }
    std::int64_t* place() { return place_.data(); } // of each inequality in rows(), among the places of the answer

    // Solves the program in rows() from multipliers (width,), a point (d,), or neither, and writes its answer.
    void solve(const double* dual, const double* point, const Limits& limits, Pulse& pulse, const Answers& out);

private:
    std::int64_t keep_best(std::int64_t count);
    std::int64_t guess_by_dual(const double* dual);
    std::int64_t guess_by_point(const double* point);
    void write(Verdict verdict, const Answers& out);

    std::int64_t d_, width_;
    ActiveSet solver_;
    std::vector<std::int64_t> place_, guess_;
    std::vector<double> score_;
};

// How many programs of `size` entries make a work item, and how many threads `count` of them are worth when each takes
// about `work` operations.
std::int64_t programs_together(std::int64_t size);
int useful_threads(std::int64_t count, double work, int threads);

} // namespace fastmm
