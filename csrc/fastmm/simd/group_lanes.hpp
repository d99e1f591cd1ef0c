// What is one number an input, worked out for a group of inputs in vector lanes; and sums with a common exponent.
#pragma once

#include "exponential.hpp"

#include "fastmm/losses.hpp"

#include <cmath>

namespace fastmm::FASTMM_ISA {

inline constexpr int most_inputs = 8;

// Weights are relative to that of the base, the top token with all that share its key. Sums over the tokens whose score
// differs from the base's carry a factor e^-shift, those over the others ("level") do not.
struct GroupLanes {
    explicit GroupLanes(LossKind kind) : loss(kind) {
        for (int g = 0; g < most_inputs; ++g) clear(g);
    }

    void clear(int g) {
        pulls[g] = false;
        shift[g] = levels[g] = sums[g] = gains[g] = base[g] = best[g] = 0.0;
        change_levels[g] = change_sums[g] = change_gains[g] = natural_deficit[g] = shifted_deficit[g] = 0.0;
        merged[g] = 1.0;
    }

    void work_out(int count, bool curved, bool wants_excess, bool above_zero) {
        constexpr int width = Lanes<double>::width;
        for (int g = 0; g < count; g += width) {
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
        for (int g = 0; g < count; ++g) {
            const LossParts parts = loss_parts(loss, margin[g]);
            value[g] = parts.value;
            log_slope[g] = parts.log_slope;
            exponent[g] = pulls[g] ? shift[g] + parts.log_slope : -__builtin_inf();
            largest_total = total[g] > largest_total ? total[g] : largest_total;
            if (curved) curvature[g] = loss_bend(loss, margin[g]);
            if (wants_excess) add_excess(above_zero ? loss_log_value(loss, margin[g]) : excess_over_best(g));
        }
    }

    double add_losses(double to, int count) const {
        for (int g = 0; g < count; ++g) to += value[g];
        return to;
    }

    LossKind loss;
    double largest_total = 0.0, excess_scale = -__builtin_inf(), excess = 0.0;
    bool pulls[most_inputs] = {}; // some token's score differs from the base's
    alignas(64) double shift[most_inputs] = {}, merged[most_inputs] = {}, base[most_inputs] = {},
                       best[most_inputs] = {};
    alignas(64) double levels[most_inputs] = {}, sums[most_inputs] = {}, gains[most_inputs] = {};
    alignas(64) double change_levels[most_inputs] = {}, change_sums[most_inputs] = {}, change_gains[most_inputs] = {};
    alignas(64) double natural_deficit[most_inputs] = {}, shifted_deficit[most_inputs] = {};
    // results
    alignas(64) double unit[most_inputs] = {}, total[most_inputs] = {}; // e^shift; sum of the weights
    alignas(64) double scaled_mean[most_inputs] = {}, mean[most_inputs] = {}, margin[most_inputs] = {};
    alignas(64) double change_mean[most_inputs] = {},
                       scaled_cross[most_inputs] = {}, cross[most_inputs] = {}, curvature[most_inputs] = {};
    alignas(64) double value[most_inputs] = {}, log_slope[most_inputs] = {}, exponent[most_inputs] = {};

private:
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

// A sum of terms e^exponent * vector whose common exponent grows as needed.
class FactoredSum {
public:
    FactoredSum(double* sum, std::int64_t d) : sum_(sum), count_(d) {}

    void clear() {
        for (std::int64_t j = 0; j < count_; ++j) sum_[j] = 0.0;
    }
    void copy(double* to) const {
        for (std::int64_t j = 0; j < count_; ++j) to[j] = sum_[j];
    }

    void see(double exponent) { scale_ = exponent > scale_ ? exponent : scale_; }

    // The factors by which the next terms' vectors are to be multiplied before they are added to the sum.
    void admit(const double* exponents, int count, double* factors) {
        const double old = scale_;
        for (int k = 0; k < count; ++k) see(exponents[k]);
        if (scale_ == -__builtin_inf()) return; // no term has a pull
        if (scale_ > old) {
            const double shrink = ::exp(old - scale_);
            for (std::int64_t j = 0; j < count_; ++j) sum_[j] *= shrink;
        }
        for (int k = 0; k < count; k += Lanes<double>::width)
            store<double>(factors + k, exp_full(load<double>(exponents + k) - splat(scale_)));
    }

    double* sum() const { return sum_; }
    double scale() const { return scale_; }

private:
    double* sum_;
    std::int64_t count_;
    double scale_ = -__builtin_inf();
};

} // namespace fastmm::FASTMM_ISA
