// Losses one number at a time; see losses.hpp. Out of line, so that the per-instruction-set files may call them.
#include "fastmm/losses.hpp"

#include <cmath>

namespace fastmm {

LossParts loss_parts(LossKind kind, double x) {
    switch (kind) {
    case LossKind::logistic: {
        const double rest = std::log1p(std::exp(-std::fabs(x)));
        return {(x < 0 ? -x : 0.0) + rest, -(x > 0 ? x : 0.0) - rest};
    }
    case LossKind::exponential:
        return {std::exp(-x), -x};
    case LossKind::correlation:
        break;
    }
    return {-x, 0.0};
}

double loss_value(LossKind kind, double x) { return loss_parts(kind, x).value; }

double loss_log_slope(LossKind kind, double x) { return loss_parts(kind, x).log_slope; }

double loss_slope(LossKind kind, double x) {
    switch (kind) {
    case LossKind::logistic: {
        const double small = std::exp(-std::fabs(x));
        return -(x >= 0 ? small : 1.0) / (1.0 + small);
    }
    case LossKind::exponential:
        return -std::exp(-x);
    case LossKind::correlation:
        break;
    }
    return -1.0;
}

double loss_curvature(LossKind kind, double x) {
    switch (kind) {
    case LossKind::logistic: {
        const double small = std::exp(-std::fabs(x));
        return small / ((1.0 + small) * (1.0 + small));
    }
    case LossKind::exponential:
        return std::exp(-x);
    case LossKind::correlation:
        break;
    }
    return 0.0;
}

double loss_bend(LossKind kind, double x) {
    if (kind == LossKind::logistic) return 1.0 / (1.0 + std::exp(-x));
    return kind == LossKind::exponential ? 1.0 : 0.0;
}

double loss_log_value(LossKind kind, double x) {
    if (kind == LossKind::exponential || (kind == LossKind::logistic && x > 40.0)) return -x;
    return std::log(loss_value(kind, x));
}

double log_excess(LossKind kind, double best, double log_deficit) {
    if (kind == LossKind::correlation || log_deficit == -HUGE_VAL) return log_deficit;
    const double deficit = std::exp(log_deficit);
    // log(e^deficit - 1); the first two terms of its series where the deficit may be subnormal or zero
    const double grown = deficit < 1e-9   ? log_deficit + deficit / 2
                         : deficit < 40.0 ? std::log(std::expm1(deficit))
                                          : deficit;
    if (kind == LossKind::exponential) return grown - best;
    // log(1 + e^(deficit - best)) - log(1 + e^-best) = log(1 + (e^deficit - 1) / (1 + e^best))
    const double log_ratio = grown - ((best > 0 ? best : 0.0) + std::log1p(std::exp(-std::fabs(best))));
    if (log_ratio > 40.0) return std::log(log_ratio);
    const double ratio = std::exp(log_ratio);
    return ratio < 1e-9 ? log_ratio - ratio / 2 : std::log(std::log1p(ratio));
}

} // namespace fastmm
