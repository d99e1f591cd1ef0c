// Fetches what is read next while what is in the cache is worked on.
//
// Three eighths of it during the first reading of what is there, three eighths during the second, the rest in between.
#pragma once

#include "lanes.hpp"

namespace fastmm::FASTMM_ISA {

// Where the second reading's share starts, of `count` entries.
constexpr std::int64_t second_share(std::int64_t count) { return count * 5 / 8; }

// A reading's share of as many bytes as it has just read, from `at` on; returns where they end. (Less than a line:
// nothing.)
template <int bytes> FASTMM_INLINE const char* fetch_lines(const char* at) {
    constexpr int lines = bytes * 3 / 8 / 64;
#pragma GCC unroll 8
    for (int k = 0; k < lines; ++k) __builtin_prefetch(at + k * 64);
    return at + lines * 64;
}

// The share between two readings, a step at a time.
class FetchBetween {
public:
    static constexpr int steps = 6;

    template <class R> FetchBetween(const R* next, std::int64_t count) {
        const std::int64_t from = count * 3 / 8, bytes = (second_share(count) - from) * static_cast<int>(sizeof(R));
        at_ = reinterpret_cast<const char*>(next + from);
        lines_ = (bytes / 64 + steps - 1) / steps;
    }

    FASTMM_INLINE void step() {
        for (std::int64_t k = 0; k < lines_; ++k) __builtin_prefetch(at_ + k * 64);
        at_ += lines_ * 64;
    }

private:
    const char* at_;
    std::int64_t lines_;
};

} // namespace fastmm::FASTMM_ISA
