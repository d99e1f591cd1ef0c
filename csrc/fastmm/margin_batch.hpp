// Batches of max-margin programs: rows are built and solved in one workspace a worker, nothing is allocated a program.
#pragma once

#include "fastmm/active_set.hpp"
#include "fastmm/parallel.hpp"

#include <cstdint>

namespace fastmm {

// Where the rows of a batch of programs come from.
class Programs {
public:
    virtual ~Programs() = default;
    std::int64_t count = 0;      // programs
    std::int64_t width = 0;      // of a program's output: places for its inequalities
    std::int64_t d = 0;          // variables
    std::int64_t equalities = 0; // of each program
    std::int64_t most_rows = 0;  // of any program, equalities included

    // Writes the rows of one program, the equalities first; place[r] is where inequality r stands in the output.
    virtual void fill(std::int64_t program, RowBlocks& rows, std::int64_t* place) const = 0;
};

// w'(k_selected - k_t) >= 1, or >= 0 for relaxed inputs, for all tokens t of input i other than the selected one.
template <class R> struct AttPrograms final : Programs {
    const R* K = nullptr;                   // blocks of (n, T, d)
    const std::int64_t* block = nullptr;    // of each program
    const std::int64_t* selected = nullptr; // (count, n)
    const bool* relaxed = nullptr;          // (count, n) or null
    const std::int64_t* lengths = nullptr;  // (count, n) or null; tokens from there on are never read
    std::int64_t n = 0, T = 0;
    void fill(std::int64_t program, RowBlocks& rows, std::int64_t* place) const override;
};

// w'(Y_i r_i) >= 1.
struct LabelPrograms final : Programs {
    const double* R = nullptr; // blocks of (n, d)
    const std::int64_t* block = nullptr;
    const double* Y = nullptr; // (count, n)
    std::int64_t n = 0;
    void fill(std::int64_t program, RowBlocks& rows, std::int64_t* place) const override;
};

// A w >= b, E w = e.
struct RowPrograms final : Programs {
    const double* A = nullptr; // blocks of (m, d)
    const std::int64_t* block = nullptr;
    const double* b = nullptr; // (count, m)
    const double* E = nullptr; // blocks of (equalities, d) or null
    const std::int64_t* E_block = nullptr;
    const double* e = nullptr; // (count, equalities)
    std::int64_t m = 0;
    void fill(std::int64_t program, RowBlocks& rows, std::int64_t* place) const override;
};

// One entry or row for each program; what a program has no answer for keeps the value it was given with.
struct Answers {
    double* point = nullptr;         // (count, d)
    double* dual = nullptr;          // (count, width)
    double* equality_dual = nullptr; // (count, equalities)
    double* farkas = nullptr;        // (count, width)
    double* equality_farkas = nullptr;
    bool* neighbors = nullptr;     // (count, width)
    std::int8_t* status = nullptr; // (count,)
    std::int64_t* steps = nullptr; // (count,)
    double* residuals = nullptr;   // (count, 3): primal, stationarity, gap

    // Those of one program, which has d variables, `width` places for inequalities and some equalities.
    Answers at(std::int64_t program, std::int64_t d, std::int64_t width, std::int64_t equalities) const;
};

// Where to start: multipliers (count, width), points (count, d), or neither.
struct Start {
    const double* dual = nullptr;
    const double* point = nullptr;
};

// Returns true when the monitor asked to stop. Programs not begun by the deadline get the status time_limit.
bool solve_batch(const Programs& programs, const Start& start, const Limits& limits, int threads, Monitor* monitor,
                 const Answers& answers);

} // namespace fastmm
