// Loss and gradients of a stretch of inputs in one pass over keys and values, factored and free of cancellation.
#include "group_lanes.hpp"
#include "row_dots.hpp"
#include "row_sums.hpp"
#include "rows.hpp"

namespace fastmm::FASTMM_ISA {

namespace {

// Inputs go through in groups: all are read once from memory for logits and scores, and again, from the cache, for
// their sums. What the sums have as a factor, one an input, is worked out for more of them at a time, in lanes.
template <class R> class RowsPass {
public:
    explicit RowsPass(GradientRows<R>& rows)
        : a(rows), tied(rows.values == rows.keys && rows.d_v == rows.d), group(rows_group(rows.T, rows.d)),
          stride(padded(rows.T)), free(rows.workspace + 4 * group * stride),
          p(copy_of(rows.p, rows.d, rows.queries != nullptr)), along(copy_of(rows.along, rows.d)),
          v(copy_of(rows.v, rows.d_v)), lanes(rows.loss),
          of_p(free, rows.d, rows.direction != nullptr || rows.pulls != nullptr),
          of_v(free + (1 + most_inputs) * with_margins(rows.d), rows.d_v, rows.direction_v != nullptr) {}

    void run() {
        a.loss_sum = 0.0;
        for (std::int64_t from = 0; from < a.inputs; from += most_inputs) {
            const int count = static_cast<int>(a.inputs - from < most_inputs ? a.inputs - from : most_inputs);
            for (start = 0; start < count; start += static_cast<int>(group)) {
                const int last = static_cast<int>(start + group < count ? start + group : count);
                for (int g = start; g < last; ++g) first_reading(from + g, g);
                for (int g = start; g < last; ++g) tokens(from + g, g);
                lanes.work_out_means(start, last, a.along != nullptr);
                for (int g = start; g < last; ++g) second_reading(from + g, g);
            }
            add(from, count);
        }
        for (std::int64_t j = 0; a.direction != nullptr && j < a.d; ++j) a.direction[j] = of_p.sum()[j];
        for (std::int64_t j = 0; a.direction_v != nullptr && j < a.d_v; ++j) a.direction_v[j] = of_v.sum()[j];
        const double nan = __builtin_nan("");
        a.scale = overflow ? nan : of_p.scale();
        a.scale_v = overflow ? nan : of_v.scale();
        a.saturation = overflow || unknown ? nan : 1.0 / lanes.largest_total;
        a.excess_scale = overflow ? nan : lanes.excess_scale;
        a.excess = lanes.excess;
    }

private:
    // A copy of d numbers, zeros where they come later, with margins; null where there are none.
    double* copy_of(const double* from, std::int64_t d, bool later = false) {
        if (from == nullptr && !later) return nullptr;
        double* to = free + margin;
        for (std::int64_t j = 0; j < with_margins(d); ++j) free[j] = 0.0;
        free += with_margins(d);
        for (std::int64_t j = 0; from != nullptr && j < d; ++j) to[j] = from[j];
        return to;
    }

    // of the input's tokens, later relative weights, then weights
    double* logits(int g) const { return a.workspace + (g - start) * 4 * stride; }
    double* gaps(int g) const { return logits(g) + stride; }
    double* scores(int g) const { return gaps(g) + stride; }    // those made here; later the weights of the values
    double* changes(int g) const { return scores(g) + stride; } // of the logits along `along`

    std::int64_t length(std::int64_t i) const { return a.lengths != nullptr ? a.lengths[i] : a.T; }
    const R* keys(std::int64_t i) const { return a.keys + i * a.T * a.d; }
    const R* values(std::int64_t i) const { return a.values + i * a.T * a.d_v; }

    void first_reading(std::int64_t i, int g) {
        const std::int64_t own = length(i);
        const double label = a.v != nullptr ? static_cast<double>(a.labels[i]) : 0.0;
        if (a.queries != nullptr)
            for (std::int64_t j = 0; j < a.d; ++j) p[j] = a.queries[i * a.d + j];
        const DotsOf with{p, v, label, true, logits(g), scores(g)};
        const R *next_keys = keys(i + group), *next_values = a.values != nullptr ? values(i + group) : nullptr;
        if (a.v != nullptr && tied) {
            finite[g] = dots_of_rows<true, true>(keys(i), own, a.d, with, next_keys);
        } else {
            finite[g] = dots_of_rows<true, false>(keys(i), own, a.d, with, next_keys);
            if (a.v != nullptr && !dots_of_rows<false, true>(values(i), own, a.d_v, with, next_values))
                finite[g] = false;
        }
        if (a.along != nullptr) {
            const DotsOf change{along, nullptr, 0.0, true, changes(g), nullptr};
            if (!dots_of_rows<true, false>(keys(i), own, a.d, change, next_keys)) finite[g] = false;
        }
    }

    Doubles score_at(std::int64_t i, int g, std::int64_t t) const {
        return a.v != nullptr ? load<double>(scores(g) + t) : read_at(a.scores + i * a.T, t, length(i));
    }
    double one_score(std::int64_t i, int g, std::int64_t t) const {
        return a.v != nullptr ? scores(g)[t] : static_cast<double>(a.scores[i * a.T + t]);
    }

    // Weights relative to the top token's, and score gaps to it, of the tokens of one input.
    void tokens(std::int64_t i, int g) {
        const std::int64_t own = length(i);
        double *e = logits(g), *gap_to_base = gaps(g);
        const Doubles none = splat(-__builtin_inf()), zero = splat(0.0);
        lanes.clear(g);
        if (!finite[g]) return broken(i, g);

        FetchBetween fetch(keys(i + group), a.T * a.d);
        Doubles most = none;
        fetch.step();
        for (std::int64_t t = 0; t < own; t += row_width) most = larger(load<double>(e + t), most);
        const Doubles highest = splat(largest(most));
        Int64s lost = zero != zero; // a gap between finite logits that is infinite
        std::int64_t top = -1;
        fetch.step();
        int tops = 0;
        for (std::int64_t t = 0; t < own; t += row_width) {
            const Doubles logit = load<double>(e + t), gap = logit - highest;
            lost |= (gap == none) & (logit != none);
            store<double>(e + t, gap);
            const unsigned at_top = bits(gap == zero);
            if (at_top == 0) continue;
            tops += __builtin_popcount(at_top);
            if (top < 0) top = t + __builtin_ctz(at_top);
        }
        if (any(lost)) {
            finite[g] = false;
            return broken(i, g);
        }
        top_of[g] = top;

        // tokens with the top token's key share its weight: they are merged with it (see reference.descent_direction)
        double merged = 1.0, base = one_score(i, g, top);
        if (tops > 1) merge(i, g, merged, base);
        lanes.merged[g] = merged;
        lanes.base[g] = base;

        const Int64s top_lane = splat_integer(top) - lane_numbers();
        fetch.step();
        Doubles exponents = none; // of the tokens whose score differs
        for (std::int64_t t = 0; t < own; t += row_width) {
            const Doubles own_e = choose<double>(top_lane == splat_integer(t), none, load<double>(e + t));
            const Doubles gap = zero_where<double>(own_e == none, score_at(i, g, t) - splat(base));
            store<double>(e + t, own_e);
            store<double>(gap_to_base + t, gap);
            exponents = larger(choose<double>(gap == zero, none, own_e), exponents);
        }
        const double exponent = largest(exponents);
        const bool pulls = exponent > -__builtin_inf();
        const double shift = pulls ? exponent : 0.0;
        lanes.pulls[g] = pulls;
        lanes.shift[g] = exponent;

        // e becomes the weight relative to the base's; divided by e^shift for the tokens whose score differs
        fetch.step();
        Doubles sums = zero, levels = zero, gains = zero;
        for (std::int64_t t = 0; t < own; t += row_width) {
            const Doubles gap = load<double>(gap_to_base + t);
            const Int64s level = gap == zero;
            const Doubles weight = exp_cut<double>(load<double>(e + t) - zero_where<double>(level, splat(shift)));
            store<double>(e + t, weight);
            sums += zero_where<double>(level, weight);
            levels += zero_where<double>(~level, weight);
            gains = fma(weight, gap, gains);
        }
        fetch.step();
        lanes.sums[g] = sum(sums);
        lanes.levels[g] = sum(levels);
        lanes.gains[g] = sum(gains);
        fetch.step();
        if (a.along != nullptr) curve(g, own);
        if (a.wants_excess && !a.above_zero) deficit(i, g, own);
    }

    // Logits that overflow matter unless all scores are equal: the gradient in p is then zero whatever they are.
    void broken(std::int64_t i, int g) {
        bool flat = a.direction_v == nullptr;
        const double first = one_score(i, g, 0);
        for (std::int64_t t = 1; flat && t < length(i); ++t) flat = one_score(i, g, t) == first;
        flat = flat && first - first == 0.0;
        overflow = overflow || !flat;
        unknown = true;
        lanes.base[g] = lanes.best[g] = flat ? first : __builtin_nan("");
    }

    // Merges the tokens with the top token's key: how many there are, and the mean of their scores, exact for equals.
    void merge(std::int64_t i, int g, double& merged, double& base) {
        double* e = logits(g);
        const R* x = keys(i);
        const std::int64_t top = top_of[g];
        for (std::int64_t t = top + 1; t < length(i); ++t) {
            if (e[t] != 0.0 || !same_key(x + t * a.d, x + top * a.d)) continue;
            e[t] = -__builtin_inf();
            const double score = one_score(i, g, t);
            merged += 1.0;
            if (score != base) base += (score - base) / merged;
        }
    }

    // Mean change of the logits along `along`, and its product with the gaps, as sums with relative weights.
    void curve(int g, std::int64_t own) {
        const double *e = logits(g), *gap_to_base = gaps(g);
        double* change = changes(g);
        const Doubles at_top = splat(change[top_of[g]]);
        Doubles sums = splat(0.0), levels = sums, gains = sums;
        for (std::int64_t t = 0; t < own; t += row_width) {
            const Doubles gap = load<double>(gap_to_base + t), weight = load<double>(e + t);
            const Int64s real = splat_integer(own - t) - lane_numbers() > splat_integer(0), level = gap == splat(0.0);
            const Doubles relative = zero_where<double>(~real, load<double>(change + t) - at_top);
            store<double>(change + t, relative);
            sums = fma(zero_where<double>(level, weight), relative, sums);
            levels = fma(zero_where<double>(~level, weight), relative, levels);
            gains = fma(weight * gap, relative, gains);
        }
        lanes.change_sums[g] = sum(sums);
        lanes.change_levels[g] = sum(levels);
        lanes.change_gains[g] = sum(gains);
    }

    // How far the mean score is below the best one, as a sum of terms that are never negative.
    void deficit(std::int64_t i, int g, std::int64_t own) {
        const double *e = logits(g), *gap_to_base = gaps(g);
        const R* x = keys(i);
        double best = one_score(i, g, 0);
        for (std::int64_t t = 1; t < own; ++t) best = one_score(i, g, t) > best ? one_score(i, g, t) : best;
        double natural = 0.0, shifted = 0.0;
        for (std::int64_t t = 0; t < own; ++t) {
            const double below = best - one_score(i, g, t);
            if (is_merged(g, t, x))
                natural += below;
            else
                (gap_to_base[t] == 0.0 ? natural : shifted) += e[t] * below;
        }
        lanes.best[g] = best;
        lanes.natural_deficit[g] = natural;
        lanes.shifted_deficit[g] = shifted;
    }

    // The losses of some inputs, and what they say about the inputs' sums.
    void add(std::int64_t from, int count) {
        lanes.work_out_losses(count, a.wants_excess, a.above_zero);
        a.loss_sum = lanes.add_losses(a.loss_sum, count);
        double factor_v[most_inputs] = {};
        for (int g = 0; g < count; ++g) {
            overflow = overflow || lanes.mean[g] != lanes.mean[g];
            if (a.direction_v != nullptr) factor_v[g] = static_cast<double>(a.labels[from + g]) / lanes.total[g];
        }
        if (a.direction != nullptr) of_p.add(lanes.exponent, lanes.inverse_total, count);
        if (a.direction_v != nullptr) of_v.add(lanes.log_slope, factor_v, count);
        for (int g = 0; a.pulls != nullptr && g < count; ++g) {
            const bool lost = !finite[g] && lanes.base[g] != lanes.base[g];
            a.exponents[from + g] = lost ? __builtin_nan("") : lanes.exponent[g];
            of_p.see(lanes.exponent[g]);
            double* pull = a.pulls + (from + g) * a.d;
            for (std::int64_t j = 0; j < a.d; ++j)
                pull[j] = lanes.pulls[g] ? of_p.term(g)[j] * lanes.inverse_total[g] : 0.0;
        }
    }

    void second_reading(std::int64_t i, int g) {
        const std::int64_t own = length(i);
        const bool with_v = a.direction_v != nullptr && finite[g];
        const bool with_p = (a.direction != nullptr || a.pulls != nullptr) && lanes.pulls[g];
        if (with_v) weigh_values(i, g, own);
        if (with_p) weigh_keys(g, own);
        const R *x = keys(i), *next_keys = keys(i + group) + second_share(a.T * a.d);
        const R* next_values = a.values != nullptr ? values(i + group) + second_share(a.T * a.d_v) : nullptr;
        const SumsOf<R> to{x + (with_p ? top_of[g] * a.d : 0), logits(g), scores(g), of_p.term(g), of_v.term(g)};
        if (with_p && with_v && tied) {
            add_rows<true, true>(x, own, a.d, to, next_keys);
        } else {
            if (with_p) add_rows<true, false>(x, own, a.d, to, next_keys);
            if (with_v) add_rows<false, true>(values(i), own, a.d_v, to, next_values);
        }
    }

    void weigh_keys(int g, std::int64_t own) {
        double* e = logits(g);
        const double* gap_to_base = gaps(g);
        const Doubles zero = splat(0.0);
        const Doubles mean = splat(lanes.mean[g]), scaled_mean = splat(lanes.scaled_mean[g]);
        if (a.along == nullptr) {
            for (std::int64_t t = 0; t < own; t += row_width) {
                const Doubles gap = load<double>(gap_to_base + t);
                const Doubles toward = choose<double>(gap == zero, -scaled_mean, gap - mean);
                store<double>(e + t, load<double>(e + t) * toward);
            }
            return;
        }
        const Doubles change_mean = splat(lanes.change_mean[g]), scaled_cross = splat(lanes.scaled_cross[g]);
        const Doubles cross = splat(lanes.cross[g]), bent = splat(lanes.curvature[g] * lanes.cross[g]);
        for (std::int64_t t = 0; t < own; t += row_width) {
            const Doubles gap = load<double>(gap_to_base + t);
            const Doubles faster = bent - (load<double>(changes(g) + t) - change_mean);
            const Doubles toward =
                choose<double>(gap == zero, scaled_cross - faster * scaled_mean, cross + faster * (gap - mean));
            store<double>(e + t, load<double>(e + t) * -toward);
        }
    }

    // The relative weights in their natural size.
    void weigh_values(std::int64_t i, int g, std::int64_t own) {
        const double *e = logits(g), *gap_to_base = gaps(g);
        const R* x = keys(i);
        double* w = scores(g);
        const Doubles unit = splat(lanes.unit[g]);
        for (std::int64_t t = 0; t < own; t += row_width) {
            const Doubles weight = load<double>(e + t);
            const Int64s level = load<double>(gap_to_base + t) == splat(0.0);
            store<double>(w + t, choose<double>(level, weight, unit * weight));
        }
        w[top_of[g]] = 1.0;
        if (lanes.merged[g] > 1.0)
            for (std::int64_t t = top_of[g] + 1; t < own; ++t)
                if (is_merged(g, t, x)) w[t] = 1.0;
    }

    // Whether token t shares the top token's key, once weights are relative: its own weight is then left at zero.
    bool is_merged(int g, std::int64_t t, const R* x) const {
        const std::int64_t top = top_of[g];
        return t == top || (lanes.merged[g] > 1.0 && logits(g)[t] == 0.0 && same_key(x + t * a.d, x + top * a.d));
    }

    bool same_key(const R* k, const R* other) const {
        for (std::int64_t j = 0; j < a.d; ++j)
            if (k[j] != other[j]) return false;
        return true;
    }

    GradientRows<R>& a;
    bool tied;
    std::int64_t group, stride;
    int start = 0; // of the group read at the moment
    double* free;  // what is left of the workspace
    double *p, *along, *v;
    GroupLanes lanes;
    FactoredSum of_p, of_v;
    bool overflow = false; // of a logit or a score that matters
    bool unknown = false;  // weights of some input
    bool finite[most_inputs];
    std::int64_t top_of[most_inputs];
};

} // namespace

template <class R> void gradient_rows(GradientRows<R>& rows) { RowsPass<R>(rows).run(); }

template void gradient_rows<double>(GradientRows<double>&);
template void gradient_rows<float>(GradientRows<float>&);

} // namespace fastmm::FASTMM_ISA
