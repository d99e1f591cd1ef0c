// What the descent kernel does with a tile of tokens: logits, weights, and their pull on the direction.
#pragma once

#include "descent_block.hpp"
#include "exponential.hpp"

namespace fastmm::FASTMM_ISA {

// Calls body.operator()<tokens>(first token) for every tile of an input.
template <class Body> FASTMM_INLINE void for_tiles(const Tiling& tiling, const Body& body) {
    std::int64_t t0 = 0;
    for (std::int64_t k = 0; k < tiling.count; ++k) {
        const std::int64_t tokens = tiling.tokens(k);
        switch (tokens) {
        case 1:
            body.template operator()<1>(t0);
            break;
        case 2:
            body.template operator()<2>(t0);
            break;
        case 3:
            body.template operator()<3>(t0);
            break;
        case 4:
            body.template operator()<4>(t0);
            break;
        case 5:
            body.template operator()<5>(t0);
            break;
        case 6:
            body.template operator()<6>(t0);
            break;
        case 7:
            body.template operator()<7>(t0);
            break;
        default:
            body.template operator()<8>(t0);
            break;
        }
        t0 += tokens;
    }
}

// Logits of a tile relative to the base.
template <class R> struct Logits {
    using V = Vec<R>;
    const DescentBlock<R>& b;
    const V* keys;
    const V* masks;
    const V* skips;
    V* logits;
    V& counted; // largest logit among the tokens that count for the exponent
    V& highest; // largest of all
    template <int U> FASTMM_INLINE void operator()(std::int64_t t0) const {
        V sums[U];
        const V* k = keys + t0 * b.d;
#pragma GCC unroll 8
        for (int u = 0; u < U; ++u) sums[u] = masks[t0 + u];
        for (std::int64_t j = 0; j < b.d; ++j, k += U) {
            const V pj = b.p[j];
#pragma GCC unroll 8
            for (int u = 0; u < U; ++u) sums[u] = fma(k[u], pj, sums[u]);
        }
#pragma GCC unroll 8
        for (int u = 0; u < U; ++u) {
            logits[t0 + u] = sums[u];
            counted = larger(b.any_skip ? sums[u] + skips[t0 + u] : sums[u], counted);
            highest = larger(sums[u], highest);
        }
    }
};

// Attention weights of a tile relative to the base's.
template <class R> struct Weights {
    using V = Vec<R>;
    using M = Mask<R>;
    const DescentBlock<R>& b;
    const V* gaps;
    const V* skips;
    V* logits; // in: logits; out: weights relative to the base's, divided by e^shift (those of skipped tokens are
               // not)
    V shift;
    V& sum;
    V& skipped;
    V& gain; // sum of weight times gap
    template <int U> FASTMM_INLINE void operator()(std::int64_t t0) const {
#pragma GCC unroll 8
        for (int u = 0; u < U; ++u) {
            const V gap = gaps[t0 + u];
            V e;
            if (b.any_skip) {
                const M skip = skips[t0 + u] != splat(R(0));
                e = exp_cut<R>(logits[t0 + u] - zero_where<R>(skip, shift));
                skipped += zero_where<R>(~skip, e);
                sum += zero_where<R>(skip, e);
            } else {
                e = exp_cut<R>(logits[t0 + u] - shift);
                sum += e;
            }
            gain = fma(e, gap, gain);
            logits[t0 + u] = e;
        }
    }
};

// Adds what the tokens of a tile pull to the direction.
template <class R> struct Pull {
    using V = Vec<R>;
    using M = Mask<R>;
    const DescentBlock<R>& b;
    const V* keys;
    const V* gaps;
    const V* skips;
    const V* weights;
    V factor;
    V mean;        // margin minus base score
    V scaled_mean; // the same divided by e^shift
    template <int U> FASTMM_INLINE void operator()(std::int64_t t0) const {
        V w[U];
        const V* k = keys + t0 * b.d;
#pragma GCC unroll 8
        for (int u = 0; u < U; ++u) {
            const V e = factor * weights[t0 + u];
            w[u] = e * (gaps[t0 + u] - mean);
            if (b.any_skip) w[u] = choose<R>(skips[t0 + u] != splat(R(0)), -e * scaled_mean, w[u]);
        }
        for (std::int64_t j = 0; j < b.d; ++j, k += U) {
            V even = b.g[j], odd = splat(R(0));
#pragma GCC unroll 8
            for (int u = 0; u < U; ++u) {
                if (u % 2 == 0)
                    even = fma(w[u], k[u], even);
                else
                    odd = fma(w[u], k[u], odd);
            }
            b.g[j] = U > 1 ? even + odd : even;
        }
    }
};

} // namespace fastmm::FASTMM_ISA
