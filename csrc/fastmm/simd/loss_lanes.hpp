// Sizes of the losses' slopes in vector lanes.
#pragma once

#include "exponential.hpp"

#include "fastmm/kernels.hpp"

namespace fastmm::FASTMM_ISA {

// |slope| at margins of at most wide_scores() in size
template <class R> inline Vec<R> slope_size(LossKind kind, Vec<R> z) {
    if (kind == LossKind::correlation) return splat(R(1));
    if (kind == LossKind::exponential) return exp_cut<R>(-z);
    return splat(R(1)) / (splat(R(1)) + exp_cut<R>(z));
}

} // namespace fastmm::FASTMM_ISA
