// A batch of problems as the compiled layer sees it: blocks of data, and for each element of the batch which block is
// its own.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

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

// Memory aligned to a cache line, for vectors.
template <class R> class Aligned {
public:
    explicit Aligned(std::int64_t count = 0) {
        if (count == 0) return;
        const std::size_t bytes = (static_cast<std::size_t>(count) * sizeof(R) + 63) / 64 * 64;
        data_.reset(static_cast<R*>(std::aligned_alloc(64, bytes)));
        if (!data_) throw std::bad_alloc();
    }
    R* get() const { return data_.get(); }

private:
    struct Free {
        void operator()(void* data) const { std::free(data); }
    };
    std::unique_ptr<R, Free> data_;
};

} // namespace fastmm
