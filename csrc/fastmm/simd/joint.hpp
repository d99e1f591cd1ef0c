// Entry points of the kernel for runs in any parameters of one instruction set.
#pragma once

#include "fastmm/joint_kernels.hpp"

namespace fastmm::FASTMM_ISA {

std::int64_t joint_workspace(const JointLanes& job);
void joint_load(const JointLanes& job);     // lays out the data of a block of lanes
void joint_gradient(const JointLanes& job); // at the parameters given, with the data laid out before

} // namespace fastmm::FASTMM_ISA
