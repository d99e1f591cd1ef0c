// The table of one instruction set's kernels.
#include "fastmm/dispatch.hpp"

#define FASTMM_TEXT2(x) #x
#define FASTMM_TEXT(x) FASTMM_TEXT2(x)

namespace fastmm::FASTMM_ISA {

extern const MarginKernels margin_kernels;
extern const Kernels table;
const Kernels table{FASTMM_TEXT(FASTMM_ISA), &margin_kernels};

} // namespace fastmm::FASTMM_ISA
