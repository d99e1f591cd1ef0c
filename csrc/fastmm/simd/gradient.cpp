// Loss and gradients of a stretch of inputs in one pass over the keys, factored and free of cancellation.
#include "exponential.hpp"
#include "row_access.hpp"
#include "rows.hpp"

#include "fastmm/losses.hpp"

#include <cmath>

namespace fastmm::FASTMM_ISA {

namespace {

// What to fetch ahead of use. An input is read twice, and only the first time from memory: so that memory is kept busy
// both times, each reading fetches one half of the next input, if that fits the nearest cache beside the present one.
template <class R> class Ahead {
public:
    Ahead(const R* x, std::int64_t T, std::int64_t d) : x_(x), T_(T), d_(d), near_(T * d * sizeof(R) <= (1 << 15)) {}
    void first_reading(std::int64_t t, std::int64_t j) const {
        __builtin_prefetch(near_ ? x_ + (T_ + t / 2) * d_ + j : x_ + (t + 8) * d_ + j);
    }
    void second_reading(std::int64_t t, std::int64_t j) const {
        if (near_) __builtin_prefetch(x_ + (T_ + T_ / 2 + t / 2) * d_ + j);
    }

private:
    const R* x_;
    std::int64_t T_, d_;
    bool near_;
};

} // namespace

// (k_t - k_0) p for the T tokens of one input. Differences come first: softmax needs no more, and keys far from the
// origin keep their digits.
template <class R> void logits_row(const R* keys, std::int64_t T, std::int64_t d, const double* p, double* out) {
    constexpr int rows = 4;
    const Ahead<R> ahead(keys, T, d);
    std::int64_t t = 0;
    for (; t + rows <= T; t += rows) {
        const R* k = keys + t * d;
        Doubles sums[rows];
        for (int u = 0; u < rows; ++u) sums[u] = splat(0.0);
        std::int64_t j = 0;
        for (; j + row_width <= d; j += row_width) {
            const Doubles first = read(keys + j), pj = load<double>(p + j);
            ahead.first_reading(t, j);
            ahead.first_reading(t + 2, j);
#pragma GCC unroll 4
            for (int u = 0; u < rows; ++u) sums[u] = fma(read(k + u * d + j) - first, pj, sums[u]);
        }
        if (j < d) {
            const Doubles first = read_tail(keys + j, d - j), pj = load<double>(p + j);
            for (int u = 0; u < rows; ++u) sums[u] = fma(read_tail(k + u * d + j, d - j) - first, pj, sums[u]);
        }
        for (int u = 0; u < rows; ++u) out[t + u] = sum(sums[u]);
    }
    for (; t < T; ++t) {
        const R* k = keys + t * d;
        Doubles total = splat(0.0);
        for (std::int64_t j = 0; j < d; j += row_width)
            total = fma(read_at(k, j, d) - read_at(keys, j, d), load<double>(p + j), total);
        out[t] = sum(total);
    }
}

namespace {

// to += sum_t w_t (x_t - base) for `columns` vectors from entry j on.
template <int columns, class R> FASTMM_INLINE void add_columns(const R* x, std::int64_t T, std::int64_t d,
                                                               const R* base, const double* w, double* to,
                                                               std::int64_t j, const Ahead<R>& ahead) {
    Doubles sums[columns], from[columns];
    for (int u = 0; u < columns; ++u) {
        sums[u] = load<double>(to + j + u * row_width);
        from[u] = base != nullptr ? read(base + j + u * row_width) : splat(0.0);
    }
    for (std::int64_t t = 0; t < T; ++t) {
        const Doubles wt = splat(w[t]);
        const R* row = x + t * d + j;
        const std::int64_t half = (t % 2) * (columns / 2) * row_width;
#pragma GCC unroll 4
        for (int u = 0; u < columns / 2; ++u) ahead.second_reading(t, j + half + u * row_width);
#pragma GCC unroll 8
        for (int u = 0; u < columns; ++u) sums[u] = fma(wt, read(row + u * row_width) - from[u], sums[u]);
    }
    for (int u = 0; u < columns; ++u) store<double>(to + j + u * row_width, sums[u]);
}

// to += sum_t w_t (x_t - base) over the tokens of one input; base may be null.
template <class R>
void add_rows(const R* x, std::int64_t T, std::int64_t d, const R* base, const double* w, double* to) {
    constexpr int most = register_bytes == 64 ? 8 : 4; // vectors of the sum in registers, beside as many of the base
    const Ahead<R> ahead(x, T, d);
    std::int64_t j = 0;
    for (; j + most * row_width <= d; j += most * row_width) add_columns<most>(x, T, d, base, w, to, j, ahead);
    for (; j + row_width <= d; j += row_width) add_columns<1>(x, T, d, base, w, to, j, ahead);
    if (j == d) return;
    Doubles total = load<double>(to + j);
    const Doubles from = base != nullptr ? read_tail(base + j, d - j) : splat(0.0);
    for (std::int64_t t = 0; t < T; ++t) total = fma(splat(w[t]), read_tail(x + t * d + j, d - j) - from, total);
    store<double>(to + j, total);
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
        a.scale = sum_p.scale();
        a.scale_v = sum_v.scale();
    }

private:
    void input(std::int64_t i) {
        const std::int64_t own = a.lengths != nullptr ? a.lengths[i] : a.T;
        const R* keys = a.keys + i * a.T * a.d;
        const R* scores = a.scores + i * a.T;
        const Doubles none = splat(-__builtin_inf()), zero = splat(0.0);
        logits_row(keys, own, a.d, a.p, e);
        for (std::int64_t t = own; t < padded(own); ++t) e[t] = -__builtin_inf();

        Doubles most = none;
        for (std::int64_t t = 0; t < own; t += row_width) most = larger(load<double>(e + t), most);
        const Doubles highest = splat(largest(most));
        for (std::int64_t t = 0; t < own; t += row_width) store<double>(e + t, load<double>(e + t) - highest);
        std::int64_t top = 0;
        while (top + 1 < own && e[top] != 0.0) ++top;

        // tokens with the top token's key share its weight: they are merged with it (see reference.descent_direction)
        double merged = 1.0, base_score = static_cast<double>(scores[top]);
        e[top] = -__builtin_inf();
        for (std::int64_t t = top + 1; t < own; ++t) {
            if (e[t] != 0.0 || !same_key(keys + t * a.d, keys + top * a.d)) continue;
            e[t] = -__builtin_inf();
            const double score = static_cast<double>(scores[t]);
            merged += 1.0;
            if (score != base_score) base_score += (score - base_score) / merged; // running mean, exact for equals
        }

        Doubles exponents = none; // of the tokens whose score differs
        for (std::int64_t t = 0; t < own; t += row_width) {
            const Doubles own_e = load<double>(e + t);
            const Doubles gap = zero_where<double>(own_e == none, read_at(scores, t, own) - splat(base_score));
            store<double>(gaps + t, gap);
            exponents = larger(choose<double>(gap == zero, none, own_e), exponents);
        }
        const double exponent = largest(exponents);
        const bool pulls = exponent > -__builtin_inf();
        const double shift = pulls ? exponent : 0.0, unit = ::exp(shift);

        // e becomes the weight relative to the base's; divided by e^shift for the tokens whose score differs
        Doubles sums = zero, levels = zero, gains = zero;
        for (std::int64_t t = 0; t < own; t += row_width) {
            const Doubles gap = load<double>(gaps + t);
            const Int64s level = gap == zero;
            const Doubles weight = exp_cut<double>(load<double>(e + t) - zero_where<double>(level, splat(shift)));
            store<double>(e + t, weight);
            sums += zero_where<double>(level, weight);
            levels += zero_where<double>(~level, weight);
            gains = fma(weight, gap, gains);
        }
        const double total = merged + sum(levels) + unit * sum(sums);
        const double scaled_mean = sum(gains) / total, mean = unit * scaled_mean;
        const LossParts loss = loss_parts(a.loss, base_score + mean);
        a.loss_sum += loss.value;

        if (a.values != nullptr) values(i, own, keys, top, total, unit, loss.log_slope);
        if (!pulls) return;
        const Doubles factor = splat(sum_p.admit(exponent + loss.log_slope) / total);
        for (std::int64_t t = 0; t < own; t += row_width) {
            const Doubles gap = load<double>(gaps + t);
            const Doubles pull = choose<double>(gap == zero, splat(-scaled_mean), gap - splat(mean));
            store<double>(e + t, load<double>(e + t) * factor * pull);
        }
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

    GradientRows<R>& a;
    double *e, *gaps;
    FactoredSum sum_p, sum_v;
};

} // namespace

template <class R> void gradient_rows(GradientRows<R>& rows) { RowsPass<R>(rows).run(); }

template void gradient_rows<double>(GradientRows<double>&);
template void gradient_rows<float>(GradientRows<float>&);
template void logits_row<double>(const double*, std::int64_t, std::int64_t, const double*, double*);
template void logits_row<float>(const float*, std::int64_t, std::int64_t, const double*, double*);

} // namespace fastmm::FASTMM_ISA
