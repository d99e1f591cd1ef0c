// The data of a block of instances, one a lane, laid out for the descent kernel: keys relative to each input's base
// token.
//
// Softmax sees only differences of keys, so the keys of an input are stored relative to one of its tokens, the base:
// its own logit is 0 and its term drops out of the gradient, which is what keeps the sum free of cancellation. Tokens
// whose key equals the base's are merged with it (they share its weight for ever): `merged` counts them, `base_score`
// is their mean score. When another token's weight outgrows the base's, the base moves there. See
// reference.descent_direction.
#pragma once

#include "lanes.hpp"

#include "fastmm/kernels.hpp"

namespace fastmm::FASTMM_ISA {

// Tokens are handled in tiles of at most 8, as even as can be: ten as five and five.
struct Tiling {
    std::int64_t count, least, longer; // tiles, tokens of the shorter ones, number of those with one more
    explicit Tiling(std::int64_t T) : count((T + 7) / 8), least(T / count), longer(T % count) {}
    std::int64_t tokens(std::int64_t k) const { return k < longer ? least + 1 : least; }
};

// A token may outweigh the base four times before the base moves: no ping-pong at ties, and no more than two bits lost.
template <class R> constexpr R base_lead() { return R(1.3862943611198906); }

template <class R> struct DescentBlock {
    using V = Vec<R>;
    static constexpr int width = Lanes<R>::width;

    const DescentLanes<R>& job;
    const std::int64_t n, T, d;
    V* keys;            // (n, T, d): tiles of tokens, inside a tile (d, tokens)
    V* gaps;            // (n, T): score minus base score
    V* masks;           // (n, T): -inf at the base, merged tokens and padding, else 0; the logits' starting value
    V* skips;           // (n, T): -inf where the gap is 0, else 0: these do not count for the common exponent
    V* base_score;      // (n)
    V* merged;          // (n)
    V* logits;          // (n, T) scratch
    V* slopes;          // (n) log |slope of the loss|, when it takes part in the exponent; then also
    V* totals;          // (n) sum of the weights relative to the base's, and
    V* means;           // (n) margin minus base score, or
    V* margins;         // (n) the margin itself, for a hook
    V* p;               // (d)
    V* lost;            // (d) what rounding took from p (floats)
    V* g;               // (d)
    std::int64_t* base; // (n, width) token
    Tiling tiling;
    bool any_skip;

    static std::int64_t vectors(std::int64_t n, std::int64_t T, std::int64_t d) {
        return n * T * (d + 4) + 6 * n + 3 * d;
    }
    static std::int64_t size(std::int64_t n, std::int64_t T, std::int64_t d) {
        const std::int64_t bases = (n * width * 8 + static_cast<std::int64_t>(sizeof(V)) - 1) / sizeof(V);
        return (vectors(n, T, d) + bases) * width;
    }

    explicit DescentBlock(const DescentLanes<R>& lanes)
        : job(lanes), n(lanes.n), T(lanes.T), d(lanes.d), tiling(lanes.T), any_skip(false) {
        V* next = reinterpret_cast<V*>(lanes.workspace);
        const auto take = [&next](std::int64_t count) {
            V* out = next;
            next += count;
            return out;
        };
        keys = take(n * T * d);
        gaps = take(n * T);
        masks = take(n * T);
        skips = take(n * T);
        logits = take(n * T);
        base_score = take(n);
        merged = take(n);
        slopes = take(n);
        totals = take(n);
        means = take(n);
        margins = take(n);
        p = take(d);
        lost = take(d);
        g = take(d);
        base = reinterpret_cast<std::int64_t*>(next);
    }

    // Lays out the data of all lanes, and their starts.
    void load() {
        for (std::int64_t i = 0; i < n; ++i)
            for (int lane = 0; lane < width; ++lane) set_base(lane, i, 0);
        for (std::int64_t j = 0; j < d; ++j) {
            lost[j] = splat(R(0));
            for (int lane = 0; lane < width; ++lane) p[j][lane] = job.p[lane][j];
        }
    }

    std::int64_t length(int lane, std::int64_t i) const { return job.lengths != nullptr ? job.lengths[lane][i] : T; }

    // Stores input i of a lane relative to its token r.
    void set_base(int lane, std::int64_t i, std::int64_t r) {
        const R infinity = static_cast<R>(__builtin_inf());
        const std::int64_t own = length(lane, i);
        const R* from = job.keys[lane] + i * T * d;
        const R* score = job.scores[lane] + i * T;
        const R* top = from + r * d;
        base[i * width + lane] = r;

        R mean = 0, count = 0;
        bool same_scores = true;
        for (std::int64_t t = 0; t < T; ++t) {
            bool same = t < own;
            for (std::int64_t j = 0; same && j < d; ++j) same = from[t * d + j] == top[j];
            masks[i * T + t][lane] = same || t >= own ? -infinity : R(0);
            if (!same) continue;
            mean += score[t];
            count += 1;
            same_scores = same_scores && score[t] == score[r];
        }
        mean = same_scores ? score[r] : mean / count;
        merged[i][lane] = count;
        base_score[i][lane] = mean;

        for (std::int64_t k = 0, t0 = 0; k < tiling.count; t0 += tiling.tokens(k++)) {
            const std::int64_t tokens = tiling.tokens(k);
            V* to = keys + (i * T + t0) * d;
            for (std::int64_t u = 0; u < tokens; ++u) {
                const std::int64_t t = t0 + u;
                const bool out = masks[i * T + t][lane] != 0;
                const R gap = out ? R(0) : score[t] - mean;
                gaps[i * T + t][lane] = gap;
                skips[i * T + t][lane] = !out && gap == 0 ? -infinity : R(0);
                any_skip = any_skip || (!out && gap == 0);
                for (std::int64_t j = 0; j < d; ++j) to[j * tokens + u][lane] = out ? R(0) : from[t * d + j] - top[j];
            }
        }
    }

    // Makes the heaviest token the base in every lane where one outweighs it by far; `moved` is told those lanes.
    template <class Moved> void move_base(std::int64_t i, V highest, const Moved& moved) {
        for (int lane = 0; lane < width; ++lane) {
            if (!(highest[lane] > base_lead<R>())) continue;
            std::int64_t top = 0;
            R most = -static_cast<R>(__builtin_inf());
            for (std::int64_t t = 0; t < T; ++t) {
                const R logit = logits[i * T + t][lane];
                if (logit > most) {
                    most = logit;
                    top = t;
                }
            }
            set_base(lane, i, top);
            moved(lane);
        }
    }

    // True when some token of the lane can pull: otherwise the gradient is zero whatever p is.
    bool has_terms(int lane) const {
        for (std::int64_t k = 0; k < n * T; ++k)
            if (masks[k][lane] == 0 && skips[k][lane] == 0) return true;
        return false;
    }
};

} // namespace fastmm::FASTMM_ISA
