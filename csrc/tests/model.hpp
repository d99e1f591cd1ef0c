// The model in plain long-double loops, and random data for it.
#pragma once

#include "fastmm/batch.hpp"
#include "fastmm/kernels.hpp"

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace fastmm::test {

using Real = long double;

inline Real loss_of(LossKind kind, Real z) {
    if (kind == LossKind::correlation) return -z;
    if (kind == LossKind::exponential) return std::exp(-z);
    return (z < 0 ? -z : Real(0)) + std::log1p(std::exp(-std::fabs(z)));
}

inline Real slope_of(LossKind kind, Real z) {
    if (kind == LossKind::correlation) return -1;
    if (kind == LossKind::exponential) return -std::exp(-z);
    return -1 / (1 + std::exp(z));
}

inline std::vector<Real> softmax_of(const std::vector<Real>& logits) {
    Real top = logits[0], sum = 0;
    for (const Real x : logits) top = std::max(top, x);
    std::vector<Real> out;
    for (const Real x : logits) out.push_back(std::exp(x - top));
    for (const Real x : out) sum += x;
    for (Real& x : out) x /= sum;
    return out;
}

// One problem, or the blocks of a batch that all elements index in order; arrays end where their data do.
template <class R> struct Data {
    std::int64_t batch, n, T, d, d_v;
    std::vector<R> keys, scores, values, labels;
    std::vector<std::int64_t> lengths, own, shared;

    Data(unsigned seed, std::int64_t batch_, std::int64_t n_, std::int64_t T_, std::int64_t d_, bool ragged,
         std::int64_t d_v_ = 3)
        : batch(batch_), n(n_), T(T_), d(d_), d_v(d_v_) {
        std::mt19937 random(seed);
        std::normal_distribution<double> normal;
        const auto fill = [&](std::vector<R>& to, std::int64_t count) {
            for (std::int64_t k = 0; k < count; ++k) to.push_back(static_cast<R>(normal(random)));
        };
        fill(keys, batch * n * T * d);
        fill(scores, batch * n * T);
        fill(values, batch * n * T * d_v);
        fill(labels, batch * n);
        for (std::int64_t k = 0; ragged && k < batch * n; ++k)
            lengths.push_back(1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(T)));
        for (std::int64_t b = 0; b < batch; ++b) own.push_back(b);
        shared.assign(static_cast<std::size_t>(batch), 0);
        const R nan = std::numeric_limits<R>::quiet_NaN(); // padding that is read shows
        for (std::int64_t k = 0; ragged && k < batch * n * T; ++k) {
            if (k % T < lengths[static_cast<std::size_t>(k / T)]) continue;
            scores[static_cast<std::size_t>(k)] = nan;
            for (std::int64_t j = 0; j < d; ++j) keys[static_cast<std::size_t>(k * d + j)] = nan;
            for (std::int64_t j = 0; j < d_v; ++j) values[static_cast<std::size_t>(k * d_v + j)] = nan;
        }
    }

    TokenBatch<R> tokens() const {
        TokenBatch<R> out{batch, n, T, d, {}, {}, {}};
        out.keys = {keys.data(), own.data(), n * T * d};
        out.scores = {scores.data(), own.data(), n * T};
        if (!lengths.empty()) out.lengths = {lengths.data(), own.data(), n};
        return out;
    }

    std::int64_t length(std::int64_t b, std::int64_t i) const {
        return lengths.empty() ? T : lengths[static_cast<std::size_t>(b * n + i)];
    }

    const R* key(std::int64_t b, std::int64_t i, std::int64_t t) const {
        return keys.data() + ((b * n + i) * T + t) * d;
    }
    Real score(std::int64_t b, std::int64_t i, std::int64_t t) const {
        return static_cast<Real>(scores[static_cast<std::size_t>((b * n + i) * T + t)]);
    }

    std::vector<Real> weights(std::int64_t b, std::int64_t i, const std::vector<Real>& p) const {
        std::vector<Real> logits;
        for (std::int64_t t = 0; t < length(b, i); ++t) {
            Real sum = 0;
            for (std::int64_t j = 0; j < d; ++j)
                sum += static_cast<Real>(key(b, i, t)[j]) * p[static_cast<std::size_t>(j)];
            logits.push_back(sum);
        }
        return softmax_of(logits);
    }

    // Risk and its gradients in p and v by the formulas of the definition.
    Real gradient(std::int64_t b, LossKind kind, const std::vector<Real>& p, std::vector<Real>& of_p,
                  std::vector<Real>& of_v) const {
        of_p.assign(static_cast<std::size_t>(d), 0);
        of_v.assign(static_cast<std::size_t>(d_v), 0);
        Real risk = 0;
        const Real count = static_cast<Real>(n);
        for (std::int64_t i = 0; i < n; ++i) {
            const auto s = weights(b, i, p);
            Real z = 0;
            for (std::size_t t = 0; t < s.size(); ++t) z += s[t] * score(b, i, static_cast<std::int64_t>(t));
            risk += loss_of(kind, z) / count;
            const Real slope = slope_of(kind, z) / count;
            const Real label = static_cast<Real>(labels[static_cast<std::size_t>(b * n + i)]);
            for (std::size_t t = 0; t < s.size(); ++t) {
                const auto at = static_cast<std::int64_t>(t);
                for (std::int64_t j = 0; j < d; ++j)
                    of_p[static_cast<std::size_t>(j)] +=
                        slope * s[t] * (score(b, i, at) - z) * static_cast<Real>(key(b, i, at)[j]);
                for (std::int64_t j = 0; j < d_v; ++j)
                    of_v[static_cast<std::size_t>(j)] +=
                        slope * label * s[t] *
                        static_cast<Real>(values[static_cast<std::size_t>(((b * n + i) * T + at) * d_v + j)]);
            }
        }
        return risk;
    }
};

inline Real norm_of(const std::vector<Real>& x) {
    Real square = 0;
    for (const Real entry : x) square += entry * entry;
    return std::sqrt(square);
}

struct Shape {
    std::int64_t batch, n, T, d;
    bool ragged;
};
// Tails of vectors and of chunks of every kind.
const Shape shapes[] = {{1, 1, 1, 1, false},    {1, 2, 3, 5, false}, {3, 1, 4, 7, true},   {2, 3, 9, 8, false},
                        {1, 4, 17, 9, true},    {5, 2, 5, 15, true}, {1, 2, 6, 33, false}, {20, 3, 7, 2, true},
                        {1, 300, 13, 11, true}, {2, 3, 40, 70, true}};

constexpr LossKind all_losses[] = {LossKind::logistic, LossKind::exponential, LossKind::correlation};

} // namespace fastmm::test
