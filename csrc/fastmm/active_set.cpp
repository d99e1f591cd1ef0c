// The steps of the dual active set; see active_set.hpp.
#include "fastmm/active_set.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fastmm {

namespace {

constexpr double epsilon = std::numeric_limits<double>::epsilon();
constexpr double infinity = std::numeric_limits<double>::infinity();

template <class Vector> void grow(Vector& vector, std::int64_t size) {
    if (static_cast<std::int64_t>(vector.size()) < size) vector.resize(static_cast<std::size_t>(size));
}

} // namespace

void ActiveSet::reserve(std::int64_t most, std::int64_t d) {
    const std::int64_t capacity = std::min(most, d), padded = (most + 7) / 8 * 8;
    rows_.reserve(most, d);
    work_.reserve(capacity, d);
    for (auto* vector : {&w_, &z_, &residual_, &move_}) grow(*vector, work_.stride());
    for (auto* vector : {&u_, &goal_, &sign_, &size_, &c_, &r_, &h_, &change_}) grow(*vector, (capacity + 8) / 8 * 8);
    for (auto* vector : {&weight_, &floor_, &slack_, &dense_}) grow(*vector, padded);
    grow(active_, capacity + 1);
    grow(returns_, padded);
    grow(neighbor_, padded);
    uncertainty_ = epsilon * (8 + 0.25 * static_cast<double>(d));
}

// Back to w = 0 and no active row. Returns a row that nothing can satisfy (0.w >= b > 0), or -1.
std::int64_t ActiveSet::begin() {
    const std::int64_t count = rows_.count(), padded = rows_.blocks() * RowBlocks::lanes;
    const double *rhs = rows_.rhs(), *inverse = rows_.inverse_norm();
    std::fill_n(w_.data(), work_.stride(), 0.0);
    std::fill_n(returns_.data(), padded, static_cast<unsigned char>(0));
    work_.clear();
    steps_ = spent_ = 0;
    stopped_ = Status::max_iter;
    for (std::int64_t row = 0; row < padded; ++row) {
        weight_[row] = inverse[row];
        floor_[row] = 4 * epsilon * std::fabs(rhs[row]) * inverse[row];
    }
    std::fill_n(weight_.data(), rows_.equalities(), 0.0); // these are entered at the start and stay
    for (std::int64_t row = 0; row < count; ++row)
        if (inverse[row] == 0 && (rhs[row] > 0 || (rhs[row] < 0 && row < rows_.equalities()))) return row;
    return -1;
}

Verdict ActiveSet::solve(const std::int64_t* guess, std::int64_t guesses, const Limits& limits, Pulse& pulse) {
    limits_ = &limits;
    pulse_ = &pulse;
    most_steps_ = limits.steps >= 0 ? limits.steps : 1000 + 100 * (rows_.count() + rows_.width());
    Verdict verdict;
    const std::int64_t hopeless = begin();
    if (hopeless >= 0) {
        std::fill_n(dense_.data(), rows_.count(), 0.0);
        dense_[hopeless] = rows_.rhs()[hopeless] > 0 ? 1 : -1;
        verdict.status = Status::infeasible;
        return verdict;
    }
    const Step end = run(guess, guesses);
    verdict.steps = steps_;
    verdict.status = end == Step::infeasible ? Status::infeasible : stopped_;
    if (end == Step::entered) verdict.status = judge(verdict.residuals);
    return verdict;
}

ActiveSet::Step ActiveSet::run(const std::int64_t* guess, std::int64_t guesses) {
    Step step = equalities();
    if (step != Step::entered) return step;
    if (limits_->late()) {
        stopped_ = Status::time_limit;
        return Step::stopped;
    }
    if (guesses > 0) warm(guess, guesses);
    constexpr int most_refinements = 40; // past this the rows are beyond double precision, and the certificate says so
    for (int refinements = 0;;) {
        std::int64_t row = price();
        if (row < 0) {
            refine();
            row = price();
            if (row < 0) row = accurate_price();
            if (row < 0 || ++refinements == most_refinements) return Step::entered;
        }
        step = enter(row);
        if (step != Step::entered) return step;
    }
}

ActiveSet::Step ActiveSet::equalities() {
    for (std::int64_t row = 0; row < rows_.equalities(); ++row) {
        if (rows_.norm()[row] == 0) continue; // 0.w = 0
        accurate_slack(row);
        const Step step = enter(row);
        if (step != Step::entered) return step;
    }
    return Step::entered;
}

// Starts from the guessed rows, those left out whose multiplier would be negative: a valid state of the dual method.
void ActiveSet::warm(const std::int64_t* guess, std::int64_t guesses) {
    for (std::int64_t k = 0; k < guesses && work_.size() < work_.capacity(); ++k) {
        const std::int64_t row = guess[k];
        if (weight_[row] == 0) continue; // zero, an equality, or listed twice
        rows_.gather(row, 1, work_.next());
        const double zz = work_.project(work_.next(), c_.data(), z_.data());
        const double norm = rows_.norm()[row];
        if (zz < 1e-16 * norm * norm) continue; // nearly dependent: let the method decide
        const std::int64_t at = work_.size();
        active_[at] = row;
        sign_[at] = 1;
        size_[at] = norm;
        goal_[at] = rows_.rhs()[row];
        weight_[row] = 0;
        work_.append(c_.data(), z_.data(), zz);
    }
    for (;;) {
        work_.solve_transposed(goal_.data(), h_.data());
        work_.solve(h_.data(), u_.data());
        std::int64_t worst = -1;
        for (std::int64_t k = 0; k < work_.size(); ++k) {
            if (active_[k] < rows_.equalities() || u_[k] >= 0) continue;
            if (worst < 0 || u_[k] * size_[k] < u_[worst] * size_[worst]) worst = k;
        }
        if (worst < 0) break;
        drop(worst, nullptr);
    }
    work_.combine(h_.data(), w_.data());
}

// The most violated row by distance, or -1. Violations that rounding could make are left to accurate_price().
std::int64_t ActiveSet::price() {
    spent_ += rows_.blocks() * rows_.width();
    return kernels_.price(rows_.rows(), rows_.blocks(), rows_.width(), w_.data(), rows_.rhs(), weight_.data(),
                          floor_.data(), uncertainty_ * point_norm(), slack_.data());
}

double ActiveSet::point_norm() const {
    double square = 0;
    kernels_.dots(w_.data(), 1, work_.stride(), w_.data(), &square);
    return std::sqrt(square);
}

bool ActiveSet::stop() {
    constexpr std::int64_t beat = 20000; // about ten microseconds of work
    spent_ += work_.size() * work_.stride() / 2;
    if (spent_ > beat) {
        spent_ = 0;
        if (pulse_->beat()) return true;
    }
    if (limits_->late()) {
        stopped_ = Status::time_limit;
        return true;
    }
    return steps_ >= most_steps_;
}

// Moves w until it satisfies `row`, which joins the active rows; others leave on the way when their multiplier is 0.
ActiveSet::Step ActiveSet::enter(std::int64_t row) {
    const double* norm = rows_.norm();
    const bool equality = row < rows_.equalities();
    const double sign = equality && slack_[row] < 0 ? -1 : 1;
    double missing = sign * slack_[row], multiplier = 0;
    rows_.gather(row, sign, work_.next());
    double zz = work_.project(work_.next(), c_.data(), z_.data());
    bool forced = false;
    for (;;) {
        const std::int64_t size = work_.size();
        work_.solve(c_.data(), r_.data());
        double scale = norm[row]; // the row is its combination of active rows up to rounding of this size
        for (std::int64_t k = 0; k < size; ++k) scale += std::fabs(r_[k]) * size_[k];
        const double noise = 8 * epsilon * scale;
        const bool dependent = size == work_.capacity() || (forced ? zz == 0 : zz <= noise * noise);

        double length = infinity;
        std::int64_t leaving = -1;
        for (std::int64_t k = 0; k < size; ++k) {
            if (r_[k] * size_[k] <= epsilon * scale || active_[k] < rows_.equalities()) continue;
            const double ratio = u_[k] / r_[k];
            if (ratio < length) {
                length = ratio;
                leaving = k;
            }
        }
        if (dependent && leaving < 0) {
            const double settled = 1e-10 * std::fabs(rows_.rhs()[row]) + uncertainty_ * norm[row] * point_norm();
            if (equality && missing <= settled) return Step::entered; // it follows from the others
            if (prove_infeasible(row, sign, scale)) return Step::infeasible;
            if (forced || zz == 0 || size == work_.capacity()) {
                weight_[row] = 0;
                returns_[row] = most_returns;
                return Step::entered;
            }
            forced = true; // no proof: then the little that is left of the row is more than rounding
            continue;
        }
        if (stop()) return Step::stopped;
        ++steps_;
        const double full = dependent ? infinity : missing / zz;
        length = std::min(length, full);
        multiplier += length;
        for (std::int64_t k = 0; k < size; ++k) u_[k] -= length * r_[k];
        if (!dependent) {
            for (std::int64_t j = 0; j < work_.stride(); ++j) w_[j] += length * z_[j];
            missing -= length * zz;
        }
        if (full <= length) {
            active_[size] = row;
            sign_[size] = sign;
            size_[size] = norm[row];
            goal_[size] = sign * rows_.rhs()[row];
            u_[size] = multiplier;
            weight_[row] = 0;
            work_.append(c_.data(), z_.data(), zz);
            return Step::entered;
        }
        drop(leaving, &zz);
        if (zz < 0.01 * norm[row] * norm[row]) zz = work_.project(work_.next(), c_.data(), z_.data());
    }
}

// Takes out active row k; zz is that of the projection under way, null when there is none.
void ActiveSet::drop(std::int64_t k, double* zz) {
    const std::int64_t row = active_[k], last = work_.size() - 1;
    const double rest = work_.remove(k, c_.data(), z_.data(), zz != nullptr ? *zz : 0);
    if (zz != nullptr) *zz = rest;
    if (returns_[row] < most_returns) weight_[row] = rows_.inverse_norm()[row];
    for (std::int64_t at = k; at < last; ++at) {
        active_[at] = active_[at + 1];
        sign_[at] = sign_[at + 1];
        size_[at] = size_[at + 1];
        goal_[at] = goal_[at + 1];
        u_[at] = u_[at + 1];
    }
}

} // namespace fastmm
