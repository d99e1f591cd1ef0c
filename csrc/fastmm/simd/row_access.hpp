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
inline Doubles read_tail(const double* from, std::int64_t count) {
#if defined(__AVX512F__)
    return (Doubles)_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1u), from);
#elif defined(__AVX2__)
    return (Doubles)_mm256_maskload_pd(from, (__m256i)(lane_numbers() < splat_integer(count)));
#else
    return count > 0 ? Doubles{from[0], 0.0} : splat(0.0);
#endif
}
inline Doubles read_tail(const float* from, std::int64_t count) {
#if defined(__AVX512F__)
    const auto mask = static_cast<__mmask8>((1u << count) - 1u);
    return (Doubles)_mm512_maskz_cvtps_pd(mask, _mm256_maskz_loadu_ps(mask, from));
#elif defined(__AVX2__)
    const __m128i lanes = _mm_cmpgt_epi32(_mm_set1_epi32(static_cast<int>(count)), _mm_set_epi32(3, 2, 1, 0));
    return (Doubles)_mm256_cvtps_pd(_mm_maskload_ps(from, lanes));
#else
    return count > 0 ? Doubles{static_cast<double>(from[0]), 0.0} : splat(0.0);
#endif
}

// The vector that starts at entry `from` of a row of d entries; zeros behind the row's end.
template <class R> FASTMM_INLINE Doubles read_at(const R* row, std::int64_t from, std::int64_t d) {
    if (from + row_width <= d) return read(row + from);
    return from < d ? read_tail(row + from, d - from) : splat(0.0);
}

// Rows that start inside a cache line, as NumPy's do, are read from the line's start on: a vector that reaches into two
// lines costs two reads. The lanes before and behind the row are zeros and nothing there is touched.
//
// Entry j of the row stands in lane (j + shift) % row_width. Sums over the vectors have the same bits, lanes turned;
// and so has their sum over the lanes, which adds lanes half a vector apart, then a quarter: the pairs are the same.
template <class R> inline int shift_of(const R* x, std::int64_t d) {
    if (register_bytes < 64 || d % row_width != 0) return 0;
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(x) / sizeof(R) % row_width);
}

// Vectors to read of a row.
inline std::int64_t vectors_of(std::int64_t d, int shift) { return (d + shift + row_width - 1) / row_width; }

#if defined(__AVX512F__)
using Part = __mmask8; // the lanes to read
inline Doubles read_part(const double* from, Part part) { return (Doubles)_mm512_maskz_loadu_pd(part, from); }
inline Doubles read_part(const float* from, Part part) {
    return (Doubles)_mm512_maskz_cvtps_pd(part, _mm256_maskz_loadu_ps(part, from));
}
inline Part part_of(std::int64_t vector, std::int64_t d, int shift) {
    unsigned lanes = 0xff;
    if (vector == 0) lanes = lanes << shift & 0xff;
    const std::int64_t behind = (vector + 1) * row_width - (d + shift);
    return static_cast<Part>(behind > 0 ? lanes & (0xffu >> behind) : lanes);
}
#else
using Part = std::int64_t; // how many lanes to read, from the first on
template <class R> inline Doubles read_part(const R* from, Part part) {
    return part == row_width ? read(from) : read_tail(from, part);
}
inline Part part_of(std::int64_t vector, std::int64_t d, int) {
    const std::int64_t left = d - vector * row_width;
    return left < row_width ? left : row_width;
}
#endif

// Doubles rounded to R, as doubles again.
template <class R> inline Doubles rounded(Doubles x) {
    if (sizeof(R) == sizeof(double)) return x;
#if defined(__AVX512F__)
    const __m256 narrow = _mm512_maskz_cvtpd_ps(0xff, (__m512d)x);
    return (Doubles)_mm512_maskz_cvtps_pd(0xff, narrow);
#elif defined(__AVX2__)
    return (Doubles)_mm256_cvtps_pd(_mm256_cvtpd_ps((__m256d)x));
#elif defined(__SSE2__)
    return (Doubles)_mm_cvtps_pd(_mm_cvtpd_ps((__m128d)x));
#else
    for (int lane = 0; lane < row_width; ++lane) {
        float narrow = static_cast<float>(x[lane]);
        asm("" : "+m"(narrow)); // gcc 12 leaves out a conversion of vectors and its way back, rounding included
        x[lane] = static_cast<double>(narrow);
    }
    return x;
#endif
}

} // namespace fastmm::FASTMM_ISA
