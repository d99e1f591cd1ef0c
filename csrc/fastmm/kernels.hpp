// Arguments of the kernels that exist once for each instruction set; plain data, because those files use nothing else.
#pragma once

#include <cstdint>

namespace fastmm {

enum class LossKind : int { logistic = 0, exponential = 1, correlation = 2 };

// Why the run of one instance ended; codes from first_clause on are clauses of its stopping rule.
enum class StopReason : std::int8_t { steps = 0, zero_gradient = 1, overflow = 2, interrupted = 3 };
constexpr std::int8_t first_clause = 16, most_clauses = 100;

// One step of a block of lanes as a hook sees it. Arrays are (d, lanes) and (n, lanes), the lane fastest.
template <class R> struct LanesStep {
    std::int64_t step, lanes;
    const bool* active;  // lanes whose gradient is neither zero nor broken
    R* p;                // to be moved by the hook
    const R* g;          // minus the gradient of the sum of losses is e^shift * g
    const R* shift;      // (lanes)
    const R* margins;    // (n, lanes)
    const R* saturation; // (lanes) least over the inputs of the largest attention weight
    StopReason* verdict; // (lanes) for the hook to say which lanes end at this iterate
};

// Whole gradient-descent runs in p, one instance a vector lane. Arrays of pointers have one entry a lane; every entry
// must be valid, lanes without work repeat another lane's input and own outputs that nobody reads.
template <class R> struct DescentLanes {
    std::int64_t n, T, d;
    LossKind loss;
    bool normalized;                    // else the plain step lr * gradient
    bool wide;                          // scores beyond wide_scores(): the loss slope takes part in the common exponent
    const R* const* keys;               // (n, T, d)
    const R* const* scores;             // (n, T), labels included
    const std::int64_t* const* lengths; // (n), or null when all sequences are full
    R* const* p;                        // (d), start in and end out
    const R* lr;                        // one a lane
    std::int64_t steps;
    const std::int64_t* record; // increasing step numbers in 0..steps
    std::int64_t records;
    R* const* recorded;                // (records, d) with a distance of record_stride entries between rows
    const std::int64_t* record_stride; // one a lane
    std::int64_t* steps_done;          // one a lane
    StopReason* reason;                // one a lane
    bool (*beat)(void* context, std::int64_t steps);       // reports steps done, tells whether to stop
    void (*hook)(void* context, const LanesStep<R>& step); // takes the steps in place of the kernel, or null
    void* context;
    R* workspace; // workspace_size entries, aligned to a vector
};

// Largest |score| for which the slope of the loss is kept out of the common exponent.
template <class R> constexpr R wide_scores() { return sizeof(R) == 8 ? R(200) : R(25); }

constexpr std::int64_t padded(std::int64_t count) { return (count + 7) / 8 * 8; }

// Loss and gradients of a stretch of inputs of one problem, in one pass over its keys and values. Arithmetic is double.
template <class R> struct GradientRows {
    std::int64_t inputs, T, d, d_v;
    LossKind loss;
    const R* keys;               // (inputs, T, d)
    const R* values;             // (inputs, T, d_v), with v or direction_v; the address of keys when these are the same
    const R* labels;             // (inputs), with values
    const R* scores;             // (inputs, T), labels included; not read when there is a v
    const std::int64_t* lengths; // (inputs) or null
    const double* p;             // (d): the query of all inputs
    const double* queries;       // (inputs, d), instead of p
    const double* v;             // (d_v): scores are label * (value v); or null
    const double* along;         // (d), or null: `direction` is then minus the Hessian in p times this vector

    double* direction;   // (d) out, or null: minus the gradient in p of the sum of losses is e^scale * direction
    double* direction_v; // (d_v) out, or null
    double* pulls;       // (inputs, d) out, with queries, or null: minus the gradient of each loss in its own query is
    double* exponents;   // (inputs) out, with pulls: e^exponent * pull
    bool wants_excess;
    bool above_zero; // the excess is over a loss of 0 instead of that of the best score

    double scale;        // out; -inf when that gradient is exactly zero, NaN when a logit or a score overflows
    double scale_v;      // out
    double loss_sum;     // out
    double saturation;   // out: the least among the inputs' largest softmax weights, NaN when a logit overflows
    double excess_scale; // out, when wanted: the sum of loss - (loss of the best score) is e^excess_scale * excess
    double excess;       // out
    double* workspace;   // rows_workspace(...) entries
};

// Inputs whose losses are worked out together, one a lane.
inline constexpr std::int64_t most_inputs = 8;

// Inputs read at a time: at most so many that they stay in the nearest cache, beside the next ones, until they are
// read again.
constexpr std::int64_t rows_group(std::int64_t T, std::int64_t d) {
    const std::int64_t group = 2048 / (T * d);
    return group < 1 ? 1 : group < most_inputs ? group : most_inputs;
}

// A vector of d entries with room before and behind it, for reading and writing it in vectors that are shifted.
inline constexpr std::int64_t margin = 8;
constexpr std::int64_t with_margins(std::int64_t d) { return padded(d) + 2 * margin; }

// Entries of GradientRows::workspace: numbers of the tokens, the vectors given, and each input's sums beside their
// total.
constexpr std::int64_t rows_workspace(std::int64_t T, std::int64_t d, std::int64_t d_v) {
    return 4 * rows_group(T, d) * padded(T) + (3 + most_inputs) * with_margins(d) +
           (2 + most_inputs) * with_margins(d_v);
}

} // namespace fastmm
