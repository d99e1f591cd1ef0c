// Attention weights and softmax of batches of rows.
#pragma once

#include "fastmm/batch.hpp"
#include "fastmm/parallel.hpp"

namespace fastmm {

// Softmax (or its logarithm) of rows of T logits; the entries behind lengths[row] get 0 (-inf). Returns the first row
// with NaN or +inf among its logits, or -1.
template <class R> std::int64_t softmax_rows(const R* logits, std::int64_t rows, std::int64_t T,
                                             const std::int64_t* lengths, bool logarithm, R* out);

// Weights softmax(K_i p) of all inputs of a batch: out is (batch, n, T); scores are not used. Returns true when
// stopped.
template <class R>
bool attention_weights(const TokenBatch<R>& tokens, const Blocks<double>& p, R* out, int threads, Monitor* monitor);

// Token scores Y_i (x_it v): products and sums are rounded one by one in a fixed order, the same on every machine, so
// that tokens whose scores agree in this arithmetic are ties everywhere.
template <class R> bool token_scores(const TokenBatch<R>& tokens, const Blocks<R>& labels, const Blocks<R>& v, R* out,
                                     int threads, Monitor* monitor);

} // namespace fastmm
