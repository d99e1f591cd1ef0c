// Rows of floats or doubles read as vectors of doubles, whole or with a tail of zeros.
#pragma once

#include "lanes.hpp"

namespace fastmm::FASTMM_ISA {

inline constexpr int row_width = Lanes<double>::width;

inline Doubles read(const double* from) { return load<double>(from); }
inline Doubles read(const float* from) {
#if defined(__AVX512F__)
    return (Doubles)_mm512_mask_cvtps_pd((__m512d)splat(0.0), 0xff, _mm256_loadu_ps(from));
#elif defined(__AVX2__)
    return (Doubles)_mm256_cvtps_pd(_mm_loadu_ps(from));
#else
    Doubles out;
    for (int lane = 0; lane < row_width; ++lane) out[lane] = static_cast<double>(from[lane]);
    return out;
#endif
}

// The first `count` < row_width entries; nothing behind them is touched.
template <class R> inline Doubles read_tail(const R* from, std::int64_t count) {
    double part[row_width] = {};
    for (std::int64_t lane = 0; lane < count; ++lane) part[lane] = static_cast<double>(from[lane]);
    return load<double>(part);
}

// Vector number `from / row_width` of a row of d entries.
template <class R> inline Doubles read_at(const R* row, std::int64_t from, std::int64_t d) {
    return from + row_width <= d ? read(row + from) : read_tail(row + from, d - from);
}

} // namespace fastmm::FASTMM_ISA
