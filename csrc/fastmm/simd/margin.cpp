// The inner loops of the active-set solver in lanes of eight doubles; see margin_kernels.hpp.
#include "fastmm/margin_kernels.hpp"

namespace fastmm::FASTMM_ISA {

extern const MarginKernels margin_kernels;

namespace {

using V = double __attribute__((vector_size(64)));
using std::int64_t;
constexpr int64_t lanes = 8;

inline V load(const double* p) { return *reinterpret_cast<const V*>(p); }
inline void store(double* p, V v) { *reinterpret_cast<V*>(p) = v; }
inline V splat(double x) { return V{x, x, x, x, x, x, x, x}; }

inline double sum(V v) {
    const V a = v + __builtin_shuffle(v, (__typeof__(v == v)){4, 5, 6, 7, 0, 1, 2, 3});
    const V b = a + __builtin_shuffle(a, (__typeof__(v == v)){2, 3, 0, 1, 6, 7, 4, 5});
    return b[0] + b[1];
}

// The largest lane, in every lane.
inline V most(V v) {
    const V a = __builtin_shuffle(v, (__typeof__(v == v)){4, 5, 6, 7, 0, 1, 2, 3});
    v = v > a ? v : a;
    const V b = __builtin_shuffle(v, (__typeof__(v == v)){2, 3, 0, 1, 6, 7, 4, 5});
    v = v > b ? v : b;
    const V c = __builtin_shuffle(v, (__typeof__(v == v)){1, 0, 3, 2, 5, 4, 7, 6});
    return v > c ? v : c;
}

// Unevaluated sums of two doubles, high and low part (Ogita, Rump, Oishi, "Accurate sum and dot product", 2005).
struct Twice {
    V high, low;
};

inline V split_high(V x) {
    const V c = x * splat(134217729.0); // 2^27 + 1
    return c - (c - x);
}

inline void add_product(Twice& total, V a, V b) {
    const V p = a * b;
    const V a1 = split_high(a), b1 = split_high(b);
    const V a2 = a - a1, b2 = b - b1;
    const V error = a2 * b2 - (((p - a1 * b1) - a2 * b1) - a1 * b2);
    const V s = total.high + p;
    const V t = s - total.high;
    total.low += ((total.high - (s - t)) + (p - t)) + error;
    total.high = s;
}

void sizes(const double* rows, int64_t blocks, int64_t d, double* largest, double* norm, double* inverse) {
    for (int64_t k = 0; k < blocks; ++k) {
        V most = splat(0), square = splat(0);
        for (int64_t j = 0; j < d; ++j) {
            const V a = load(rows + (k * d + j) * lanes);
            const V size = a < 0 ? -a : a;
            most = size > most ? size : most;
            square += a * a;
        }
        store(largest + k * lanes, most);
        store(norm + k * lanes, square);
    }
    for (int64_t row = 0; row < blocks * lanes; ++row) norm[row] = __builtin_sqrt(norm[row]);
    for (int64_t k = 0; k < blocks; ++k) {
        const V size = load(norm + k * lanes);
        store(inverse + k * lanes, size > 0 ? splat(1) / size : splat(0));
    }
}

struct Best {
    V score, block;
};

// Prices `group` neighbouring blocks at once: independent sums hide the latency of the additions.
template <int group> inline void price_group(const double* rows, int64_t k, int64_t d, const double* w,
                                             const double* rhs, const double* weight, const double* floor, V noise,
                                             double* slack, Best& best) {
    V total[group];
    for (int g = 0; g < group; ++g) total[g] = load(rhs + (k + g) * lanes);
    const double* a = rows + k * d * lanes;
    for (int64_t j = 0; j < d; ++j) {
        const V x = splat(w[j]);
        for (int g = 0; g < group; ++g) total[g] -= load(a + (g * d + j) * lanes) * x;
    }
    for (int g = 0; g < group; ++g) {
        const int64_t at = (k + g) * lanes;
        store(slack + at, total[g]);
        const V score = total[g] * load(weight + at);
        const V least = load(floor + at) + noise;
        const auto better = (score > best.score) & (score > least);
        best.score = better ? score : best.score;
        best.block = better ? splat(static_cast<double>(k + g)) : best.block;
    }
}

int64_t price(const double* rows, int64_t blocks, int64_t d, const double* w, const double* rhs, const double* weight,
              const double* floor, double noise, double* slack) {
    Best best{splat(0), splat(-1)};
    int64_t k = 0;
    for (; k + 4 <= blocks; k += 4) price_group<4>(rows, k, d, w, rhs, weight, floor, splat(noise), slack, best);
    for (; k + 2 <= blocks; k += 2) price_group<2>(rows, k, d, w, rhs, weight, floor, splat(noise), slack, best);
    for (; k < blocks; ++k) price_group<1>(rows, k, d, w, rhs, weight, floor, splat(noise), slack, best);
    // of equal scores the first row wins, whatever its lane
    const V top = most(best.score);
    if (!(top[0] > 0)) return -1;
    const V row = best.block * splat(lanes) + V{0, 1, 2, 3, 4, 5, 6, 7};
    return -static_cast<int64_t>(most(best.score == top ? -row : splat(-0x1p60))[0]);
}

void accurate_slacks(const double* block, int64_t d, const double* w, const double* rhs, double* slack) {
    Twice total{load(rhs), splat(0)};
    for (int64_t j = 0; j < d; ++j) add_product(total, load(block + j * lanes), splat(-w[j]));
    store(slack, total.high + total.low);
}

void dots(const double* columns, int64_t count, int64_t stride, const double* x, double* out) {
    for (int64_t k = 0; k < count; ++k) {
        V total = load(columns) * load(x);
        for (int64_t j = lanes; j < stride; j += lanes) total += load(columns + j) * load(x + j);
        out[k] = sum(total);
        columns += stride;
    }
}

double subtract(const double* columns, int64_t count, int64_t stride, const double* c, const double* x, double* out) {
    V square = splat(0);
    for (int64_t j = 0; j < stride; j += lanes) {
        V total = load(x + j);
        for (int64_t k = 0; k < count; ++k) total -= splat(c[k]) * load(columns + k * stride + j);
        store(out + j, total);
        square += total * total;
    }
    return sum(square);
}

// A lane for each column, so that no sum across lanes is needed.
void accurate_dots(const double* columns, int64_t count, int64_t stride, const double* x, const double* target,
                   double* out) {
    for (int64_t k = 0; k < count; k += lanes) {
        const double* column[lanes];
        V goal = splat(0);
        for (int64_t l = 0; l < lanes; ++l) {
            const int64_t own = k + l < count ? k + l : count - 1; // lanes left over repeat the last column
            column[l] = columns + own * stride;
            goal[l] = target[own];
        }
        Twice total{goal, splat(0)};
        for (int64_t j = 0; j < stride; ++j) {
            if (x[j] == 0) continue; // the padding, and exact zeros
            const V a = {column[0][j], column[1][j], column[2][j], column[3][j],
                         column[4][j], column[5][j], column[6][j], column[7][j]};
            add_product(total, a, splat(-x[j]));
        }
        const V result = total.high + total.low;
        for (int64_t l = 0; l < lanes && k + l < count; ++l) out[k + l] = result[l];
    }
}

void accurate_subtract(const double* columns, int64_t count, int64_t stride, const double* c, const double* x,
                       double* out) {
    for (int64_t j = 0; j < stride; j += lanes) {
        Twice total{load(x + j), splat(0)};
        for (int64_t k = 0; k < count; ++k) add_product(total, load(columns + k * stride + j), splat(-c[k]));
        store(out + j, total.high + total.low);
    }
}

void rotate(double* x, double* y, int64_t stride, double c, double s) {
    for (int64_t j = 0; j < stride; j += lanes) {
        const V a = load(x + j), b = load(y + j);
        store(x + j, splat(c) * a + splat(s) * b);
        store(y + j, splat(c) * b - splat(s) * a);
    }
}

} // namespace

const MarginKernels margin_kernels{sizes,    price,         accurate_slacks,   dots,
                                   subtract, accurate_dots, accurate_subtract, rotate};

} // namespace fastmm::FASTMM_ISA
