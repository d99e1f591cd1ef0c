// An orthonormal basis of the span of some vectors, and the vectors' coordinates in it.
#pragma once

#include "fastmm/aligned.hpp"

#include <cstdint>

namespace fastmm {

class Span {
public:
    // Makes room for `count` vectors of length d; later calls within it do not allocate.
    void reserve(std::int64_t count, std::int64_t d);

    // Gram-Schmidt, repeated where digits cancel, on the rows of `vectors` (count, d).
    void build(const double* vectors, std::int64_t count, std::int64_t d);

    std::int64_t rank() const { return rank_; }
    std::int64_t width() const { return width_; }                     // of the coordinates: the largest rank
    const double* basis() const { return basis_.data(); }             // (rank, d)
    const double* coordinates() const { return coordinates_.data(); } // (count, width), 0 behind the rank

private:
    std::int64_t rank_ = 0, width_ = 0;
    AlignedVector<double> basis_, coordinates_, rest_;
};

} // namespace fastmm
