// Fetches what is read next while what is in the cache is worked on.
#pragma once

#include "lanes.hpp"

namespace fastmm::FASTMM_ISA {

// Fetches half as many bytes as said from `at` on, and returns where they end. (Less than a line: nothing.)
template <int bytes> FASTMM_INLINE const char* fetch_lines(const char* at) {
    constexpr int lines = bytes / 128;
#pragma GCC unroll 8
    for (int k = 0; k < lines; ++k) __builtin_prefetch(at + k * 64);
    return at + lines * 64;
}

} // namespace fastmm::FASTMM_ISA
