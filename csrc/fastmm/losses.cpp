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

} // namespace fastmm
