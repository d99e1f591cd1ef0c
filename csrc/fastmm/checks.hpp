// Checks of input data that read every element: done in one pass, without a temporary array.
#pragma once

#include <cmath>
#include <cstdint>

namespace fastmm {

// Position of the first entry that is NaN or infinite, or -1. The data are `rows` rows of T*d entries; only the first
// lengths[row]*d entries of a row are read (all of them when lengths is null).
template <class R> std::int64_t first_nonfinite(const R* data, std::int64_t rows, std::int64_t T, std::int64_t d,
                                                const std::int64_t* lengths) {
    for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t count = (lengths != nullptr ? lengths[row] : T) * d;
        const R* x = data + row * T * d;
        // x - x is 0 for finite x and NaN otherwise, so the sum of a stretch tells whether to look closer
        constexpr std::int64_t stretch = 4096;
        for (std::int64_t from = 0; from < count; from += stretch) {
            const std::int64_t to = from + stretch < count ? from + stretch : count;
            R sums[8] = {};
            std::int64_t k = from;
            for (; k + 8 <= to; k += 8)
                for (int lane = 0; lane < 8; ++lane) sums[lane] += x[k + lane] - x[k + lane];
            for (; k < to; ++k) sums[0] += x[k] - x[k];
            R sum = 0;
            for (const R lane : sums) sum += lane;
            if (sum == 0) continue;
            for (k = from; k < to; ++k)
                if (!std::isfinite(x[k])) return row * T * d + k;
        }
    }
    return -1;
}

} // namespace fastmm
