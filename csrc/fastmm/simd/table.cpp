// The table of one instruction set's kernels.
#include "descent.hpp"
#include "joint.hpp"
#include "lanes.hpp"
#include "rows.hpp"

#include "fastmm/dispatch.hpp"

#define FASTMM_TEXT2(x) #x
#define FASTMM_TEXT(x) FASTMM_TEXT2(x)

namespace fastmm::FASTMM_ISA {

extern const MarginKernels margin_kernels;
extern const Kernels table;
const Kernels table{
    FASTMM_TEXT(FASTMM_ISA),   Lanes<double>::width, Lanes<float>::width, &descend_workspace<double>,
    &descend_workspace<float>, &descend<double>,     &descend<float>,     &gradient_rows<double>,
    &gradient_rows<float>,     &logits_row<double>,  &logits_row<float>,  &scores_row<double>,
    &scores_row<float>,        &softmax_row,         &joint_workspace,    &joint_load,
    &joint_gradient,           &margin_kernels,
};

} // namespace fastmm::FASTMM_ISA
