// Sizes of the losses' slopes in vector lanes.
#pragma once

#include "exponential.hpp"

#include "fastmm/kernels.hpp"

namespace fastmm::FASTMM_ISA {

// |slope| at margins of at most wide_scores() in size
template <class R, LossKind kind> inline Vec<R> slope_size(Vec<R> z) {
    if constexpr (kind == LossKind::logistic) return splat(R(1)) / (splat(R(1)) + exp_cut<R>(z));
    if constexpr (kind == LossKind::exponential) return exp_cut<R>(-z);
    return splat(R(1));
}

} // namespace fastmm::FASTMM_ISA
