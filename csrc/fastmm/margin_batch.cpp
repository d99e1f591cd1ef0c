// Workspaces, starting points and answers of a batch of programs; see margin_batch.hpp.
#include "fastmm/margin_batch.hpp"

#include "fastmm/dispatch.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

namespace fastmm {

namespace {

class Worker {
public:
    Worker(const Programs& programs, bool guesses) : programs_(programs), solver_(*kernels().margin) {
        solver_.reserve(programs.most_rows, programs.d);
        place_.resize(static_cast<std::size_t>(std::max<std::int64_t>(programs.most_rows, 1)));
        if (guesses) {
            guess_.resize(place_.size());
            score_.resize(place_.size());
        }
    }

    void solve(std::int64_t program, const Start& start, const Limits& limits, Pulse& pulse, const Answers& out) {
        if (limits.late()) {
            out.status[program] = static_cast<std::int8_t>(Status::time_limit);
            return;
        }
        RowBlocks& rows = solver_.rows();
        programs_.fill(program, rows, place_.data());
        rows.end();
        std::int64_t guesses = 0;
        if (start.dual != nullptr) guesses = guess_by_dual(start.dual + program * programs_.width);
        if (start.point != nullptr) guesses = guess_by_point(start.point + program * programs_.d);
        const Verdict verdict = solver_.solve(guess_.data(), guesses, limits, pulse);
        write(program, verdict, out);
    }

private:
    std::int64_t keep_best(std::int64_t count) {
        const auto better = [this](std::int64_t a, std::int64_t b) {
            const double x = score_[static_cast<std::size_t>(a)], y = score_[static_cast<std::size_t>(b)];
            return x > y || (x == y && a < b);
        };
        const std::int64_t most = std::min(count, programs_.d);
        std::partial_sort(guess_.begin(), guess_.begin() + most, guess_.begin() + count, better);
        return most;
    }

    // Rows that had a multiplier, by the length each gives to w.
    std::int64_t guess_by_dual(const double* dual) {
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
    std::int64_t guess_by_point(const double* point) {
        const RowBlocks& rows = solver_.rows();
        const std::int64_t d = programs_.d;
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

    void write(std::int64_t program, Verdict verdict, const Answers& out) {
        const RowBlocks& rows = solver_.rows();
        const std::int64_t equalities = rows.equalities(), d = programs_.d;
        double* point = out.point + program * d;
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
                    out.neighbors[program * programs_.width + place_[static_cast<std::size_t>(at)]] = true;
                if (stored == 0) continue;
                const double value = infeasible ? rows.given_weight(row, stored) : rows.given_multiplier(row, stored);
                inside = inside && std::isnormal(value);
                if (at < 0)
                    equal[program * equalities + row] = value;
                else
                    values[program * programs_.width + place_[static_cast<std::size_t>(at)]] = value;
            }
        }
        if (!inside && (optimal || infeasible)) {
            verdict.status = Status::ill_conditioned;
            std::fill_n(values + program * programs_.width, programs_.width, 0.0);
            std::fill_n(equal + program * equalities, equalities, 0.0);
            std::fill_n(out.neighbors + program * programs_.width, programs_.width, false);
        }
        out.status[program] = static_cast<std::int8_t>(verdict.status);
        out.steps[program] = verdict.steps;
        if (optimal || verdict.status == Status::ill_conditioned) {
            out.residuals[3 * program] = verdict.residuals.primal;
            out.residuals[3 * program + 1] = verdict.residuals.stationarity;
            out.residuals[3 * program + 2] = verdict.residuals.gap;
        }
    }

    const Programs& programs_;
    ActiveSet solver_;
    std::vector<std::int64_t> place_, guess_;
    std::vector<double> score_;
};

} // namespace

bool solve_batch(const Programs& programs, const Start& start, const Limits& limits, int threads, Monitor* monitor,
                 const Answers& answers) {
    const std::int64_t size = programs.most_rows * programs.d + 1;
    const std::int64_t together = std::clamp<std::int64_t>(32768 / size, 1, 64); // programs a work item
    const std::int64_t items = (programs.count + together - 1) / together;
    // starting a thread costs as much as some tens of small programs
    const double work = static_cast<double>(programs.count) * static_cast<double>(size) *
                        static_cast<double>(std::min(programs.most_rows, programs.d) + 4);
    const int useful = static_cast<int>(std::clamp(work / 3e5, 1.0, static_cast<double>(threads)));
    const bool guesses = start.dual != nullptr || start.point != nullptr;
    std::vector<std::unique_ptr<Worker>> workers(static_cast<std::size_t>(useful));
    return parallel_for(items, useful, monitor, [&](std::int64_t item, int worker, Pulse& pulse) {
        auto& own = workers[static_cast<std::size_t>(worker)];
        if (!own) own = std::make_unique<Worker>(programs, guesses);
        const std::int64_t from = item * together, to = std::min(programs.count, from + together);
        for (std::int64_t program = from; program < to; ++program) {
            if (program > from && pulse.beat(0)) return;
            own->solve(program, start, limits, pulse, answers);
        }
    });
}

} // namespace fastmm
