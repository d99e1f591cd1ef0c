// min ||W||_* subject to z_i(k)' W delta_k >= 1: a primal-dual interior point, finished by Newton's method on factors.
//
// The dual is max sum(lambda) over lambda >= 0 with || sum lambda_k z delta' || <= 1 (spectral norm). As a semidefinite
// program: X = [U W; W' V] >= 0 of least half trace against Z = [I -S; -S' I]/2 >= 0, S = sum lambda_k z delta'. Steps
// are those of Helmberg, Rendl, Vanderbei and Wolkowicz, "An interior-point method for semidefinite programming"
// (1996), with Mehrotra's corrector. Both sides stay feasible, so half trace(X) - sum(lambda) always bounds the error.
// Near the end X has the rank of W: with X = F F', F = [L; R], the conditions [I -S; -S' I] F = 0 and
// z' L R' delta = 1 on the active rows are solved by Newton's method to the last digits, and W = L R' has that rank.
#pragma once

#include "fastmm/active_set.hpp"
#include "fastmm/aligned.hpp"

#include <cstdint>
#include <vector>

namespace fastmm {

class NuclearNorm {
public:
    // One program of n queries of length p and m rows of length q, all contiguous.
    struct Rows {
        const double* z = nullptr;           // (n, p)
        const std::int64_t* input = nullptr; // (m,): the query of each row
        const double* delta = nullptr;       // (m, q)
        std::int64_t n = 0, m = 0, p = 0, q = 0;
    };

    // Makes room for programs of up to these sizes; later calls within it do not allocate.
    void reserve(std::int64_t n, std::int64_t m, std::int64_t p, std::int64_t q);

    // `start` (p, q) satisfies all rows. Returns optimal when the best point found is certified to 1e-9 by the bound
    // above, else how it ended.
    Status solve(const Rows& rows, const double* start, const Limits& limits, Pulse& pulse);

    const double* point() const { return best_.data(); }              // (p, q)
    const double* multipliers() const { return best_lambda_.data(); } // (m,)
    std::int64_t steps() const { return steps_; }

private:
    // nuclear.cpp: the interior point
    void begin(const double* start);
    double measure();
    bool factor();
    void aim(double mu, bool corrected);
    double primal_length(double most);
    double dual_length(double most);
    void move(double primal, double dual);
    void keep(const double* W, std::int64_t ldw, const double* lambda);

    // nuclear_finish.cpp: Newton's method
    bool finish();
    std::int64_t factor_of_point();
    bool newton(std::int64_t rank, std::int64_t active);
    bool holds(std::int64_t rank);

    void row_values(const double* W, std::int64_t ldw, double* out);
    void weighted_sum(const double* weight, double* out);

    Rows rows_;
    std::int64_t N_ = 0; // p + q
    std::int64_t steps_ = 0;
    double scale_ = 1; // of the rows: the start has Frobenius norm 1 in them
    AlignedVector<double> delta_, delta_t_, z_t_;
    AlignedVector<double> X_, dX_, predicted_, S_, dS_, lambda_, dlambda_, slack_, dslack_, cross_;
    AlignedVector<double> Zinv_, H_, trial_, half_, product_, big_, query_, rhs_, values_;
    AlignedVector<double> Xaa_, Xab_, Zaa_, Zab_, Zbb_;
    AlignedVector<double> best_, best_lambda_;
    // of the finish
    AlignedVector<double> F_, residual_, B_, gram_, cross_factor_;
    std::vector<std::int64_t> active_;
};

} // namespace fastmm
