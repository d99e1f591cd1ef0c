// Entry points of the one-pass kernels over the rows of one input or of a stretch of inputs.
#pragma once

#include "fastmm/kernels.hpp"

namespace fastmm::FASTMM_ISA {

template <class R> void gradient_rows(GradientRows<R>& rows);
template <class R> void logits_row(const R* keys, std::int64_t T, std::int64_t d, const double* p, double* out);
template <class R>
void scores_row(const R* values, std::int64_t T, std::int64_t d, const double* v, double label, double* out);
bool softmax_row(const double* logits, std::int64_t T, bool logarithm, double* out, double* workspace);

} // namespace fastmm::FASTMM_ISA
