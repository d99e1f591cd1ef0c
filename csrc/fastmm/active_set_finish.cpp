// The exact end of the dual active set, and the proofs that its answers come with; see active_set.hpp.
#include "fastmm/active_set.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fastmm {

namespace {

constexpr double tolerance = 1e-9;   // of the certificate
constexpr double on_margin = 1e-8;   // a row this close to its right-hand side is a neighbor
constexpr double trusted = 1e-11;    // plain sums whose rounding stays below this need not be done again
constexpr double negligible = 1e-13; // multipliers below this share of the whole are rounding

double relative(double error, double size) {
    if (error <= 0) return 0;
    return size > 0 ? error / size : std::numeric_limits<double>::infinity();
}

} // namespace

// The point of least norm on the active rows and its multipliers: w = N u, N' w = goal, refined with residuals in twice
// the working precision (Bjorck 1967), so that both are right to the last digits whatever the condition of N.
void ActiveSet::solve_active() {
    const std::int64_t size = work_.size(), stride = work_.stride();
    work_.solve_transposed(goal_.data(), h_.data());
    work_.combine(h_.data(), w_.data());
    work_.solve(h_.data(), u_.data());
    for (int round = 0; round < 5; ++round) {
        kernels_.accurate_dots(work_.columns(), size, stride, w_.data(), goal_.data(), r_.data());
        kernels_.accurate_subtract(work_.columns(), size, stride, u_.data(), w_.data(), residual_.data());
        work_.solve_transposed(r_.data(), h_.data());
        kernels_.dots(work_.orthonormal(), size, stride, residual_.data(), c_.data());
        kernels_.subtract(work_.orthonormal(), size, stride, c_.data(), residual_.data(), residual_.data());
        work_.combine(h_.data(), move_.data());
        double move = 0, point = 0, change = 0, most = 0;
        for (std::int64_t j = 0; j < stride; ++j) {
            const double step = move_[j] - residual_[j];
            w_[j] += step;
            move = std::max(move, std::fabs(step));
            point = std::max(point, std::fabs(w_[j]));
        }
        for (std::int64_t k = 0; k < size; ++k) h_[k] += c_[k];
        work_.solve(h_.data(), change_.data());
        for (std::int64_t k = 0; k < size; ++k) {
            u_[k] += change_[k];
            change = std::max(change, std::fabs(change_[k]));
            most = std::max(most, std::fabs(u_[k]));
        }
        // errors shrink by the same factor each round, so the next correction is below the last digit
        if (move <= 1e-8 * point && change <= 1e-8 * most) break;
    }
}

void ActiveSet::refine() {
    for (;;) {
        const std::int64_t size = work_.size();
        if (size == 0) {
            std::fill_n(w_.data(), work_.stride(), 0.0);
            return;
        }
        solve_active();
        double whole = 0, least = 0;
        std::int64_t worst = -1;
        for (std::int64_t k = 0; k < size; ++k) whole += std::fabs(u_[k]) * size_[k];
        for (std::int64_t k = 0; k < size; ++k) {
            if (active_[k] < rows_.equalities() || u_[k] >= 0) continue;
            const double share = u_[k] * size_[k];
            if (share >= -negligible * whole) {
                u_[k] = 0;
            } else if (share < least) {
                least = share;
                worst = k;
            }
        }
        if (worst < 0) return;
        drop(worst, nullptr);
    }
}

void ActiveSet::accurate_slack(std::int64_t row) {
    const std::int64_t block = row / RowBlocks::lanes, at = block * RowBlocks::lanes, d = rows_.width();
    kernels_.accurate_slacks(rows_.rows() + at * d, d, w_.data(), rows_.rhs() + at, slack_.data() + at);
}

// Looks again, in twice the working precision, at rows that plain sums cannot tell from satisfied ones. A row that
// keeps coming back this way is left out: the point cannot be written down any better in double precision.
std::int64_t ActiveSet::accurate_price() {
    const double *rhs = rows_.rhs(), *norm = rows_.norm();
    const double noise = uncertainty_ * point_norm();
    std::int64_t found = -1;
    double most = 0;
    for (std::int64_t row = rows_.equalities(); row < rows_.count(); ++row) {
        const double b = std::fabs(rhs[row]), error = noise * norm[row];
        if (b == 0 || weight_[row] == 0 || error <= trusted * b || slack_[row] < -error) continue;
        accurate_slack(row);
        if (slack_[row] > trusted * b && slack_[row] * weight_[row] > most) {
            most = slack_[row] * weight_[row];
            found = row;
        }
    }
    if (found >= 0) ++returns_[found];
    return found;
}

// Recomputes the certificate from the rows: primal feasibility, w = A'u, and no gap. Fills in the neighbors.
Status ActiveSet::judge(Residuals& residuals) {
    const double *rhs = rows_.rhs(), *norm = rows_.norm();
    const double length = point_norm();
    for (std::int64_t row = 0; row < rows_.count(); ++row) {
        const double b = std::fabs(rhs[row]), size = norm[row] * length, error = uncertainty_ * size;
        const double unit = b != 0 ? b : size;
        if (b != 0 && error > trusted * b && std::fabs(slack_[row]) <= on_margin * b + error) accurate_slack(row);
        const double slack = row < rows_.equalities() ? std::fabs(slack_[row]) : slack_[row];
        residuals.primal = std::max(residuals.primal, relative(slack, unit));
        neighbor_[row] = slack_[row] >= -on_margin * unit;
        dense_[row] = 0;
    }
    const std::int64_t size = work_.size(), stride = work_.stride();
    double dual = 0, sizes = 0, error = 0, most = 0, square = 0;
    for (std::int64_t j = 0; j < stride; ++j) {
        double sum = -w_[j], whole = std::fabs(w_[j]);
        for (std::int64_t k = 0; k < size; ++k) {
            const double part = u_[k] * work_.columns()[k * stride + j];
            sum += part;
            whole += std::fabs(part);
        }
        error = std::max(error, std::fabs(sum));
        most = std::max(most, whole);
        square += w_[j] * w_[j];
    }
    for (std::int64_t k = 0; k < size; ++k) {
        dual += goal_[k] * u_[k];
        sizes += std::fabs(goal_[k] * u_[k]);
        dense_[active_[k]] = sign_[k] * u_[k];
    }
    residuals.stationarity = relative(error, most);
    residuals.gap = relative(std::fabs(dual - square), sizes + square);
    const double worst = std::max({residuals.primal, residuals.stationarity, residuals.gap});
    const bool certain = worst <= tolerance && std::isfinite(square) && std::isfinite(sizes) && rows_.exact();
    return certain ? Status::optimal : Status::ill_conditioned;
}

// The entering row is a combination of active rows, r, and none of them may give way: y = (1, -r) weighs the rows to a
// contradiction. Refines r, and says whether y proves it.
bool ActiveSet::prove_infeasible(std::int64_t row, double sign, double scale) {
    if (!rows_.exact()) return false;
    const std::int64_t size = work_.size(), stride = work_.stride();
    for (int round = 0; round < 2; ++round) {
        kernels_.accurate_subtract(work_.columns(), size, stride, r_.data(), work_.next(), residual_.data());
        kernels_.dots(work_.orthonormal(), size, stride, residual_.data(), h_.data());
        work_.solve(h_.data(), change_.data());
        for (std::int64_t k = 0; k < size; ++k) r_[k] += change_[k];
    }
    // entries that are only rounding spoil columns in which nothing else stands, so they are left out at first
    return verify_farkas(row, sign, negligible * scale) || verify_farkas(row, sign, 0);
}

// y >= 0 (free for equalities), |A'y| <= 1e-9 |A|'y in every column, and b.y > 0 by more than that.
bool ActiveSet::verify_farkas(std::int64_t row, double sign, double least) {
    const std::int64_t size = work_.size(), stride = work_.stride();
    std::fill_n(dense_.data(), rows_.count(), 0.0);
    for (std::int64_t k = 0; k < size; ++k) {
        double y = std::fabs(r_[k]) * size_[k] > least ? -r_[k] : 0;
        if (active_[k] >= rows_.equalities()) y = std::max(y, 0.0);
        change_[k] = y;
        dense_[active_[k]] = sign_[k] * y;
    }
    change_[size] = 1;
    dense_[row] = sign;
    goal_[size] = sign * rows_.rhs()[row];
    std::fill_n(residual_.data(), stride, 0.0);
    kernels_.accurate_subtract(work_.columns(), size + 1, stride, change_.data(), residual_.data(), residual_.data());
    double worst = 0;
    for (std::int64_t j = 0; j < stride; ++j) {
        double whole = 0;
        for (std::int64_t k = 0; k <= size; ++k) whole += std::fabs(change_[k] * work_.columns()[k * stride + j]);
        worst = std::max(worst, relative(std::fabs(residual_[j]), whole));
    }
    const std::int64_t padded = (size + 8) / 8 * 8;
    for (std::int64_t k = size + 1; k < padded; ++k) change_[k] = goal_[k] = 0;
    const double zero = 0;
    double contradiction = 0, whole = 0;
    kernels_.accurate_dots(goal_.data(), 1, padded, change_.data(), &zero, &contradiction); // minus b.y
    for (std::int64_t k = 0; k <= size; ++k) whole += std::fabs(goal_[k] * change_[k]);
    return worst <= tolerance && contradiction < 0 && -contradiction > 4 * worst * whole;
}

} // namespace fastmm
