// What is one number an input, worked out for a group of inputs in vector lanes; and sums with a common exponent.
#pragma once

#include "exponential.hpp"
#include "logarithm.hpp"

#include "fastmm/losses.hpp"

#include <cmath>

namespace fastmm::FASTMM_ISA {

// Weights are relative to that of the base, the top token with all that share its key. Sums over the tokens whose score
// differs from the base's carry a factor e^-shift, those over the others ("level") do not.
struct GroupLanes {
    explicit GroupLanes(LossKind kind) : loss(kind) {
        for (int g = 0; g < most_inputs; ++g) clear(g);
    }

    void clear(int g) {
        pulls[g] = false;
        shift[g] = -__builtin_inf();
        levels[g] = sums[g] = gains[g] = base[g] = best[g] = 0.0;
        change_levels[g] = change_sums[g] = change_gains[g] = natural_deficit[g] = shifted_deficit[g] = 0.0;
        merged[g] = 1.0;
    }

    // Means over the tokens: what the weights of a gradient are made of, but for one factor an input.
    void work_out_means(int from, int to, bool curved) {
        for (int g = from; g < to; g += Lanes<double>::width) {
            const Doubles power = exp_full(load<double>(shift + g));
            const Doubles all = load<double>(merged + g) + load<double>(levels + g) + power * load<double>(sums + g);
            const Doubles scaled = load<double>(gains + g) / all;
            store<double>(unit + g, power);
            store<double>(total + g, all);
            store<double>(scaled_mean + g, scaled);
            store<double>(mean + g, power * scaled);
            store<double>(margin + g, load<double>(base + g) + power * scaled);
            if (!curved) continue;
            const Doubles change = (load<double>(change_levels + g) + power * load<double>(change_sums + g)) / all;
            const Doubles crossed = load<double>(change_gains + g) / all - scaled * change;
            store<double>(change_mean + g, change);
            store<double>(scaled_cross + g, crossed);
            store<double>(cross + g, power * crossed);
        }
        for (int g = from; curved && g < to; ++g) curvature[g] = loss_bend(loss, margin[g]);
    }

    void work_out_losses(int count, bool wants_excess, bool above_zero) {
        if (loss == LossKind::logistic) {
            for (int g = 0; g < count; g += Lanes<double>::width) work_out_logistic(g);
        } else {
            for (int g = 0; g < count; ++g) {
                const LossParts parts = loss_parts(loss, margin[g]);
                value[g] = parts.value;
                log_slope[g] = parts.log_slope;
            }
        }
        Doubles most = splat(largest_total); // what stands behind the last input is of earlier ones
        for (int g = 0; g < count; g += Lanes<double>::width) {
            const Doubles all = load<double>(total + g);
            most = larger(all, most);
            store<double>(inverse_total + g, splat(1.0) / all);
            store<double>(exponent + g, load<double>(shift + g) + load<double>(log_slope + g));
        }
        largest_total = largest(most);
        for (int g = 0; wants_excess && g < count; ++g)
            add_excess(above_zero ? loss_log_value(loss, margin[g]) : excess_over_best(g));
    }

    double add_losses(double to, int count) const {
        for (int g = 0; g < count; ++g) to += value[g];
        return to;
    }

    // a vector that starts at any input stays inside
    static constexpr int room = most_inputs + Lanes<double>::width;
    LossKind loss;
    double largest_total = 0.0, excess_scale = -__builtin_inf(), excess = 0.0;
    bool pulls[most_inputs] = {};        // some token's score differs from the base's
    alignas(64) double shift[room] = {}; // -inf without a pull
    alignas(64) double merged[room] = {}, base[room] = {}, best[room] = {};
    alignas(64) double levels[room] = {}, sums[room] = {}, gains[room] = {};
    alignas(64) double change_levels[room] = {}, change_sums[room] = {}, change_gains[room] = {};
    alignas(64) double natural_deficit[room] = {}, shifted_deficit[room] = {};
    // results
    alignas(64) double unit[room] = {}, total[room] = {}, inverse_total[room] = {}; // e^shift; sum of the weights
    alignas(64) double scaled_mean[room] = {}, mean[room] = {}, margin[room] = {};
    alignas(64) double change_mean[room] = {}, scaled_cross[room] = {}, cross[room] = {}, curvature[room] = {};
    alignas(64) double value[room] = {}, log_slope[room] = {}, exponent[room] = {};

private:
    // max(-x, 0) + rest and -max(x, 0) - rest, with rest = log(1 + e^-|x|)
    void work_out_logistic(int g) {
        const Doubles x = load<double>(margin + g), zero = splat(0.0), size = absolute<double>(x);
        const Doubles rest = log_of_one_and(exp_full(-size)) + zero_where<double>(x == x, x); // NaN where x is
        store<double>(value + g, zero_where<double>(x > zero, -x) + rest);
        store<double>(log_slope + g, zero_where<double>(x < zero, -x) - rest);
    }

    double excess_over_best(int g) const {
        const double log_deficit = natural_deficit[g] > 0.0
                                       ? ::log((natural_deficit[g] + unit[g] * shifted_deficit[g]) / total[g])
                                   : shifted_deficit[g] > 0.0 ? shift[g] + ::log(shifted_deficit[g]) - ::log(total[g])
                                                              : -__builtin_inf();
        return log_excess(loss, best[g], log_deficit);
    }

    void add_excess(double own) {
        if (own > excess_scale) {
            excess = excess * ::exp(excess_scale - own) + 1.0;
            excess_scale = own;
        } else if (own > -__builtin_inf()) {
            excess += ::exp(own - excess_scale);
        }
    }
};

// A sum of terms e^exponent * vector whose common exponent grows as needed. The vectors of the next terms are beside
// it.
class FactoredSum {
public:
    FactoredSum(double* room, std::int64_t d, bool wanted) : sum_(room + fastmm::margin), d_(d) {
        for (std::int64_t j = 0; wanted && j < with_margins(d); ++j) room[j] = 0.0;
    }

    double* term(int g) const { return sum_ + (1 + g) * with_margins(d_); } // with margins
    const double* sum() const { return sum_; }
    double scale() const { return scale_; }

    void see(double exponent) { scale_ = exponent > scale_ ? exponent : scale_; }

    // Adds the terms of these exponents, each times its factor; those of exponent -inf are not read.
    void add(const double* exponents, const double* factors, int count) {
        const double old = scale_;
        for (int g = 0; g < count; ++g) see(exponents[g]);
        if (scale_ == -__builtin_inf()) return; // no term has a pull
        const double shrink = scale_ > old ? ::exp(old - scale_) : 1.0;
        alignas(64) double power[most_inputs];
        for (int g = 0; g < count; g += Lanes<double>::width)
            store<double>(power + g, exp_full(load<double>(exponents + g) - splat(scale_)));
        int used = 0;
        const double* terms[most_inputs];
        double by[most_inputs];
        for (int g = 0; g < count; ++g) {
            if (exponents[g] == -__builtin_inf()) continue;
            terms[used] = term(g);
            by[used++] = power[g] * factors[g];
        }
        for (std::int64_t j = 0; j < d_; j += Lanes<double>::width) {
            Doubles total = load<double>(sum_ + j) * splat(shrink);
            for (int k = 0; k < used; ++k) total = fma(splat(by[k]), load<double>(terms[k] + j), total);
            store<double>(sum_ + j, total);
        }
    }

private:
    double* sum_;
    std::int64_t d_;
    double scale_ = -__builtin_inf();
};

} // namespace fastmm::FASTMM_ISA
