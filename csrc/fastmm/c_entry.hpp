// Entries with C calling conventions, for compiled code of others that has an address and no headers.
//
// Doubles only, C-contiguous, one problem a call, one thread; any thread may call. Scratch space is kept for each
// thread until a problem of another shape comes. What would read or write elsewhere (shapes, lengths) is the caller's
// to check.
#pragma once

#include <cstdint>

extern "C" {

// The risk at p, and there: its gradient (d), the unit direction of steepest descent (d), and the logarithm of the
// gradient's norm (1). NaN when logits leave the double range or memory is short. `loss` counts as LossKind does;
// lengths may be null.
double fastmm_gradient_p(std::int64_t loss, std::int64_t n, std::int64_t T, std::int64_t d, const double* keys,
                         const double* scores, const std::int64_t* lengths, const double* p, double* gradient,
                         double* direction, double* log_norm) noexcept;

// The same with the gradient in the head v, from values (n, T, d_v) and labels (n). Values that are the keys are read
// once.
double fastmm_gradient_pv(std::int64_t loss, std::int64_t n, std::int64_t T, std::int64_t d, std::int64_t d_v,
                          const double* keys, const double* values, const double* labels, const std::int64_t* lengths,
                          const double* p, const double* v, double* gradient_p, double* direction_p, double* log_norm_p,
                          double* gradient_v, double* direction_v, double* log_norm_v) noexcept;

} // extern "C"
