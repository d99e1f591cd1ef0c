// What the kernel for runs in any parameters does with a tile of tokens.
#pragma once

#include "descent_tiles.hpp"

namespace fastmm::FASTMM_ISA {

// Logits relative to the base, and with a trained head the scores relative to the base's.
template <bool head> struct JointLogits {
    const DescentBlock<double>& b;
    const Doubles *keys, *masks, *query, *v;
    Doubles label;
    Doubles *gaps, *skips, *logits;
    Doubles& counted; // largest logit among the tokens whose score differs from the base's
    Doubles& highest; // largest of all
    Doubles& extreme; // largest size of any, to tell an overflow
    template <int U> FASTMM_INLINE void operator()(std::int64_t t0) const {
        Doubles sums[U], scores[U];
        const Doubles* k = keys + t0 * b.d;
#pragma GCC unroll 8
        for (int u = 0; u < U; ++u) sums[u] = scores[u] = splat(0.0);
        for (std::int64_t j = 0; j < b.d; ++j, k += U) {
            const Doubles qj = query[j];
#pragma GCC unroll 8
            for (int u = 0; u < U; ++u) sums[u] = fma(k[u], qj, sums[u]);
            if constexpr (head) {
                const Doubles vj = v[j];
#pragma GCC unroll 8
                for (int u = 0; u < U; ++u) scores[u] = fma(k[u], vj, scores[u]);
            }
        }
        const Doubles none = splat(-__builtin_inf());
#pragma GCC unroll 8
        for (int u = 0; u < U; ++u) {
            extreme = larger(absolute<double>(sums[u]), extreme);
            const Doubles logit = sums[u] + masks[t0 + u];
            if constexpr (head) {
                const Doubles gap = label * scores[u];
                gaps[t0 + u] = gap;
                skips[t0 + u] = choose<double>(gap == splat(0.0), none, splat(0.0));
            }
            logits[t0 + u] = logit;
            counted = larger(logit + skips[t0 + u], counted);
            highest = larger(logit, highest);
        }
    }
};

// Adds the pulls of a tile's tokens on the query, and with a trained head their part of the pooled tokens.
template <bool head> struct JointPull {
    const DescentBlock<double>& b;
    const Doubles *keys, *gaps, *skips, *weights;
    Doubles factor;            // one over the sum of weights
    Doubles unit;              // e^shift
    Doubles mean, scaled_mean; // margin minus base score, and the same divided by e^shift
    Doubles *pull, *pooled;
    template <int U> FASTMM_INLINE void operator()(std::int64_t t0) const {
        Doubles w[U], s[U];
        const Doubles* k = keys + t0 * b.d;
#pragma GCC unroll 8
        for (int u = 0; u < U; ++u) {
            const Doubles e = factor * weights[t0 + u];
            const Int64s skip = skips[t0 + u] != splat(0.0);
            w[u] = choose<double>(skip, -e * scaled_mean, e * (gaps[t0 + u] - mean));
            s[u] = choose<double>(skip, e, e * unit);
        }
        for (std::int64_t j = 0; j < b.d; ++j, k += U) {
            Doubles sum = pull[j], part = head ? pooled[j] : splat(0.0);
#pragma GCC unroll 8
            for (int u = 0; u < U; ++u) {
                sum = fma(w[u], k[u], sum);
                if constexpr (head) part = fma(s[u], k[u], part);
            }
            pull[j] = sum;
            if constexpr (head) pooled[j] = part;
        }
    }
};

} // namespace fastmm::FASTMM_ISA
