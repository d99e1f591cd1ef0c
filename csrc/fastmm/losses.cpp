// Losses one number at a time; see losses.hpp. Out of line, so that the per-instruction-set files may call them.
#include "fastmm/losses.hpp"

#include <cmath>

namespace fastmm {

double loss_value(LossKind kind, double x) {
    switch (kind) {
    case LossKind::logistic:
        return (x < 0 ? -x : 0.0) + std::log1p(std::exp(-std::fabs(x)));
    case LossKind::exponential:
        return std::exp(-x);
    case LossKind::correlation:
        break;
    }
    return -x;
}

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

double loss_log_slope(LossKind kind, double x) {
    switch (kind) {
    case LossKind::logistic:
        return -(x > 0 ? x : 0.0) - std::log1p(std::exp(-std::fabs(x)));
    case LossKind::exponential:
        return -x;
    case LossKind::correlation:
        break;
    }
    return 0.0;
}

} // namespace fastmm
