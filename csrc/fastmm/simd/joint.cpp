// Gradients of runs in any parameters, one instance a vector lane; factored and free of cancellation.
//
// Logits of input i are K_i q_i with q_i = p, W' z_i or K Q' z_i. Each input's pull on its own query is computed with
// an exponent of its own; the sums over the inputs take the largest exponent out. See reference.descent_direction.
#include "joint.hpp"

#include "joint_tiles.hpp"
#include "loss_lanes.hpp"

namespace fastmm::FASTMM_ISA {
namespace {

using V = Doubles;
constexpr int width = Lanes<double>::width;

// a function: a constant would be computed when the module is loaded, with instructions the processor may lack
V none() { return splat(-__builtin_inf()); }

// Arrays of a block beside those of its keys.
struct JointBlock {
    const JointLanes& job;
    DescentBlock<double> block;
    const std::int64_t n, T, d, d_q, m;
    V *z, *queries, *inner, *pulls, *pooled, *base_keys, *exponents, *slopes, *labels, *pulled;

    static std::int64_t vectors(const JointLanes& job) {
        const std::int64_t n = job.data.n, d = job.data.d;
        return n * (job.d_q + 4 * d + job.m + 3) + job.m;
    }

    explicit JointBlock(const JointLanes& lanes)
        : job(lanes), block(lanes.data), n(lanes.data.n), T(lanes.data.T), d(lanes.data.d), d_q(lanes.d_q), m(lanes.m) {
        V* next = reinterpret_cast<V*>(lanes.data.workspace + DescentBlock<double>::size(n, T, d));
        const auto take = [&next](std::int64_t count) {
            V* out = next;
            next += count;
            return out;
        };
        z = take(n * d_q);
        queries = take(n * d);
        inner = take(n * m);
        pulls = take(n * d);
        pooled = take(n * d);
        base_keys = take(n * d);
        exponents = take(n);
        slopes = take(n);
        labels = take(n);
        pulled = take(m);
        block.any_skip = true;
    }

    void load() {
        block.load();
        for (int lane = 0; lane < width; ++lane)
            for (std::int64_t i = 0; i < n; ++i) {
                for (std::int64_t k = 0; k < d_q; ++k) z[i * d_q + k][lane] = job.queries[lane][i * d_q + k];
                if (job.v != nullptr) labels[i][lane] = job.labels[lane][i];
                keep_base(lane, i);
            }
    }

    // The base's own key, which the pooled tokens are relative to.
    void keep_base(int lane, std::int64_t i) {
        const double* key = job.data.keys[lane] + (i * T + block.base[i * width + lane]) * d;
        for (std::int64_t j = 0; j < d; ++j) base_keys[i * d + j][lane] = key[j];
    }
};

// log(1 + y) for 0 <= y <= 1, as the series of 2 artanh(y / (2 + y)).
V log1p_lanes(V y) {
    const V s = y / (splat(2.0) + y), square = s * s;
    V sum = splat(1.0 / 33.0);
    for (int k = 15; k >= 0; --k) sum = fma(sum, square, splat(1.0 / (2 * k + 1)));
    return splat(2.0) * s * sum;
}

// log |slope| of the loss, at any margin.
V log_slope(LossKind kind, V margin) {
    if (kind == LossKind::correlation) return splat(0.0);
    if (kind == LossKind::exponential) return -margin;
    return -larger(margin, splat(0.0)) - log1p_lanes(exp_cut<double>(-absolute<double>(margin)));
}

class JointGradient {
public:
    explicit JointGradient(const JointLanes& lanes) : job(lanes), b(lanes) {}

    void run() {
        make_queries();
        broken = none() != none();
        V least = splat(1.0);
        for (std::int64_t i = 0; i < b.n; ++i)
            least = job.v != nullptr ? input<true>(i, least) : input<false>(i, least);
        store<double>(job.saturation, least);
        if (job.pulls) sum_attention();
        if (job.v != nullptr) sum_head();
    }

private:
    static const V* vectors(const double* lanes) { return reinterpret_cast<const V*>(lanes); }
    static V* vectors(double* lanes) { return reinterpret_cast<V*>(lanes); }

    // out (d) = sum over k of a_k B_k, with B (count, d).
    static void combine(const V* a, const V* B, std::int64_t count, std::int64_t d, V* out) {
        for (std::int64_t j = 0; j < d; ++j) out[j] = splat(0.0);
        for (std::int64_t k = 0; k < count; ++k)
            for (std::int64_t j = 0; j < d; ++j) out[j] = fma(a[k], B[k * d + j], out[j]);
    }

    // out (rows, columns) += factor left right'.
    static void add_outer(V factor, const V* left, std::int64_t rows, const V* right, std::int64_t columns, V* out) {
        for (std::int64_t k = 0; k < rows; ++k) {
            const V own = factor * left[k];
            for (std::int64_t j = 0; j < columns; ++j) out[k * columns + j] = fma(own, right[j], out[k * columns + j]);
        }
    }

    void make_queries() {
        if (job.p != nullptr) return;
        for (std::int64_t i = 0; i < b.n; ++i) {
            V* query = b.queries + i * b.d;
            if (job.W != nullptr) {
                combine(b.z + i * b.d_q, vectors(job.W), b.d_q, b.d, query);
                continue;
            }
            V* inner = b.inner + i * b.m;
            combine(b.z + i * b.d_q, vectors(job.Q), b.d_q, b.m, inner);
            const V* K = vectors(job.K);
            for (std::int64_t j = 0; j < b.d; ++j) {
                V sum = splat(0.0);
                for (std::int64_t a = 0; a < b.m; ++a) sum = fma(K[j * b.m + a], inner[a], sum);
                query[j] = sum;
            }
        }
    }

    // Pull, exponent, pooled tokens and margin of one input.
    template <bool head> V input(std::int64_t i, V least) {
        auto& block = b.block;
        const std::int64_t at = i * b.T;
        const V* keys = block.keys + at * b.d;
        V counted = none(), highest = splat(0.0), extreme = splat(0.0);
        const V label = head ? b.labels[i] : splat(1.0);
        const JointLogits<head> logits{block,
                                       keys,
                                       block.masks + at,
                                       job.p != nullptr ? vectors(job.p) : b.queries + i * b.d,
                                       vectors(job.v),
                                       label,
                                       block.gaps + at,
                                       block.skips + at,
                                       block.logits + at,
                                       counted,
                                       highest,
                                       extreme};
        for_tiles(block.tiling, logits);
        if (any(highest > splat(base_lead<double>()))) {
            block.move_base(i, highest, [&](int lane) { b.keep_base(lane, i); });
            counted = none();
            highest = splat(0.0);
            for_tiles(block.tiling, logits);
        }
        broken |= ~(extreme < splat(__builtin_inf()));

        const V shift = zero_where<double>(counted == none(), counted), unit = exp_cut<double>(shift);
        V sum = splat(0.0), skipped = splat(0.0), gain = splat(0.0);
        for_tiles(block.tiling, Weights<double>{block, block.gaps + at, block.skips + at, block.logits + at, shift, sum,
                                                skipped, gain});
        const V factor = splat(1.0) / fma(unit, sum, block.merged[i] + skipped);
        const V scaled_mean = gain * factor, mean = unit * scaled_mean;
        V base_score = block.base_score[i];
        if constexpr (head) {
            base_score = splat(0.0);
            for (std::int64_t j = 0; j < b.d; ++j)
                base_score = fma(b.base_keys[i * b.d + j], vectors(job.v)[j], base_score);
            base_score *= label;
        }
        const V margin = base_score + mean;
        store<double>(job.margins + i * width, margin);
        b.slopes[i] = log_slope(job.data.loss, margin);
        b.exponents[i] = counted + b.slopes[i];
        V *pull = b.pulls + i * b.d, *pooled = b.pooled + i * b.d;
        for (std::int64_t j = 0; j < b.d; ++j) {
            pull[j] = splat(0.0);
            pooled[j] = b.base_keys[i * b.d + j];
        }
        for_tiles(block.tiling, JointPull<head>{block, keys, block.gaps + at, block.skips + at, block.logits + at,
                                                factor, unit, mean, scaled_mean, pull, pooled});
        return -larger(-(factor * exp_cut<double>(highest)), -least);
    }

    // The common exponent, and for each input the factor that brings it there.
    V common_exponent(const V* exponents) const {
        V out = none();
        for (std::int64_t i = 0; i < b.n; ++i) out = larger(exponents[i], out);
        return out;
    }
    static V factor_of(V exponent, V common) {
        return zero_where<double>(exponent == none(), exp_cut<double>(exponent - common));
    }

    void sum_attention() {
        const V common = common_exponent(b.exponents);
        const auto clear = [](double* out, std::int64_t count) {
            for (std::int64_t k = 0; out != nullptr && k < count; ++k) vectors(out)[k] = splat(0.0);
        };
        clear(job.of_p, b.d);
        clear(job.of_W, b.d_q * b.d);
        clear(job.of_Q, b.d_q * b.m);
        clear(job.of_K, b.d * b.m);
        for (std::int64_t i = 0; i < b.n; ++i) {
            const V factor = factor_of(b.exponents[i], common);
            const V *pull = b.pulls + i * b.d, *z = b.z + i * b.d_q;
            if (job.of_p != nullptr) {
                for (std::int64_t j = 0; j < b.d; ++j)
                    vectors(job.of_p)[j] = fma(factor, pull[j], vectors(job.of_p)[j]);
            } else if (job.of_W != nullptr) {
                add_outer(factor, z, b.d_q, pull, b.d, vectors(job.of_W));
            } else {
                add_outer(factor, pull, b.d, b.inner + i * b.m, b.m, vectors(job.of_K));
                combine(pull, vectors(job.K), b.d, b.m, b.pulled);
                add_outer(factor, z, b.d_q, b.pulled, b.m, vectors(job.of_Q));
            }
        }
        store<double>(job.scale, mark_broken(common));
    }

    void sum_head() {
        const V common = common_exponent(b.slopes);
        V* out = vectors(job.of_v);
        for (std::int64_t j = 0; j < b.d; ++j) out[j] = splat(0.0);
        for (std::int64_t i = 0; i < b.n; ++i) {
            const V factor = factor_of(b.slopes[i], common) * b.labels[i];
            for (std::int64_t j = 0; j < b.d; ++j) out[j] = fma(factor, b.pooled[i * b.d + j], out[j]);
        }
        store<double>(job.scale_v, mark_broken(common));
    }

    V mark_broken(V scale) const { return choose<double>(broken, splat(__builtin_nan("")), scale); }

    const JointLanes& job;
    JointBlock b;
    Int64s broken; // lanes in which a logit overflowed
};

} // namespace

std::int64_t joint_workspace(const JointLanes& job) {
    return DescentBlock<double>::size(job.data.n, job.data.T, job.data.d) + JointBlock::vectors(job) * width;
}

void joint_load(const JointLanes& job) { JointBlock(job).load(); }

void joint_gradient(const JointLanes& job) { JointGradient(job).run(); }

} // namespace fastmm::FASTMM_ISA
