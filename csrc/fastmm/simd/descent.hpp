// Entry points of the descent kernel of one instruction set.
#pragma once

#include "fastmm/kernels.hpp"

namespace fastmm::FASTMM_ISA {

template <class R> void descend(const DescentLanes<R>& lanes);
template <class R> std::int64_t descend_workspace(std::int64_t n, std::int64_t T, std::int64_t d);

} // namespace fastmm::FASTMM_ISA
