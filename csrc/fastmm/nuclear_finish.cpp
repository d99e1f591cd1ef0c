// Newton's method on the factors and active rows of a nuclear-norm program; see nuclear.hpp.
//
// The matrix I - [0 S; S' 0] is singular at the solution in as many directions as the rank squared, and the factors may
// be rotated. A small multiple of the identity makes every linear system definite without moving the solution: the
// steps then shrink the error by about that factor instead of quadratically.
#include "fastmm/nuclear.hpp"

#include "fastmm/dense.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fastmm {

namespace {

using dense::Write;

constexpr double shift = 1e-5;       // see above
constexpr double cut = 1e-5;         // of the eigenvalues of X taken as not zero; the rows are scaled to W of size 1
constexpr double accuracy = 1e-12;   // of rows, multipliers and spectral norm
constexpr double negligible = 1e-15; // added to the unit diagonal of a matrix that may be singular

void grow(AlignedVector<double>& vector, std::int64_t size) {
    if (static_cast<std::int64_t>(vector.size()) < size) vector.resize(static_cast<std::size_t>(size));
}

} // namespace

bool NuclearNorm::finish() {
    const std::int64_t m = rows_.m;
    const double most = *std::max_element(lambda_.data(), lambda_.data() + m);
    std::int64_t active = 0;
    for (std::int64_t k = 0; k < m; ++k)
        if (lambda_[k] > most * slack_[k]) active_[static_cast<std::size_t>(active++)] = k;
    const std::int64_t rank = factor_of_point();
    return rank > 0 && active > 0 && newton(rank, active) && holds(rank);
}

// X = F F' by Cholesky's method with the largest pivot first, F (N, rank) in F_; 0 when X has no clear rank yet.
std::int64_t NuclearNorm::factor_of_point() {
    const std::int64_t N = N_, most = std::min(rows_.p, rows_.q);
    std::copy_n(X_.data(), N * N, trial_.data());
    double* column = big_.data(); // the columns found so far, one a row
    for (std::int64_t rank = 0;; ++rank) {
        std::int64_t at = 0;
        for (std::int64_t j = 1; j < N; ++j)
            if (trial_[j * N + j] > trial_[at * N + at]) at = j;
        const double pivot = trial_[at * N + at];
        if (!(pivot > cut)) {
            dense::transpose(big_.data(), N, F_.data(), rank, rank, N);
            return rank;
        }
        if (rank == most) return 0;
        const double root = std::sqrt(pivot);
        for (std::int64_t j = 0; j < N; ++j) column[j] = trial_[at * N + j] / root;
        for (std::int64_t i = 0; i < N; ++i)
            for (std::int64_t j = 0; j < N; ++j) trial_[i * N + j] -= column[i] * column[j];
        column += N;
    }
}

// Newton's method for F and the multipliers of the active rows, which end in values_ (0 for all other rows).
bool NuclearNorm::newton(std::int64_t rank, std::int64_t active) {
    constexpr int most_rounds = 10;
    const std::int64_t n = rows_.n, p = rows_.p, q = rows_.q, N = N_, width = active + 1;
    grow(B_, N * rank * width);
    grow(gram_, width * width);
    std::fill_n(values_.data(), rows_.m, 0.0);
    for (std::int64_t k = 0; k < active; ++k) {
        const std::int64_t row = active_[static_cast<std::size_t>(k)];
        values_[row] = lambda_[row];
    }
    double* F = F_.data();
    double *L = F, *R = F + p * rank;
    double last = std::numeric_limits<double>::infinity();
    for (int round = 0; round < most_rounds; ++round) {
        weighted_sum(values_.data(), dS_.data());
        const double* S = dS_.data();
        double* matrix = trial_.data();
        std::fill_n(matrix, N * N, 0.0);
        for (std::int64_t j = 0; j < N; ++j) matrix[j * N + j] = 1 + shift;
        for (std::int64_t i = 0; i < p; ++i)
            for (std::int64_t j = 0; j < q; ++j) matrix[i * N + p + j] = -S[i * q + j];
        // what is left of [I -S; -S' I] F = 0 and of the active rows, which stand in rhs_
        double* rest = residual_.data();
        std::copy_n(F, N * rank, rest);
        dense::multiply(Write::add, -1, S, q, R, rank, rest, rank, p, q, rank);
        dense::multiply_transposed(Write::add, -1, S, q, L, rank, rest + p * rank, rank, q, p, rank);
        double error = 0;
        for (std::int64_t j = 0; j < N * rank; ++j) error = std::max(error, std::fabs(rest[j]));
        dense::multiply(Write::assign, 1, rows_.z, p, L, rank, query_.data(), rank, n, p, rank);
        for (std::int64_t k = 0; k < active; ++k) {
            const std::int64_t row = active_[static_cast<std::size_t>(k)];
            const double *z = rows_.z + rows_.input[row] * p, *delta = delta_.data() + row * q;
            const double* zL = query_.data() + rows_.input[row] * rank;
            double* deltaR = cross_factor_.data();
            dense::multiply(Write::assign, 1, delta, q, R, rank, deltaR, rank, 1, q, rank);
            rhs_[k] = 1;
            for (std::int64_t c = 0; c < rank; ++c) {
                rhs_[k] -= zL[c] * deltaR[c];
                double* B = B_.data() + c * width + k;
                for (std::int64_t i = 0; i < p; ++i) B[i * rank * width] = z[i] * deltaR[c];
                for (std::int64_t j = 0; j < q; ++j) B[(p + j) * rank * width] = delta[j] * zL[c];
            }
            error = std::max(error, std::fabs(rhs_[k]));
        }
        if (!(error < 2 * last)) return false;
        if (error <= 3e-15 || (error <= accuracy && error > 0.5 * last)) return true;
        last = error;
        // as the last column, so that one triangular solve and one product serve all
        for (std::int64_t j = 0; j < N * rank; ++j) B_[j * width + active] = rest[j];
        if (!dense::cholesky(matrix, N, N)) return false;
        dense::solve_lower(matrix, N, N, B_.data(), rank * width, rank * width);
        dense::multiply_transposed(Write::assign, 1, B_.data(), width, B_.data(), width, gram_.data(), width, width,
                                   N * rank, width);
        double *gram = gram_.data(), *unit = dslack_.data(), *step = dlambda_.data();
        for (std::int64_t k = 0; k < active; ++k) {
            if (!(gram[k * width + k] > 0)) return false;
            unit[k] = 1 / std::sqrt(gram[k * width + k]);
            step[k] = (rhs_[k] + gram[k * width + active]) * unit[k];
        }
        for (std::int64_t k = 0; k < active; ++k) {
            for (std::int64_t l = k; l < active; ++l) gram[k * width + l] *= unit[k] * unit[l];
            gram[k * width + k] = 1 + negligible * static_cast<double>(active);
        }
        if (!dense::cholesky(gram, width, active)) return false;
        dense::solve_lower(gram, width, active, step);
        dense::solve_upper(gram, width, active, step);
        for (std::int64_t k = 0; k < active; ++k) {
            step[k] *= unit[k];
            values_[active_[static_cast<std::size_t>(k)]] += step[k];
        }
        for (std::int64_t j = 0; j < N * rank; ++j)
            rest[j] = dense::dot(B_.data() + j * width, step, active) - B_[j * width + active];
        dense::solve_upper(matrix, N, N, rest, rank, rank);
        for (std::int64_t j = 0; j < N * rank; ++j) F[j] += rest[j];
    }
    return false;
}

// Whether L R' and the multipliers in values_ solve the whole program; then they are kept.
bool NuclearNorm::holds(std::int64_t rank) {
    const std::int64_t m = rows_.m, p = rows_.p, q = rows_.q;
    const double most = *std::max_element(values_.data(), values_.data() + m);
    for (std::int64_t k = 0; k < m; ++k) {
        if (values_[k] < -accuracy * most) return false;
        values_[k] = std::max(values_[k], 0.0);
    }
    dense::transpose(F_.data() + p * rank, rank, half_.data(), q, q, rank);
    double* W = product_.data();
    dense::multiply(Write::assign, 1, F_.data(), rank, half_.data(), q, W, q, p, rank, q);
    row_values(W, q, rhs_.data());
    for (std::int64_t k = 0; k < m; ++k)
        if (!(rhs_[k] >= 1 - accuracy)) return false;
    weighted_sum(values_.data(), dS_.data());
    dense::transpose(dS_.data(), q, half_.data(), p, p, q);
    double* inside = trial_.data();
    dense::multiply(Write::assign, -1, dS_.data(), q, half_.data(), p, inside, p, p, q, p);
    for (std::int64_t i = 0; i < p; ++i) inside[i * p + i] += 1 + 10 * accuracy;
    if (!dense::cholesky(inside, p, p)) return false;
    keep(W, q, values_.data());
    return true;
}

} // namespace fastmm
