// Losses of the margin, their slopes and curvatures, right to a few units in the last place for every double.
#pragma once

#include "fastmm/kernels.hpp"

namespace fastmm {

double loss_value(LossKind kind, double x);
double loss_slope(LossKind kind, double x);
double loss_curvature(LossKind kind, double x);
double loss_log_slope(LossKind kind, double x); // log(-slope), where the slope itself underflows

// Value and log(-slope) together, at the price of one.
struct LossParts {
    double value, log_slope;
};
LossParts loss_parts(LossKind kind, double x);

double loss_bend(LossKind kind, double x); // curvature / -slope, where both may underflow

// log(loss(best - deficit) - loss(best)) for log_deficit = log(deficit), -inf included, without the difference.
double loss_log_value(LossKind kind, double x); // log of the value, where the value itself underflows
double log_excess(LossKind kind, double best, double log_deficit);

} // namespace fastmm
