// min 1/2 |w|^2 subject to a.w >= b and a.w = b, by a dual active set with a certificate recomputed from the rows.
//
// Goldfarb and Idnani, "A numerically stable dual method for solving strictly convex quadratic programs" (1983), with
// the identity as Hessian: w starts at 0, the most violated row enters, rows whose multiplier reaches 0 leave, and the
// length of w grows until no row is violated. Each step costs one pass over the rows and a few over the active ones.
#pragma once

#include "fastmm/parallel.hpp"
#include "fastmm/row_blocks.hpp"
#include "fastmm/working_set.hpp"

#include <chrono>
#include <cstdint>

namespace fastmm {

// The codes of fastmm.Status.
enum class Status : std::int8_t { optimal = 0, infeasible = 1, ill_conditioned = 2, max_iter = 3, time_limit = 4 };

struct Limits {
    std::int64_t steps = -1; // active-set changes a program may take; negative: enough for any that converges
    bool timed = false;
    std::chrono::steady_clock::time_point deadline{};

    bool late() const { return timed && std::chrono::steady_clock::now() >= deadline; }
};

// Residuals of a point and multipliers, each relative to the size of what it is made of.
struct Residuals {
    double primal = 0, stationarity = 0, gap = 0;
};

struct Verdict {
    Status status = Status::ill_conditioned;
    std::int64_t steps = 0;
    Residuals residuals;
};

class ActiveSet {
public:
    explicit ActiveSet(const MarginKernels& kernels) : rows_(kernels), work_(kernels), kernels_(kernels) {}

    // Makes room for programs of up to `most` rows in d variables; solving them then does not allocate.
    void reserve(std::int64_t most, std::int64_t d);
    RowBlocks& rows() { return rows_; }

    // Solves the program in rows(). `guess` lists rows expected to be active, the most likely first.
    Verdict solve(const std::int64_t* guess, std::int64_t guesses, const Limits& limits, Pulse& pulse);

    const double* point() const { return w_.data(); }           // in the stored rows' scale
    const double* multipliers() const { return dense_.data(); } // of all rows, or the Farkas vector when infeasible
    const unsigned char* neighbors() const { return neighbor_.data(); } // 1 for rows on the margin of an optimal point

private:
    static constexpr unsigned char most_returns = 8; // after which a row is not looked at again
    enum class Step { entered, infeasible, stopped };

    // active_set.cpp: the method
    std::int64_t begin();
    Step run(const std::int64_t* guess, std::int64_t guesses);
    Step equalities();
    void warm(const std::int64_t* guess, std::int64_t guesses);
    Step enter(std::int64_t row);
    void drop(std::int64_t k, double* zz);
    std::int64_t price();
    bool stop();
    double point_norm() const;

    // active_set_finish.cpp: the exact end and the proofs
    void solve_active();
    void refine();
    std::int64_t accurate_price();
    void accurate_slack(std::int64_t row);
    Status judge(Residuals& residuals);
    bool prove_infeasible(std::int64_t row, double sign, double scale);
    bool verify_farkas(std::int64_t row, double sign, double negligible);

    RowBlocks rows_;
    WorkingSet work_;
    const MarginKernels& kernels_;
    const Limits* limits_ = nullptr;
    Pulse* pulse_ = nullptr;
    Status stopped_ = Status::max_iter;
    std::int64_t steps_ = 0, most_steps_ = 0, spent_ = 0;
    double uncertainty_ = 0; // of a computed a.w, relative to |a| |w|

    AlignedVector<double> w_, z_, residual_, move_; // length d, padded with zeros
    // of the active rows: multiplier, right-hand side, sign (an equality may be turned), norm, and what steps need
    AlignedVector<double> u_, goal_, sign_, size_, c_, r_, h_, change_;
    std::vector<std::int64_t> active_;
    AlignedVector<double> weight_, floor_, slack_, dense_; // of all rows
    std::vector<unsigned char> returns_, neighbor_;        // returns_: how often accurate_price() chose the row
};

} // namespace fastmm
