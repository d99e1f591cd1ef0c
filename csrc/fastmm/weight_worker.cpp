// Reduction to coordinates, solve, and judgement by the given data; see weight_batch.hpp.
#include "fastmm/weight_worker.hpp"

#include "fastmm/dense.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fastmm {

namespace {

using dense::Write;

constexpr double epsilon = std::numeric_limits<double>::epsilon();
constexpr double accurate = 1e-11; // residuals beyond this after the reduction: whole rows are solved instead
constexpr double on_margin = 1e-8;

void size_to(AlignedVector<double>& vector, std::int64_t size) { vector.resize(static_cast<std::size_t>(size)); }

double largest(const double* x, std::int64_t count) {
    double most = 0;
    for (std::int64_t k = 0; k < count; ++k) most = std::max(most, std::fabs(x[k]));
    return most;
}

} // namespace

WeightWorker::WeightWorker(std::int64_t n, std::int64_t T, std::int64_t queries, std::int64_t d_q, std::int64_t d,
                           bool nuclear)
    : n_(n), T_(T), queries_(queries), d_q_(d_q), d_(d), nuclear_(nuclear) {
    const std::int64_t most = n * (T - 1), whole = d_q * d;
    const std::int64_t a = std::min(queries, d_q), b = std::min(most, d);
    size_to(differences_, most * d);
    input_.resize(static_cast<std::size_t>(most));
    place_.resize(static_cast<std::size_t>(most));
    for (auto* v : {&start_, &point_}) size_to(*v, std::max<std::int64_t>(a * b, 1));
    size_to(mixed_, std::max(d_q * b, a * d));
    for (auto* v : {&made_, &size_}) size_to(*v, whole);
    size_to(sums_, 2 * queries * d);
    if (a * b < whole || nuclear) {
        span_q_.reserve(queries, d_q);
        span_.reserve(most, d);
        if (a * b > 0) reduced_ = std::make_unique<MarginWorker>(most, a * b, n * T);
    }
    if (nuclear) {
        norm_ = std::make_unique<NuclearNorm>();
        norm_->reserve(queries, most, a, b);
        query_of_.resize(static_cast<std::size_t>(most));
        size_to(z_, queries * a);
        size_to(delta_, most * b);
    }
}

void WeightWorker::solve(const double* Z, std::int64_t rows, const double* dual, const double* point,
                         const Limits& limits, Pulse& pulse, const Answers& out) {
    Z_ = Z;
    rows_ = rows;
    if (rows == 0) { // nothing to separate
        std::fill_n(out.point, d_q_ * d_, 0.0);
        std::fill_n(out.residuals, 3, 0.0);
        *out.status = static_cast<std::int8_t>(Status::optimal);
        return;
    }
    if (!representable()) {
        *out.status = static_cast<std::int8_t>(Status::ill_conditioned);
        return;
    }
    if (reduced_) {
        span_q_.build(Z, queries_, d_q_);
        span_.build(differences_.data(), rows, d_);
        solve_reduced(dual, point, limits, pulse, out);
    } else {
        solve_whole(dual, point, limits, pulse, out);
    }
    if (nuclear_ && *out.status == static_cast<std::int8_t>(Status::optimal)) nuclear(limits, pulse, out);
}

// Whether products of queries and differences, and squares of these, stay inside the double range.
bool WeightWorker::representable() const {
    const double z = largest(Z_, queries_ * d_q_), delta = largest(differences_.data(), rows_ * d_);
    return z <= 1e120 && delta <= 1e120 && (z == 0 || z >= 1e-120) && (delta == 0 || delta >= 1e-120);
}

void WeightWorker::fill(MarginWorker& worker, const double* z, std::int64_t d_q, const double* delta, std::int64_t d) {
    RowBlocks& rows = worker.rows();
    rows.begin(0, rows_);
    for (std::int64_t row = 0; row < rows_; ++row) {
        double* out = rows.entry(row);
        const double *own = z + query(row) * d_q, *x = delta + row * d;
        for (std::int64_t i = 0; i < d_q; ++i)
            for (std::int64_t j = 0; j < d; ++j) out[(i * d + j) * RowBlocks::lanes] = own[i] * x[j];
        rows.rhs(row) = 1;
        worker.place()[row] = place_[static_cast<std::size_t>(row)];
    }
}

void WeightWorker::solve_reduced(const double* dual, const double* point, const Limits& limits, Pulse& pulse,
                                 const Answers& out) {
    fill(*reduced_, span_q_.coordinates(), span_q_.width(), span_.coordinates(), span_.width());
    if (point != nullptr) to_coordinates(point, start_.data());
    Answers own = out;
    own.point = point_.data();
    reduced_->solve(dual, point != nullptr ? start_.data() : nullptr, limits, pulse, own);
    from_coordinates(point_.data(), out.point);
    const auto status = static_cast<Status>(*out.status);
    const bool sure = status == Status::optimal      ? judge(out)
                      : status == Status::infeasible ? proves(out.farkas)
                                                     : status != Status::ill_conditioned;
    if (sure) return;
    std::fill_n(out.dual, n_ * T_, 0.0);
    std::fill_n(out.farkas, n_ * T_, 0.0);
    std::fill_n(out.neighbors, n_ * T_, false);
    const std::int64_t steps = *out.steps;
    solve_whole(dual, point, limits, pulse, out);
    *out.steps += steps;
}

void WeightWorker::solve_whole(const double* dual, const double* point, const Limits& limits, Pulse& pulse,
                               const Answers& out) {
    if (!whole_) whole_ = std::make_unique<MarginWorker>(n_ * (T_ - 1), d_q_ * d_, n_ * T_);
    fill(*whole_, Z_, d_q_, differences_.data(), d_);
    whole_->solve(dual, point, limits, pulse, out);
}

// B_q W B' for the bases B_q (rank_q, d_q) and B (rank, d); 0 behind the ranks.
void WeightWorker::to_coordinates(const double* W, double* out) {
    const std::int64_t a = span_q_.rank(), b = span_.rank(), width = span_.width();
    dense::multiply(Write::assign, 1, span_q_.basis(), d_q_, W, d_, mixed_.data(), d_, a, d_q_, d_);
    std::fill_n(out, span_q_.width() * width, 0.0);
    for (std::int64_t i = 0; i < a; ++i)
        for (std::int64_t j = 0; j < b; ++j)
            out[i * width + j] = dense::dot(mixed_.data() + i * d_, span_.basis() + j * d_, d_);
}

void WeightWorker::from_coordinates(const double* M, double* out) {
    const std::int64_t a = span_q_.rank(), b = span_.rank();
    dense::multiply(Write::assign, 1, M, span_.width(), span_.basis(), d_, mixed_.data(), d_, a, b, d_);
    dense::multiply_transposed(Write::assign, 1, span_q_.basis(), d_q_, mixed_.data(), d_, out, d_, d_q_, a, d_);
}

// The certificate of the Frobenius norm from the given queries and differences. False when it is not far inside the
// tolerance or rounding could hide that it is not. Neighbors and residuals are written again.
bool WeightWorker::judge(const Answers& out) {
    const std::int64_t whole = d_q_ * d_;
    const double* W = out.point;
    double *seen = sums_.data(), *weighted = sums_.data() + queries_ * d_;
    dense::multiply(Write::assign, 1, Z_, d_q_, W, d_, seen, d_, queries_, d_q_, d_);
    const double length = std::sqrt(dense::dot(W, W, whole));
    const double rounding = 2 * epsilon * static_cast<double>(d_q_ + d_) * length;
    std::fill_n(made_.data(), whole, 0.0);
    std::fill_n(size_.data(), whole, 0.0);
    std::fill_n(weighted, queries_ * d_, 0.0);
    double primal = 0, unsure = 0, sum = 0;
    for (std::int64_t row = 0; row < rows_; ++row) {
        const double *delta = difference(row), *z = Z_ + query(row) * d_q_;
        const auto at = place_[static_cast<std::size_t>(row)];
        const double slack = dense::dot(seen + query(row) * d_, delta, d_) - 1, y = out.dual[at];
        primal = std::max(primal, -slack);
        unsure = std::max(unsure, rounding * std::sqrt(dense::dot(z, z, d_q_) * dense::dot(delta, delta, d_)));
        out.neighbors[at] = slack <= on_margin;
        sum += y;
        if (y == 0) continue;
        for (std::int64_t j = 0; j < d_; ++j) weighted[query(row) * d_ + j] += y * delta[j];
        for (std::int64_t i = 0; i < d_q_; ++i)
            for (std::int64_t j = 0; j < d_; ++j) size_[i * d_ + j] += y * std::fabs(z[i] * delta[j]);
    }
    dense::multiply_transposed(Write::add, 1, Z_, d_q_, weighted, d_, made_.data(), d_, d_q_, queries_, d_);
    double error = 0, most = 0;
    for (std::int64_t k = 0; k < whole; ++k) {
        error = std::max(error, std::fabs(made_[k] - W[k]));
        most = std::max(most, size_[k] + std::fabs(W[k]));
    }
    const double square = length * length, total = sum + square;
    out.residuals[0] = primal;
    out.residuals[1] = most > 0 ? error / most : error;
    out.residuals[2] = total > 0 ? std::fabs(sum - square) / total : 0;
    const double worst = std::max({out.residuals[0], out.residuals[1], out.residuals[2], unsure});
    return worst <= accurate; // false for NaN
}

// Whether weights that show the coordinates to be in conflict do so for the given data, entry by entry.
bool WeightWorker::proves(const double* farkas) {
    const std::int64_t whole = d_q_ * d_;
    std::fill_n(made_.data(), whole, 0.0);
    std::fill_n(size_.data(), whole, 0.0);
    for (std::int64_t row = 0; row < rows_; ++row) {
        const double y = farkas[place_[static_cast<std::size_t>(row)]];
        if (y == 0) continue;
        const double *delta = difference(row), *z = Z_ + query(row) * d_q_;
        for (std::int64_t i = 0; i < d_q_; ++i)
            for (std::int64_t j = 0; j < d_; ++j) {
                const double part = y * (z[i] * delta[j]);
                made_[i * d_ + j] += part;
                size_[i * d_ + j] += std::fabs(part);
            }
    }
    constexpr double tolerance = 1e-10; // of the contract a tenth, for rounding
    for (std::int64_t k = 0; k < whole; ++k)
        if (!(std::fabs(made_[k]) <= tolerance * size_[k])) return false;
    return true;
}

// From the least Frobenius norm to the least nuclear norm.
void WeightWorker::nuclear(const Limits& limits, Pulse& pulse, const Answers& out) {
    const std::int64_t a = span_q_.rank(), b = span_.rank(), width = span_.width();
    if (std::min(a, b) <= 1) { // all matrices in the span have rank one, and on these the norms agree
        const double length = std::sqrt(dense::dot(out.point, out.point, d_q_ * d_));
        for (std::int64_t row = 0; row < rows_; ++row) out.dual[place_[static_cast<std::size_t>(row)]] /= length;
        return;
    }
    to_coordinates(out.point, start_.data());
    for (std::int64_t i = 0; i < a; ++i) std::copy_n(start_.data() + i * width, b, start_.data() + i * b);
    for (std::int64_t i = 0; i < queries_; ++i)
        std::copy_n(span_q_.coordinates() + i * span_q_.width(), a, z_.data() + i * a);
    for (std::int64_t row = 0; row < rows_; ++row) {
        std::copy_n(span_.coordinates() + row * width, b, delta_.data() + row * b);
        query_of_[static_cast<std::size_t>(row)] = query(row);
    }
    const NuclearNorm::Rows rows{z_.data(), query_of_.data(), delta_.data(), queries_, rows_, a, b};
    const Status status = norm_->solve(rows, start_.data(), limits, pulse);
    *out.steps += norm_->steps();
    *out.status = static_cast<std::int8_t>(status);
    std::fill_n(point_.data(), span_q_.width() * width, 0.0);
    for (std::int64_t i = 0; i < a; ++i) std::copy_n(norm_->point() + i * b, b, point_.data() + i * width);
    from_coordinates(point_.data(), out.point);
    for (std::int64_t row = 0; row < rows_; ++row) {
        const auto at = place_[static_cast<std::size_t>(row)];
        out.dual[at] = status == Status::optimal ? norm_->multipliers()[row] : 0;
        out.neighbors[at] = false;
    }
}

} // namespace fastmm
