// Fetches what is read next while what is in the cache is worked on.
#pragma once

#include "row_access.hpp"

namespace fastmm::FASTMM_ISA {

template <class R> class Fetching {
public:
    Fetching(const R* from, std::int64_t count)
        : next_(reinterpret_cast<const char*>(from)), end_(reinterpret_cast<const char*>(from + count)) {}

    // Told when so many rows' next eight entries are read, or so many vectors.
    void rows(int) {}
    void vectors(int) {}

private:
    const char *next_, *end_;
};

} // namespace fastmm::FASTMM_ISA
