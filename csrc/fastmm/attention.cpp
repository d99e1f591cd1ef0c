// Attention weights, softmax and token scores; see attention.hpp.
#include "fastmm/attention.hpp"

#include "fastmm/dispatch.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace fastmm {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Calls body(element, input) for all inputs of a batch, a stretch of them at a time.
template <class Prepare, class Input> bool for_inputs(const std::int64_t batch, const std::int64_t n,
                                                      const std::int64_t work, int threads, Monitor* monitor,
                                                      const Prepare& prepare, const Input& input) {
    const std::int64_t stretch = std::max<std::int64_t>(1, (1 << 16) / std::max<std::int64_t>(work, 1));
    const std::int64_t total = batch * n, items = (total + stretch - 1) / stretch;
    const int useful = static_cast<int>(std::min<std::int64_t>(threads, 1 + total * work / (1 << 18)));
    return parallel_for(items, useful, monitor, [&](std::int64_t item, int worker, Pulse& pulse) {
        const std::int64_t end = std::min(total, (item + 1) * stretch);
        std::int64_t last = -1;
        for (std::int64_t k = item * stretch; k < end; ++k) {
            if (k / n != last) prepare(last = k / n, worker);
            input(k / n, k % n, worker);
        }
        pulse.beat();
    });
}

} // namespace

template <class R> std::int64_t softmax_rows(const R* logits, std::int64_t rows, std::int64_t T,
                                             const std::int64_t* lengths, bool logarithm, R* out) {
    std::vector<double> row(static_cast<std::size_t>(padded(T))), result(row), workspace(2 * row.size());
    for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t own = lengths != nullptr ? lengths[r] : T;
        for (std::int64_t t = 0; t < own; ++t)
            row[static_cast<std::size_t>(t)] = static_cast<double>(logits[r * T + t]);
        if (!kernels().softmax64(row.data(), own, logarithm, result.data(), workspace.data())) return r;
        for (std::int64_t t = 0; t < own; ++t) out[r * T + t] = static_cast<R>(result[static_cast<std::size_t>(t)]);
        std::fill(out + r * T + own, out + (r + 1) * T, static_cast<R>(logarithm ? -infinity : 0.0));
    }
    return -1;
}

template <class R>
bool attention_weights(const TokenBatch<R>& tokens, const Blocks<double>& p, R* out, int threads, Monitor* monitor) {
    const std::int64_t n = tokens.n, T = tokens.T, d = tokens.d;
    const auto size = static_cast<std::size_t>(padded(d) + 4 * padded(T)); // a worker's p, logits, weights, scratch
    std::vector<double> memory(size * static_cast<std::size_t>(threads));
    const auto of = [&](int worker) { return memory.data() + static_cast<std::size_t>(worker) * size; };
    return for_inputs(
        tokens.batch, n, T * d, threads, monitor,
        [&](std::int64_t b, int worker) { std::copy(p[b], p[b] + d, of(worker)); },
        [&](std::int64_t b, std::int64_t i, int worker) {
            double* own_p = of(worker);
            double* logits = own_p + padded(d);
            double* weights = logits + padded(T);
            const std::int64_t own = tokens.lengths ? tokens.lengths[b][i] : T;
            KernelsOf<R>::logits(kernels(), tokens.keys[b] + i * T * d, own, d, own_p, logits);
            R* to = out + (b * n + i) * T;
            bool fine = true; // an infinite logit is an overflow here, not a mask
            for (std::int64_t t = 0; t < own; ++t) fine = fine && logits[t] - logits[t] == 0.0;
            fine = fine && kernels().softmax64(logits, own, false, weights, weights + padded(T));
            for (std::int64_t t = 0; t < T; ++t)
                to[t] = t >= own ? R(0) : fine ? static_cast<R>(weights[t]) : std::numeric_limits<R>::quiet_NaN();
        });
}

template <class R> bool token_scores(const TokenBatch<R>& tokens, const Blocks<R>& labels, const Blocks<R>& v, R* out,
                                     int threads, Monitor* monitor) {
    const std::int64_t n = tokens.n, T = tokens.T, d = tokens.d;
    const auto size = static_cast<std::size_t>(padded(d) + padded(T)); // a worker's v and scores
    std::vector<double> memory(size * static_cast<std::size_t>(threads));
    const auto of = [&](int worker) { return memory.data() + static_cast<std::size_t>(worker) * size; };
    return for_inputs(
        tokens.batch, n, T * d, threads, monitor,
        [&](std::int64_t b, int worker) { std::copy(v[b], v[b] + d, of(worker)); },
        [&](std::int64_t b, std::int64_t i, int worker) {
            const std::int64_t own = tokens.lengths ? tokens.lengths[b][i] : T;
            const double* own_v = of(worker);
            double* scores = of(worker) + padded(d);
            KernelsOf<R>::scores(kernels(), tokens.keys[b] + i * T * d, own, d, own_v,
                                 static_cast<double>(labels[b][i]), scores);
            R* to = out + (b * n + i) * T;
            for (std::int64_t t = 0; t < own; ++t) to[t] = static_cast<R>(scores[t]);
            std::fill(to + own, to + T, std::numeric_limits<R>::quiet_NaN());
        });
}

template std::int64_t softmax_rows<double>(const double*, std::int64_t, std::int64_t, const std::int64_t*, bool,
                                           double*);
template std::int64_t softmax_rows<float>(const float*, std::int64_t, std::int64_t, const std::int64_t*, bool, float*);
template bool attention_weights<double>(const TokenBatch<double>&, const Blocks<double>&, double*, int, Monitor*);
template bool attention_weights<float>(const TokenBatch<float>&, const Blocks<double>&, float*, int, Monitor*);
template bool token_scores<double>(const TokenBatch<double>&, const Blocks<double>&, const Blocks<double>&, double*,
                                   int, Monitor*);
template bool token_scores<float>(const TokenBatch<float>&, const Blocks<float>&, const Blocks<float>&, float*, int,
                                  Monitor*);

} // namespace fastmm
