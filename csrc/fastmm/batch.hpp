// A batch of problems as the compiled layer sees it: blocks of data, and for each element of the batch which block is
// its own.
#pragma once

#include <cstdint>

namespace fastmm {

// Blocks of one array; element b of the batch uses block index[b] of `size` entries.
template <class T> struct Blocks {
    const T* data = nullptr;
    const std::int64_t* index = nullptr;
    std::int64_t size = 0;

    explicit operator bool() const { return data != nullptr; }
    const T* operator[](std::int64_t b) const { return data + index[b] * size; }
};

template <class R> struct TokenBatch {
    std::int64_t batch, n, T, d;
    Blocks<R> keys;               // (n, T, d)
    Blocks<R> scores;             // (n, T), labels included
    Blocks<std::int64_t> lengths; // (n), or none when all sequences are full
};

} // namespace fastmm
