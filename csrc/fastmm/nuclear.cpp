// The interior point for the nuclear norm; see nuclear.hpp.
#include "fastmm/nuclear.hpp"

#include "fastmm/dense.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fastmm {

namespace {

using dense::Write;

void grow(AlignedVector<double>& vector, std::int64_t size) {
    if (static_cast<std::int64_t>(vector.size()) < size) vector.resize(static_cast<std::size_t>(size));
}

// The longest step in (0, most] that keeps x + step * move >= 0.
double ratio(const double* x, const double* move, std::int64_t count, double most) {
    for (std::int64_t k = 0; k < count; ++k)
        if (move[k] < 0 && x[k] < -move[k] * most) most = x[k] / -move[k];
    return most;
}

// About the longest step in (0, most] that `inside` accepts; what it accepts, it accepts of every shorter step.
template <class Inside> double search(double most, const Inside& inside) {
    if (inside(most)) return most;
    double high = most, low = most;
    for (int round = 0; round < 60; ++round) {
        low *= 0.7;
        if (inside(low)) break;
        high = low;
    }
    for (int round = 0; round < 3; ++round) {
        const double middle = 0.5 * (low + high);
        (inside(middle) ? low : high) = middle;
    }
    return low;
}

} // namespace

void NuclearNorm::reserve(std::int64_t n, std::int64_t m, std::int64_t p, std::int64_t q) {
    const std::int64_t N = p + q;
    for (auto* v : {&delta_, &delta_t_}) grow(*v, m * q);
    grow(half_, std::max(m, N) * N);
    grow(z_t_, n * p);
    for (auto* v : {&X_, &dX_, &predicted_, &Zinv_, &trial_, &product_, &big_}) grow(*v, N * N);
    for (auto* v : {&S_, &dS_, &best_}) grow(*v, p * q);
    for (auto* v : {&lambda_, &dlambda_, &slack_, &dslack_, &cross_, &rhs_, &values_, &best_lambda_}) grow(*v, m);
    for (auto* v : {&H_, &Zbb_}) grow(*v, m * m);
    grow(query_, n * N);
    for (auto* v : {&Xaa_, &Zaa_}) grow(*v, n * n);
    for (auto* v : {&Xab_, &Zab_}) grow(*v, n * m);
    const std::int64_t rank = std::min(p, q);
    for (auto* v : {&F_, &residual_}) grow(*v, N * rank);
    grow(cross_factor_, rank);
    if (static_cast<std::int64_t>(active_.size()) < m) active_.resize(static_cast<std::size_t>(m));
}

Status NuclearNorm::solve(const Rows& rows, const double* start, const Limits& limits, Pulse& pulse) {
    constexpr double tolerance = 1e-9, target = 1e-11;
    constexpr std::int64_t most_steps = 100;
    rows_ = rows;
    N_ = rows.p + rows.q;
    steps_ = 0;
    begin(start);
    double best = std::numeric_limits<double>::infinity(), next_finish = 1e-4;
    Status end = Status::ill_conditioned;
    for (int stale = 0; steps_ < most_steps; ++steps_) {
        if (pulse.beat() || (limits.steps >= 0 && steps_ >= limits.steps)) {
            end = Status::max_iter;
            break;
        }
        if (limits.late()) {
            end = Status::time_limit;
            break;
        }
        const double gap = measure();
        stale = gap < 0.5 * best ? 0 : stale + 1;
        if (gap < best) {
            best = gap;
            keep(X_.data() + rows_.p, N_, lambda_.data());
        }
        if (gap <= next_finish) {
            next_finish = std::min(next_finish, gap) * 0.1;
            if (finish()) return Status::optimal;
        }
        if (best <= target || (best <= tolerance && stale >= 3) || stale >= 12) break;
        if (!factor()) break;
        aim(0, false);
        const double primal = primal_length(1), dual = dual_length(1);
        // how much of the complementarity the predictor would leave decides how far to stay from the boundary
        const std::int64_t m = rows_.m, p = rows_.p, q = rows_.q;
        double trace = 0, moved = 0, inner = 0, now = 0;
        for (std::int64_t j = 0; j < N_; ++j) {
            now += X_[j * N_ + j];
            trace += X_[j * N_ + j] + primal * dX_[j * N_ + j];
        }
        for (std::int64_t i = 0; i < p; ++i)
            for (std::int64_t j = 0; j < q; ++j) {
                const double W = X_[i * N_ + p + j], dW = dX_[i * N_ + p + j], S = S_[i * q + j];
                inner += W * S;
                moved += (W + primal * dW) * (S + dual * dS_[i * q + j]);
            }
        double before = 0.5 * now - inner, after = 0.5 * trace - moved;
        for (std::int64_t k = 0; k < m; ++k) {
            before += lambda_[k] * slack_[k];
            after += (lambda_[k] + dual * dlambda_[k]) * (slack_[k] + primal * dslack_[k]);
        }
        const double share = after / before;
        double sigma = std::min(1.0, std::max(share * share, 1e-6));
        if (std::min(primal, dual) < 0.1) sigma = std::max(sigma, 0.3);
        aim(sigma * before / static_cast<double>(N_ + m), true);
        constexpr double shy = 0.97;
        move(std::min(1.0, shy * primal_length(1 / shy)), std::min(1.0, shy * dual_length(1 / shy)));
    }
    return best <= tolerance ? Status::optimal : end;
}

// Rows scaled to a start of norm 1; twice the start lies inside, and so do multiples of the rows' reciprocal sizes.
void NuclearNorm::begin(const double* start) {
    const std::int64_t n = rows_.n, m = rows_.m, p = rows_.p, q = rows_.q;
    scale_ = std::sqrt(dense::dot(start, start, p * q));
    for (std::int64_t k = 0; k < m * q; ++k) delta_[k] = rows_.delta[k] * scale_;
    dense::transpose(delta_.data(), q, delta_t_.data(), m, m, q);
    dense::transpose(rows_.z, p, z_t_.data(), n, n, p);
    std::fill_n(X_.data(), N_ * N_, 0.0);
    for (std::int64_t j = 0; j < N_; ++j) X_[j * N_ + j] = 2.5;
    for (std::int64_t i = 0; i < p; ++i)
        for (std::int64_t j = 0; j < q; ++j) X_[i * N_ + p + j] = X_[(p + j) * N_ + i] = 2 * start[i * q + j] / scale_;
    row_values(X_.data() + p, N_, slack_.data());
    for (std::int64_t k = 0; k < m; ++k) {
        slack_[k] -= 1;
        const double* z = rows_.z + rows_.input[k] * p;
        const double* delta = delta_.data() + k * q;
        lambda_[k] = 1 / std::sqrt(dense::dot(z, z, p) * dense::dot(delta, delta, q));
    }
    weighted_sum(lambda_.data(), S_.data());
    const double size = std::sqrt(dense::dot(S_.data(), S_.data(), p * q));
    const double lift = size > 0 ? 0.5 / size : 1;
    for (std::int64_t k = 0; k < m; ++k) lambda_[k] *= lift;
    keep(X_.data() + p, N_, lambda_.data());
}

// z' W delta of every row.
void NuclearNorm::row_values(const double* W, std::int64_t ldw, double* out) {
    const std::int64_t n = rows_.n, p = rows_.p, q = rows_.q;
    dense::multiply(Write::assign, 1, rows_.z, p, W, ldw, query_.data(), q, n, p, q);
    for (std::int64_t k = 0; k < rows_.m; ++k)
        out[k] = dense::dot(query_.data() + rows_.input[k] * q, delta_.data() + k * q, q);
}

// sum_k weight_k z delta'.
void NuclearNorm::weighted_sum(const double* weight, double* out) {
    const std::int64_t n = rows_.n, p = rows_.p, q = rows_.q;
    std::fill_n(query_.data(), n * q, 0.0);
    for (std::int64_t k = 0; k < rows_.m; ++k) {
        double* sum = query_.data() + rows_.input[k] * q;
        for (std::int64_t j = 0; j < q; ++j) sum[j] += weight[k] * delta_[k * q + j];
    }
    dense::multiply(Write::assign, 1, z_t_.data(), n, query_.data(), q, out, q, p, n, q);
}

// S of the multipliers, and the relative gap that W, scaled to satisfy all rows, is sure to have.
double NuclearNorm::measure() {
    weighted_sum(lambda_.data(), S_.data());
    row_values(X_.data() + rows_.p, N_, values_.data());
    double least = std::numeric_limits<double>::infinity(), trace = 0, sum = 0;
    for (std::int64_t k = 0; k < rows_.m; ++k) {
        least = std::min(least, values_[k]);
        sum += lambda_[k];
        if (values_[k] > 1) slack_[k] = values_[k] - 1; // free of what steps have added up
    }
    for (std::int64_t j = 0; j < N_; ++j) trace += X_[j * N_ + j];
    const double gap = (0.5 * trace / least - sum) / sum;
    return least > 0.5 && gap > 0 ? gap : std::numeric_limits<double>::infinity();
}

// The inverse of Z, and the factor of the normal matrix of the multipliers.
bool NuclearNorm::factor() {
    const std::int64_t n = rows_.n, m = rows_.m, p = rows_.p, q = rows_.q, N = N_;
    const std::int64_t* input = rows_.input;
    // 2 G = 2 (I - S S')^-1, G from its triangular factor's inverse
    dense::transpose(S_.data(), q, half_.data(), p, p, q);
    double* root = trial_.data();
    dense::multiply(Write::assign, -1, S_.data(), q, half_.data(), p, root, p, p, q, p);
    for (std::int64_t i = 0; i < p; ++i) root[i * p + i] += 1;
    if (!dense::cholesky(root, p, p)) return false;
    double* inverse = big_.data();
    std::fill_n(inverse, p * p, 0.0);
    for (std::int64_t i = 0; i < p; ++i) inverse[i * p + i] = 1;
    dense::solve_lower(root, p, p, inverse, p, p);
    double *Z11 = Zinv_.data(), *Z12 = Z11 + p, *Z22 = Z11 + p * N + p;
    dense::multiply_transposed(Write::assign, 2, inverse, p, inverse, p, Z11, N, p, p, p);
    dense::multiply(Write::assign, 1, Z11, N, S_.data(), q, Z12, N, p, p, q);
    dense::multiply_transposed(Write::assign, 1, S_.data(), q, Z12, N, Z22, N, q, p, q);
    for (std::int64_t j = 0; j < q; ++j) Z22[j * N + j] += 2;
    dense::transpose(Z12, N, Z11 + p * N, N, p, q);

    const auto forms = [&](const double* A, double* aa, double* ab, double* bb) { // of z and delta under A
        dense::multiply(Write::assign, 1, rows_.z, p, A, N, query_.data(), N, n, p, N);
        dense::multiply(Write::assign, 1, query_.data(), N, z_t_.data(), n, aa, n, n, p, n);
        dense::multiply(Write::assign, 1, query_.data() + p, N, delta_t_.data(), m, ab, m, n, q, m);
        dense::multiply(Write::assign, 1, delta_.data(), q, A + p * N + p, N, half_.data(), q, m, q, q);
        for (std::int64_t k = 0; k < m; ++k) // the upper triangle
            dense::multiply(Write::assign, 1, half_.data() + k * q, q, delta_t_.data() + k, m, bb + k * m + k, m, 1, q,
                            m - k);
    };
    forms(X_.data(), Xaa_.data(), Xab_.data(), H_.data());
    forms(Zinv_.data(), Zaa_.data(), Zab_.data(), Zbb_.data());
    for (std::int64_t k = 0; k < m; ++k) {
        const std::int64_t a = input[k];
        double* row = H_.data() + k * m;
        const double *other = Zbb_.data() + k * m, *x = Xab_.data() + a * m, *z = Zab_.data() + a * m;
        for (std::int64_t l = k; l < m; ++l) {
            const std::int64_t c = input[l];
            const double mixed = x[l] * Zab_[c * m + k] + Xab_[c * m + k] * z[l];
            row[l] = 0.25 * (row[l] * Zaa_[a * n + c] + Xaa_[a * n + c] * other[l] + mixed);
        }
        row[k] += slack_[k] / lambda_[k];
    }
    return dense::cholesky(H_.data(), m, m);
}

// The step towards complementarity mu; with the second-order term of the step in dX_, dS_, ... when corrected.
void NuclearNorm::aim(double mu, bool corrected) {
    const std::int64_t m = rows_.m, p = rows_.p, q = rows_.q, N = N_;
    // sym(A dZ Z^-1) with dZ = -[0 dS; dS' 0]/2, symmetrised into `out`
    const auto product = [&](const double* A, double* out) {
        dense::transpose(dS_.data(), q, half_.data(), p, p, q);
        dense::multiply(Write::assign, -0.5, A + p, N, half_.data(), p, product_.data(), N, N, q, p);
        dense::multiply(Write::assign, -0.5, A, N, dS_.data(), q, product_.data() + p, N, N, p, q);
        dense::multiply(Write::assign, 1, product_.data(), N, Zinv_.data(), N, big_.data(), N, N, N, N);
        for (std::int64_t i = 0; i < N; ++i)
            for (std::int64_t j = 0; j < N; ++j) out[i * N + j] = 0.5 * (big_[i * N + j] + big_[j * N + i]);
    };
    if (corrected) {
        product(dX_.data(), predicted_.data());
        row_values(predicted_.data() + p, N, rhs_.data());
        for (std::int64_t k = 0; k < m; ++k) cross_[k] = dslack_[k] * dlambda_[k] / lambda_[k];
    } else {
        std::fill_n(rhs_.data(), m, 0.0);
        std::fill_n(cross_.data(), m, 0.0);
    }
    for (std::int64_t k = 0; k < m; ++k) {
        rhs_[k] += 1 - mu * Zab_[rows_.input[k] * m + k] + mu / lambda_[k] - cross_[k];
        dlambda_[k] = rhs_[k];
    }
    dense::solve_lower(H_.data(), m, m, dlambda_.data());
    dense::solve_upper(H_.data(), m, m, dlambda_.data());
    weighted_sum(dlambda_.data(), dS_.data());
    product(X_.data(), dX_.data());
    for (std::int64_t i = 0; i < N * N; ++i) {
        dX_[i] = mu * Zinv_[i] - X_[i] - dX_[i];
        if (corrected) dX_[i] -= predicted_[i];
    }
    for (std::int64_t k = 0; k < m; ++k)
        dslack_[k] = mu / lambda_[k] - slack_[k] - slack_[k] / lambda_[k] * dlambda_[k] - cross_[k];
}

double NuclearNorm::primal_length(double most) {
    return search(ratio(slack_.data(), dslack_.data(), rows_.m, most), [this](double step) {
        for (std::int64_t i = 0; i < N_ * N_; ++i) trial_[i] = X_[i] + step * dX_[i];
        return dense::cholesky(trial_.data(), N_, N_);
    });
}

double NuclearNorm::dual_length(double most) {
    const std::int64_t p = rows_.p, q = rows_.q;
    return search(ratio(lambda_.data(), dlambda_.data(), rows_.m, most), [&](double step) {
        double *S = product_.data(), *turned = half_.data(), *rest = trial_.data();
        for (std::int64_t i = 0; i < p * q; ++i) S[i] = S_[i] + step * dS_[i];
        dense::transpose(S, q, turned, p, p, q);
        dense::multiply(Write::assign, -1, S, q, turned, p, rest, p, p, q, p);
        for (std::int64_t i = 0; i < p; ++i) rest[i * p + i] += 1;
        return dense::cholesky(rest, p, p);
    });
}

void NuclearNorm::move(double primal, double dual) {
    for (std::int64_t i = 0; i < N_ * N_; ++i) X_[i] += primal * dX_[i];
    for (std::int64_t k = 0; k < rows_.m; ++k) {
        slack_[k] += primal * dslack_[k];
        lambda_[k] += dual * dlambda_[k];
    }
}

// The point and multipliers in the scale of the given rows.
void NuclearNorm::keep(const double* W, std::int64_t ldw, const double* lambda) {
    for (std::int64_t i = 0; i < rows_.p; ++i)
        for (std::int64_t j = 0; j < rows_.q; ++j) best_[i * rows_.q + j] = W[i * ldw + j] * scale_;
    for (std::int64_t k = 0; k < rows_.m; ++k) best_lambda_[k] = lambda[k] * scale_;
}

} // namespace fastmm
