// Loss and gradients of a batch of problems in one pass; the same bits for any number of threads and any batch.
#pragma once

#include "fastmm/aligned.hpp"
#include "fastmm/batch.hpp"
#include "fastmm/factored.hpp"
#include "fastmm/kernels.hpp"
#include "fastmm/parallel.hpp"

#include <vector>

namespace fastmm {

template <class R> struct GradientBatch {
    TokenBatch<R> tokens; // without scores, these are made from values, labels and the point's v inside the pass
    LossKind loss;
    Blocks<R> values; // (n, T, d_v), for the gradient in v and for scores; the block of the keys itself is read once
    Blocks<R> labels; // (n), with values
    std::int64_t d_v = 0;
};

// Where to evaluate one element of a batch.
struct Point {
    const double* p = nullptr;       // (d) one query for all inputs, or
    const double* queries = nullptr; // (n, d) a query for each input (W' z_i); p is then null
    const double* v = nullptr;       // (d_v); when null, scores come from tokens.scores
    const double* along = nullptr;   // (d): Wanted::p is then minus the Hessian in p times this vector
};

// What to evaluate there; null where not wanted.
struct Wanted {
    Factored* p = nullptr;        // only with Point::p
    Factored* v = nullptr;        // only with values
    double* pulls = nullptr;      // (n, d), only with Point::queries: minus the gradient of the i-th loss in its own
    double* exponents = nullptr;  // (n)     query is e^exponent * pull
    double* saturation = nullptr; // least among the inputs' largest softmax weights
    double* log_excess = nullptr; // log of mean_i [loss at z_i - loss at the best score of input i], free of
                                  // cancellation and underflow; -inf when exactly 0
    bool above_zero = false;      // log_excess is that of the loss over 0 (losses that are positive)
};

// One element of a batch: the scratch space of one caller, made once and then used again.
template <class R> class GradientOfOne {
public:
    explicit GradientOfOne(const GradientBatch<R>& batch);

    // Number of multiplications of one evaluation, to tell whether threads pay.
    std::int64_t work() const { return batch_.tokens.n * batch_.tokens.T * batch_.tokens.d; }

    // Evaluates element b at a point; returns the risk (NaN when stopped by the monitor). Log norms, exponents,
    // saturation and excess are NaN when logits or scores overflow.
    double operator()(std::int64_t b, const Point& point, const Wanted& wanted, int threads, Monitor* monitor);

private:
    void chunk(std::int64_t b, std::int64_t c, const Point& point, const Wanted& wanted, double* scratch);

    const GradientBatch<R>& batch_;
    std::int64_t inputs_, chunks_; // inputs a chunk, chunks
    AlignedVector<double> p_, v_, along_, parts_p_, parts_v_, scratch_;
    std::vector<double> scale_p_, scale_v_, losses_, saturation_, excess_scale_, excess_;
};

// The points of a batch; blocks that are absent count as null.
struct GradientPoints {
    Blocks<double> p, queries, v, along;
};

// Outputs are (batch) and (batch, d) or (batch, d_v), pulls (batch, n, d), exponents (batch, n); null where not wanted.
// A gradient is wanted when its log norm is.
struct GradientOutputs {
    double* loss = nullptr;
    double *unit_p = nullptr, *log_norm_p = nullptr, *natural_p = nullptr;
    double *unit_v = nullptr, *log_norm_v = nullptr, *natural_v = nullptr;
    double *pulls = nullptr, *exponents = nullptr;
    double *saturation = nullptr, *log_excess = nullptr;
};

// Returns true when stopped early.
template <class R> bool gradient_batch(const GradientBatch<R>& batch, const GradientPoints& points,
                                       const GradientOutputs& out, int threads, Monitor* monitor);

} // namespace fastmm
