// Gradients with their exponent apart, and sums of them in a fixed order.
#pragma once

#include <cstdint>

namespace fastmm {

// A gradient of the risk: minus the gradient is e^log_norm * unit.
struct Factored {
    double log_norm; // -inf when the gradient is exactly zero, NaN when logits overflow
    double* unit;    // direction of steepest descent, of norm 1, or zeros
    double* natural; // the gradient itself, as far as doubles can hold it; may be null
};

// Splits the mean of n terms, whose sum is that of e^scale[c] * parts[c] over the rows of parts (count, stride), into
// its direction and log norm. Rows of scale -inf count as zero; NaN among the scales gives NaN.
void combine(const double* parts, std::int64_t stride, const double* scale, std::int64_t count, std::int64_t d,
             std::int64_t n, Factored& out);

} // namespace fastmm
