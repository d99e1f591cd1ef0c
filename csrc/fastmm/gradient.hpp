// Loss and gradients in p and v of a batch of problems; the same bits for any number of threads and any batch.
#pragma once

#include "fastmm/aligned.hpp"
#include "fastmm/batch.hpp"
#include "fastmm/kernels.hpp"
#include "fastmm/parallel.hpp"

#include <vector>

namespace fastmm {

template <class R> struct GradientBatch {
    TokenBatch<R> tokens;
    LossKind loss;
    Blocks<double> p; // (d)
    Blocks<R> values; // (n, T, d_v), with labels: asks for the gradient in v
    Blocks<R> labels; // (n)
    std::int64_t d_v = 0;
};

// A gradient of the risk, with its exponent apart: minus the gradient is e^log_norm * unit.
struct Factored {
    double log_norm; // -inf when the gradient is exactly zero, NaN when logits overflow
    double* unit;    // direction of steepest descent, of norm 1, or zeros
    double* natural; // the gradient itself, as far as doubles can hold it; may be null
};

// One element of a batch: the scratch space of one worker, made once.
template <class R> class GradientOfOne {
public:
    explicit GradientOfOne(const GradientBatch<R>& batch);

    // Number of multiplications of one evaluation, to tell whether threads pay.
    std::int64_t work() const { return batch_.tokens.n * batch_.tokens.T * batch_.tokens.d; }

    // Evaluates element b at p (any d numbers); returns the risk. `v` is filled when the batch has values.
    double operator()(std::int64_t b, const double* p, Factored& of_p, Factored* of_v, int threads, Monitor* monitor);

private:
    void chunk(std::int64_t b, std::int64_t c, double* scratch);

    const GradientBatch<R>& batch_;
    std::int64_t inputs_, chunks_; // inputs a chunk, chunks
    std::vector<double> p_, scale_p_, scale_v_, losses_;
    AlignedVector<double> parts_p_, parts_v_;
};

// Outputs are (batch) and (batch, d) or (batch, d_v); null where not wanted. Returns true when stopped early.
struct GradientOutputs {
    double* loss;
    double *unit_p, *log_norm_p, *natural_p;
    double *unit_v, *log_norm_v, *natural_v;
};
template <class R>
bool gradient_batch(const GradientBatch<R>& batch, const GradientOutputs& out, int threads, Monitor* monitor);

} // namespace fastmm
