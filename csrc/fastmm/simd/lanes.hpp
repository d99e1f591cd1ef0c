// Vector lanes of the instruction set being compiled for, and the few operations kernels need.
//
// Each file of simd/ is compiled once for each set, into the namespace FASTMM_ISA. Nothing here or in those files may
// use a standard-library template or an inline function from outside: the linker keeps one copy of such code, and it
// must not keep the one with wide instructions for everybody. Multiplications fuse with additions only where fma() says
// so.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define FASTMM_INLINE inline __attribute__((always_inline))

namespace fastmm::FASTMM_ISA {

#if defined(__AVX512F__)
inline constexpr int register_bytes = 64;
#elif defined(__AVX2__)
inline constexpr int register_bytes = 32;
#else
inline constexpr int register_bytes = 16;
#endif

typedef double Doubles __attribute__((vector_size(register_bytes)));
typedef float Floats __attribute__((vector_size(register_bytes)));
typedef std::int64_t Int64s __attribute__((vector_size(register_bytes)));
typedef std::int32_t Int32s __attribute__((vector_size(register_bytes)));
typedef std::uint64_t Words64 __attribute__((vector_size(register_bytes)));
typedef std::uint32_t Words32 __attribute__((vector_size(register_bytes)));

// Lanes<R>: the vector of R, the integer vector of the same width (also the type of masks: -1 true, 0 false).
template <class R> struct Lanes;
template <> struct Lanes<double> {
    using V = Doubles;
    using I = Int64s;
    using U = Words64;
    using Integer = std::int64_t;
    static constexpr int width = register_bytes / 8;
};
template <> struct Lanes<float> {
    using V = Floats;
    using I = Int32s;
    using U = Words32;
    using Integer = std::int32_t;
    static constexpr int width = register_bytes / 4;
};
template <class R> using Vec = typename Lanes<R>::V;
template <class R> using Mask = typename Lanes<R>::I;
template <class R> using Words = typename Lanes<R>::U; // bits, for arithmetic that wraps around

// All lanes alike; the zero folds away, -0 included. (Set lane by lane, gcc 12 inserts them one after the other.)
template <class R> inline Vec<R> splat(R value) { return value - Vec<R>{}; }

template <class R> inline Vec<R> load(const R* from) {
    Vec<R> out;
    std::memcpy(&out, from, sizeof out);
    return out;
}

template <class R> inline void store(R* to, Vec<R> value) { std::memcpy(to, &value, sizeof value); }

inline Doubles fma(Doubles a, Doubles b, Doubles c) {
#if defined(__AVX512F__)
    return (Doubles)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__)
    return (Doubles)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return a * b + c;
#endif
}

inline Floats fma(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
    return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

// The larger of two; b where a is NaN. (The plain 512-bit intrinsics make gcc 12 warn of their own undefined operand.)
inline Doubles larger(Doubles a, Doubles b) {
#if defined(__AVX512F__)
    return (Doubles)_mm512_mask_max_pd((__m512d)a, 0xff, (__m512d)a, (__m512d)b);
#elif defined(__AVX2__)
    return (Doubles)_mm256_max_pd((__m256d)a, (__m256d)b);
#else
    return a > b ? a : b;
#endif
}

inline Floats larger(Floats a, Floats b) {
#if defined(__AVX512F__)
    return (Floats)_mm512_mask_max_ps((__m512)a, 0xffff, (__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (Floats)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return a > b ? a : b;
#endif
}

inline Doubles root(Doubles a) {
#if defined(__AVX512F__)
    return (Doubles)_mm512_mask_sqrt_pd((__m512d)a, 0xff, (__m512d)a);
#elif defined(__AVX2__)
    return (Doubles)_mm256_sqrt_pd((__m256d)a);
#else
    for (int lane = 0; lane < Lanes<double>::width; ++lane) a[lane] = __builtin_sqrt(a[lane]);
    return a;
#endif
}

inline Floats root(Floats a) {
#if defined(__AVX512F__)
    return (Floats)_mm512_mask_sqrt_ps((__m512)a, 0xffff, (__m512)a);
#elif defined(__AVX2__)
    return (Floats)_mm256_sqrt_ps((__m256)a);
#else
    for (int lane = 0; lane < Lanes<float>::width; ++lane) a[lane] = __builtin_sqrtf(a[lane]);
    return a;
#endif
}

// value where the mask is false, 0 where it is true.
template <class R> inline Vec<R> zero_where(Mask<R> mask, Vec<R> value) { return (Vec<R>)(~mask & (Mask<R>)value); }

// a where the mask is true, else b.
template <class R> inline Vec<R> choose(Mask<R> mask, Vec<R> a, Vec<R> b) {
    return (Vec<R>)((mask & (Mask<R>)a) | (~mask & (Mask<R>)b));
}

inline bool any(Int64s mask) {
#if defined(__AVX512F__)
    return _mm512_movepi64_mask((__m512i)mask) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_pd((__m256d)mask) != 0;
#else
    return (mask[0] | mask[1]) != 0;
#endif
}

inline bool any(Int32s mask) {
#if defined(__AVX512F__)
    return _mm512_movepi32_mask((__m512i)mask) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_ps((__m256)mask) != 0;
#else
    return (mask[0] | mask[1] | mask[2] | mask[3]) != 0;
#endif
}

// One bit a lane, the first lane's the lowest.
inline unsigned bits(Int64s mask) {
#if defined(__AVX512F__)
    return _mm512_movepi64_mask((__m512i)mask);
#elif defined(__AVX2__)
    return static_cast<unsigned>(_mm256_movemask_pd((__m256d)mask));
#else
    return (mask[0] != 0 ? 1u : 0u) | (mask[1] != 0 ? 2u : 0u);
#endif
}

// 0, 1, 2, ... in the lanes.
inline Int64s lane_numbers() {
    Int64s out;
    for (int lane = 0; lane < Lanes<double>::width; ++lane) out[lane] = lane;
    return out;
}

inline Int64s splat_integer(std::int64_t value) { return value - Int64s{}; }

template <class R> inline Vec<R> absolute(Vec<R> a) { return larger(a, -a); }

// Sum over the lanes in one fixed order: halves are folded onto each other.
inline double sum(Doubles a) {
#if defined(__AVX512F__)
    const __m256d half = _mm256_add_pd(_mm512_maskz_extractf64x4_pd(0xf, (__m512d)a, 0),
                                       _mm512_maskz_extractf64x4_pd(0xf, (__m512d)a, 1));
    const __m128d quarter = _mm_add_pd(_mm256_castpd256_pd128(half), _mm256_extractf128_pd(half, 1));
    return _mm_cvtsd_f64(_mm_add_sd(quarter, _mm_unpackhi_pd(quarter, quarter)));
#elif defined(__AVX2__)
    const __m128d half = _mm_add_pd(_mm256_castpd256_pd128((__m256d)a), _mm256_extractf128_pd((__m256d)a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
#else
    return a[0] + a[1];
#endif
}

// Sums over the lanes of as many vectors as one has lanes: lane u has the bits of sum(rows[u]).
inline Doubles sums_of(const Doubles (&rows)[Lanes<double>::width]) {
#if defined(__AVX512F__)
    const auto halves = [](Doubles a, Doubles b) {
        return (Doubles)_mm512_maskz_shuffle_f64x2(0xff, (__m512d)a, (__m512d)b, 0x44) +
               (Doubles)_mm512_maskz_shuffle_f64x2(0xff, (__m512d)a, (__m512d)b, 0xee);
    };
    const auto quarters = [](Doubles a, Doubles b) {
        return (Doubles)_mm512_maskz_shuffle_f64x2(0xff, (__m512d)a, (__m512d)b, 0x88) +
               (Doubles)_mm512_maskz_shuffle_f64x2(0xff, (__m512d)a, (__m512d)b, 0xdd);
    };
    const Doubles even = quarters(halves(rows[0], rows[2]), halves(rows[4], rows[6]));
    const Doubles odd = quarters(halves(rows[1], rows[3]), halves(rows[5], rows[7]));
    return (Doubles)_mm512_maskz_unpacklo_pd(0xff, (__m512d)even, (__m512d)odd) +
           (Doubles)_mm512_maskz_unpackhi_pd(0xff, (__m512d)even, (__m512d)odd);
#elif defined(__AVX2__)
    const auto halves = [](Doubles a, Doubles b) {
        return (Doubles)_mm256_permute2f128_pd((__m256d)a, (__m256d)b, 0x20) +
               (Doubles)_mm256_permute2f128_pd((__m256d)a, (__m256d)b, 0x31);
    };
    const Doubles even = halves(rows[0], rows[2]), odd = halves(rows[1], rows[3]);
    return (Doubles)_mm256_unpacklo_pd((__m256d)even, (__m256d)odd) +
           (Doubles)_mm256_unpackhi_pd((__m256d)even, (__m256d)odd);
#else
    return Doubles{rows[0][0], rows[1][0]} + Doubles{rows[0][1], rows[1][1]};
#endif
}

inline double largest(Doubles a) {
#if defined(__AVX512F__)
    const __m256d half = _mm256_max_pd(_mm512_maskz_extractf64x4_pd(0xf, (__m512d)a, 0),
                                       _mm512_maskz_extractf64x4_pd(0xf, (__m512d)a, 1));
    const __m128d quarter = _mm_max_pd(_mm256_castpd256_pd128(half), _mm256_extractf128_pd(half, 1));
    return _mm_cvtsd_f64(_mm_max_sd(quarter, _mm_unpackhi_pd(quarter, quarter)));
#else
    double out = a[0];
    for (int lane = 1; lane < Lanes<double>::width; ++lane) out = a[lane] > out ? a[lane] : out;
    return out;
#endif
}

} // namespace fastmm::FASTMM_ISA
