// The rows of each kind of max-margin program; see margin_batch.hpp.
#include "fastmm/margin_batch.hpp"

namespace fastmm {

namespace {
constexpr std::int64_t lanes = RowBlocks::lanes;
}

template <class R> void AttPrograms<R>::fill(std::int64_t program, RowBlocks& rows, std::int64_t* place) const {
    const R* keys = K + block[program] * n * T * d;
    std::int64_t total = 0;
    for (std::int64_t i = 0; i < n; ++i) total += (lengths != nullptr ? lengths[program * n + i] : T) - 1;
    rows.begin(0, total);
    std::int64_t row = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t own = lengths != nullptr ? lengths[program * n + i] : T, chosen = selected[program * n + i];
        const double goal = relaxed != nullptr && relaxed[program * n + i] ? 0 : 1;
        const R* top = keys + (i * T + chosen) * d;
        for (std::int64_t t = 0; t < own; ++t) {
            if (t == chosen) continue;
            const R* other = keys + (i * T + t) * d;
            double* out = rows.entry(row);
            for (std::int64_t j = 0; j < d; ++j)
                out[j * lanes] = static_cast<double>(top[j]) - static_cast<double>(other[j]);
            rows.rhs(row) = goal;
            place[row++] = i * T + t;
        }
    }
}

template struct AttPrograms<float>;
template struct AttPrograms<double>;

void LabelPrograms::fill(std::int64_t program, RowBlocks& rows, std::int64_t* place) const {
    const double* values = R + block[program] * n * d;
    rows.begin(0, n);
    for (std::int64_t i = 0; i < n; ++i) {
        double* out = rows.entry(i);
        for (std::int64_t j = 0; j < d; ++j) out[j * lanes] = Y[program * n + i] * values[i * d + j];
        rows.rhs(i) = 1;
        place[i] = i;
    }
}

void RowPrograms::fill(std::int64_t program, RowBlocks& rows, std::int64_t* place) const {
    rows.begin(equalities, m);
    for (std::int64_t k = 0; k < equalities; ++k) {
        const double* row = E + (E_block[program] * equalities + k) * d;
        double* out = rows.entry(k);
        for (std::int64_t j = 0; j < d; ++j) out[j * lanes] = row[j];
        rows.rhs(k) = e[program * equalities + k];
    }
    for (std::int64_t i = 0; i < m; ++i) {
        const double* row = A + (block[program] * m + i) * d;
        double* out = rows.entry(equalities + i);
        for (std::int64_t j = 0; j < d; ++j) out[j * lanes] = row[j];
        rows.rhs(equalities + i) = b[program * m + i];
        place[i] = i;
    }
}

} // namespace fastmm
