// Loss and gradients of a stretch of inputs in one pass over the keys, factored and free of cancellation.
#include "exponential.hpp"
#include "row_access.hpp"
#include "rows.hpp"

#include "fastmm/losses.hpp"

#include <cmath>

namespace fastmm::FASTMM_ISA {

// (k_t - k_0) p for the T tokens of one input. Differences come first: softmax needs no more, and keys far from the
// origin keep their digits.
template <class R> void logits_row(const R* keys, std::int64_t T, std::int64_t d, const double* p, double* out) {
    constexpr int rows = 4, ahead = 1024; // bytes fetched ahead of use
    std::int64_t t = 0;
    for (; t + rows <= T; t += rows) {
        const R* k = keys + t * d;
        Doubles sums[rows];
        for (int u = 0; u < rows; ++u) sums[u] = splat(0.0);
        std::int64_t j = 0;
        for (; j + row_width <= d; j += row_width) {
            const Doubles first = read(keys + j), pj = load<double>(p + j);
#pragma GCC unroll 4
            for (int u = 0; u < rows; ++u) {
                __builtin_prefetch(reinterpret_cast<const char*>(k + u * d + j) + ahead);
                sums[u] = fma(read(k + u * d + j) - first, pj, sums[u]);
            }
        }
        if (j < d) {
            const Doubles first = read_tail(keys + j, d - j), pj = load<double>(p + j);
            for (int u = 0; u < rows; ++u) sums[u] = fma(read_tail(k + u * d + j, d - j) - first, pj, sums[u]);
        }
        for (int u = 0; u < rows; ++u) out[t + u] = sum<double>(sums[u]);
    }
    for (; t < T; ++t) {
        const R* k = keys + t * d;
        Doubles total = splat(0.0);
        for (std::int64_t j = 0; j < d; j += row_width)
            total = fma(read_at(k, j, d) - read_at(keys, j, d), load<double>(p + j), total);
        out[t] = sum<double>(total);
    }
}

namespace {

// to += sum_t w_t (x_t - base) over the tokens of one input; base may be null.
template <class R>
void add_rows(const R* x, std::int64_t T, std::int64_t d, const R* base, const double* w, double* to) {
    constexpr int columns = 4; // vectors of the sum held in registers at a time
    std::int64_t j = 0;
    for (; j + columns * row_width <= d; j += columns * row_width) {
        Doubles sums[columns], from[columns];
        for (int u = 0; u < columns; ++u) {
            sums[u] = load<double>(to + j + u * row_width);
            from[u] = base != nullptr ? read(base + j + u * row_width) : splat(0.0);
        }
        for (std::int64_t t = 0; t < T; ++t) {
            const Doubles wt = splat(w[t]);
            const R* row = x + t * d + j;
#pragma GCC unroll 4
            for (int u = 0; u < columns; ++u) sums[u] = fma(wt, read(row + u * row_width) - from[u], sums[u]);
        }
        for (int u = 0; u < columns; ++u) store<double>(to + j + u * row_width, sums[u]);
    }
    for (; j < d; j += row_width) {
        Doubles total = load<double>(to + j);
        const Doubles from = base != nullptr ? read_at(base, j, d) : splat(0.0);
        for (std::int64_t t = 0; t < T; ++t) total = fma(splat(w[t]), read_at(x + t * d, j, d) - from, total);
        store<double>(to + j, total);
    }
}

// A sum of terms e^exponent * vector whose common exponent grows as needed.
class FactoredSum {
public:
    FactoredSum(double* sum, std::int64_t d) : sum_(sum), count_(padded(d)), scale_(-__builtin_inf()) {
        for (std::int64_t j = 0; j < count_; ++j) sum_[j] = 0.0;
    }

    // The factor by which the next term's vector is to be multiplied before it is added to the sum.
    double admit(double exponent) {
        if (exponent > scale_) {
            const double old = ::exp(scale_ - exponent);
            for (std::int64_t j = 0; j < count_; ++j) sum_[j] *= old;
            scale_ = exponent;
            return 1.0;
        }
        return ::exp(exponent - scale_);
    }

    double scale() const { return scale_; }

private:
    double* sum_;
    std::int64_t count_;
    double scale_;
};

template <class R> class RowsPass {
public:
    explicit RowsPass(GradientRows<R>& rows)
        : a(rows), e(rows.workspace), gaps(rows.workspace + padded(rows.T)), sum_p(rows.direction, rows.d),
          sum_v(rows.direction_v, rows.values != nullptr ? rows.d_v : 0) {}

    void run() {
        a.loss_sum = 0.0;
        for (std::int64_t i = 0; i < a.inputs; ++i) input(i);
        a.scale = overflow ? __builtin_nan("") : sum_p.scale();
        a.scale_v = overflow ? __builtin_nan("") : sum_v.scale();
    }

private:
    void input(std::int64_t i) {
        const std::int64_t own = a.lengths != nullptr ? a.lengths[i] : a.T;
        const R* keys = a.keys + i * a.T * a.d;
        const R* scores = a.scores + i * a.T;
        logits_row(keys, own, a.d, a.p, e);

        std::int64_t top = 0;
        for (std::int64_t t = 1; t < own; ++t)
            if (e[t] > e[top]) top = t;
        const double highest = e[top];

        // tokens with the top token's key share its weight: they are merged with it (see reference.descent_direction)
        double merged = 0.0, base_score = 0.0;
        bool same_scores = true, finite = true;
        for (std::int64_t t = 0; t < own; ++t) {
            e[t] -= highest;
            finite = finite && e[t] > -__builtin_inf(); // false for NaN too
            if (e[t] != 0.0 || !(t == top || same_key(keys + t * a.d, keys + top * a.d))) continue;
            e[t] = in_base;
            merged += 1.0;
            base_score += static_cast<double>(scores[t]);
            same_scores = same_scores && scores[t] == scores[top];
        }
        base_score = same_scores ? static_cast<double>(scores[top]) : base_score / merged;
        if (!finite) {
            bool flat = a.values == nullptr; // equal scores: whatever the logits are, the gradient in p is zero
            for (std::int64_t t = 1; flat && t < own; ++t) flat = scores[t] == scores[0];
            overflow = overflow || !flat;
            a.loss_sum += flat ? loss_value(a.loss, static_cast<double>(scores[0])) : __builtin_nan("");
            return;
        }

        double exponent = -__builtin_inf(); // largest logit among the tokens whose score differs
        for (std::int64_t t = 0; t < own; ++t) {
            gaps[t] = e[t] == in_base ? 0.0 : static_cast<double>(scores[t]) - base_score;
            if (gaps[t] != 0.0 && e[t] > exponent) exponent = e[t];
        }
        const bool pulls = exponent > -__builtin_inf();
        const double shift = pulls ? exponent : 0.0, unit = ::exp(shift);

        // e becomes the weight relative to the base's; divided by e^shift for the tokens whose score differs
        double sum = 0.0, level = 0.0, gain = 0.0;
        for (std::int64_t t = 0; t < own; ++t)
            e[t] = e[t] == in_base ? -__builtin_inf() : e[t] - (gaps[t] != 0.0 ? shift : 0.0);
        for (std::int64_t t = own; t < padded(own); ++t) e[t] = -__builtin_inf();
        for (std::int64_t t = 0; t < own; t += row_width) store<double>(e + t, exp_cut<double>(load<double>(e + t)));
        for (std::int64_t t = 0; t < own; ++t) {
            (gaps[t] != 0.0 ? sum : level) += e[t];
            gain += e[t] * gaps[t];
        }
        const double total = merged + level + unit * sum;
        const double scaled_mean = gain / total, mean = unit * scaled_mean;
        const double margin = base_score + mean, log_slope = loss_log_slope(a.loss, margin);
        a.loss_sum += loss_value(a.loss, margin);

        if (a.values != nullptr) values(i, own, keys, top, total, unit, log_slope);
        if (!pulls) return;
        const double factor = sum_p.admit(exponent + log_slope) / total;
        for (std::int64_t t = 0; t < own; ++t) e[t] *= factor * (gaps[t] != 0.0 ? gaps[t] - mean : -scaled_mean);
        add_rows(keys, own, a.d, keys + top * a.d, e, a.direction);
    }

    // Adds |slope| Y_i X_i' s_i to the direction in v, with the softmax weights in their natural size.
    void values(std::int64_t i, std::int64_t own, const R* keys, std::int64_t top, double total, double unit,
                double log_slope) {
        const double factor = sum_v.admit(log_slope) * static_cast<double>(a.labels[i]) / total;
        double* w = a.workspace + 2 * padded(a.T);
        for (std::int64_t t = 0; t < own; ++t) {
            const bool in = t == top || (e[t] == 0.0 && same_key(keys + t * a.d, keys + top * a.d));
            w[t] = factor * (in ? 1.0 : gaps[t] != 0.0 ? unit * e[t] : e[t]);
        }
        add_rows<R>(a.values + i * a.T * a.d_v, own, a.d_v, nullptr, w, a.direction_v);
    }

    bool same_key(const R* k, const R* other) const {
        for (std::int64_t j = 0; j < a.d; ++j)
            if (k[j] != other[j]) return false;
        return true;
    }

    static constexpr double in_base = 1.0; // stands for "merged with the base": logits relative to it are at most 0
    GradientRows<R>& a;
    double *e, *gaps;
    FactoredSum sum_p, sum_v;
    bool overflow = false; // of a logit that matters
};

} // namespace

template <class R> void gradient_rows(GradientRows<R>& rows) { RowsPass<R>(rows).run(); }

template void gradient_rows<double>(GradientRows<double>&);
template void gradient_rows<float>(GradientRows<float>&);
template void logits_row<double>(const double*, std::int64_t, std::int64_t, const double*, double*);
template void logits_row<float>(const float*, std::int64_t, std::int64_t, const double*, double*);

} // namespace fastmm::FASTMM_ISA
