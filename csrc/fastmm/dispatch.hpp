// The kernels that exist once for each instruction set, and the choice among them at run time.
#pragma once

#include "fastmm/margin_kernels.hpp"

#include <string>
#include <vector>

namespace fastmm {

struct Kernels {
    const char* name;
    const MarginKernels* margin;
};

// The set in use: the best this CPU has, or the one named by the environment variable FASTMM_ISA (baseline, avx2,
// avx512). Chosen once. Throws std::runtime_error when the variable names a set that is unknown or that this CPU lacks.
const Kernels& kernels();

// Names of the sets this CPU can run, slowest first.
std::vector<std::string> available_instruction_sets();

} // namespace fastmm
