// Starting points and answers of single programs; see margin_worker.hpp.
#include "fastmm/margin_worker.hpp"

#include "fastmm/dispatch.hpp"

#include <algorithm>
#include <cmath>

namespace fastmm {

MarginWorker::MarginWorker(std::int64_t most_rows, std::int64_t d, std::int64_t width)
    : d_(d), width_(width), solver_(*kernels().margin) {
    solver_.reserve(most_rows, d);
    place_.resize(static_cast<std::size_t>(std::max<std::int64_t>(most_rows, 1)));
}

void MarginWorker::solve(const double* dual, const double* point, const Limits& limits, Pulse& pulse,
                         const Answers& out) {
    rows().end();
    if ((dual != nullptr || point != nullptr) && guess_.empty()) {
        guess_.resize(place_.size());
        score_.resize(place_.size());
    }
    std::int64_t guesses = 0;
    if (dual != nullptr) guesses = guess_by_dual(dual);
    if (point != nullptr) guesses = guess_by_point(point);
    write(solver_.solve(guess_.data(), guesses, limits, pulse), out);
}

std::int64_t MarginWorker::keep_best(std::int64_t count) {
    const auto better = [this](std::int64_t a, std::int64_t b) {
        const double x = score_[static_cast<std::size_t>(a)], y = score_[static_cast<std::size_t>(b)];
        return x > y || (x == y && a < b);
    };
    const std::int64_t most = std::min(count, d_);
    std::partial_sort(guess_.begin(), guess_.begin() + most, guess_.begin() + count, better);
    return most;
}

// Rows that had a multiplier, by the length each gives to w.
std::int64_t MarginWorker::guess_by_dual(const double* dual) {
    const RowBlocks& rows = solver_.rows();
    std::int64_t count = 0;
    for (std::int64_t row = rows.equalities(); row < rows.count(); ++row) {
        const double y = dual[place_[static_cast<std::size_t>(row - rows.equalities())]];
        score_[static_cast<std::size_t>(row)] = y * rows.norm()[row];
        if (y > 0) guess_[static_cast<std::size_t>(count++)] = row;
    }
    return keep_best(count);
}

// Rows near the margin once the point is scaled to satisfy the rows with b > 0, nearest first.
std::int64_t MarginWorker::guess_by_point(const double* point) {
    const RowBlocks& rows = solver_.rows();
    const std::int64_t d = d_;
    constexpr double near = 0.1;
    double scale = -1, length = 0;
    for (std::int64_t j = 0; j < d; ++j) length += point[j] * point[j];
    length = std::sqrt(length);
    for (std::int64_t row = rows.equalities(); row < rows.count(); ++row) {
        const double* x = rows.rows() + (row / RowBlocks::lanes) * d * RowBlocks::lanes + row % RowBlocks::lanes;
        double sum = 0;
        for (std::int64_t j = 0; j < d; ++j) sum += x[j * RowBlocks::lanes] * point[j];
        score_[static_cast<std::size_t>(row)] = sum;
        const double b = rows.rhs()[row];
        if (b > 0 && (scale < 0 || sum / b < scale)) scale = std::max(sum / b, 0.0);
    }
    if (!(scale > 0)) return 0; // the point satisfies no multiple of the rows: it says nothing
    std::int64_t count = 0;
    for (std::int64_t row = rows.equalities(); row < rows.count(); ++row) {
        double& score = score_[static_cast<std::size_t>(row)];
        const double b = rows.rhs()[row], unit = b != 0 ? std::fabs(b) : rows.norm()[row] * length / scale;
        score = b - score / scale;
        if (score >= -near * unit) guess_[static_cast<std::size_t>(count++)] = row;
        score *= rows.inverse_norm()[row];
    }
    return keep_best(count);
}

void MarginWorker::write(Verdict verdict, const Answers& out) {
    const RowBlocks& rows = solver_.rows();
    const std::int64_t equalities = rows.equalities(), d = d_;
    double* point = out.point;
    bool inside = true; // the answer in the scale of the given rows is still a double without loss
    for (std::int64_t j = 0; j < d; ++j) {
        point[j] = rows.given_point(solver_.point()[j]);
        inside = inside && std::isfinite(point[j]);
    }
    const bool optimal = verdict.status == Status::optimal, infeasible = verdict.status == Status::infeasible;
    double* values = infeasible ? out.farkas : out.dual;
    double* equal = infeasible ? out.equality_farkas : out.equality_dual;
    if (optimal || infeasible) {
        for (std::int64_t row = 0; row < rows.count(); ++row) {
            const double stored = solver_.multipliers()[row];
            const std::int64_t at = row - equalities;
            if (row >= equalities && optimal && solver_.neighbors()[row] != 0)
                out.neighbors[place_[static_cast<std::size_t>(at)]] = true;
            if (stored == 0) continue;
            const double value = infeasible ? rows.given_weight(row, stored) : rows.given_multiplier(row, stored);
            inside = inside && std::isnormal(value);
            if (at < 0)
                equal[row] = value;
            else
                values[place_[static_cast<std::size_t>(at)]] = value;
        }
    }
    if (!inside && (optimal || infeasible)) {
        verdict.status = Status::ill_conditioned;
        std::fill_n(values, width_, 0.0);
        std::fill_n(equal, equalities, 0.0);
        std::fill_n(out.neighbors, width_, false);
    }
    *out.status = static_cast<std::int8_t>(verdict.status);
    *out.steps = verdict.steps;
    if (optimal || verdict.status == Status::ill_conditioned) {
        out.residuals[0] = verdict.residuals.primal;
        out.residuals[1] = verdict.residuals.stationarity;
        out.residuals[2] = verdict.residuals.gap;
    }
}

std::int64_t programs_together(std::int64_t size) { return std::clamp<std::int64_t>(32768 / size, 1, 64); }

int useful_threads(std::int64_t count, double work, int threads) {
    // starting a thread costs as much as some tens of small programs
    return static_cast<int>(std::clamp(static_cast<double>(count) * work / 3e5, 1.0, static_cast<double>(threads)));
}

} // namespace fastmm
