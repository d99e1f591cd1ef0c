// Logits and scores of the tokens of one input.
#include "rows.hpp"
#include "row_dots.hpp"

namespace fastmm::FASTMM_ISA {

template <class R> void logits_row(const R* keys, std::int64_t T, std::int64_t d, const double* p, double* out) {
    dots_of_rows<true, false>(keys, T, d, DotsOf{p, nullptr, 0.0, false, out, nullptr}, keys + T * d);
}

template <class R>
void scores_row(const R* values, std::int64_t T, std::int64_t d, const double* v, double label, double* out) {
    dots_of_rows<false, true>(values, T, d, DotsOf{nullptr, v, label, false, nullptr, out}, values + T * d);
}

template void logits_row<double>(const double*, std::int64_t, std::int64_t, const double*, double*);
template void logits_row<float>(const float*, std::int64_t, std::int64_t, const double*, double*);
template void scores_row<double>(const double*, std::int64_t, std::int64_t, const double*, double, double*);
template void scores_row<float>(const float*, std::int64_t, std::int64_t, const double*, double, double*);

} // namespace fastmm::FASTMM_ISA
