// Softmax, losses, checks, weights and scores against plain loops in long double, at odd shapes.
#include "check.hpp"
#include "model.hpp"

#include "fastmm/attention.hpp"
#include "fastmm/checks.hpp"
#include "fastmm/dispatch.hpp"
#include "fastmm/losses.hpp"

#include <limits>

using namespace fastmm;
using namespace fastmm::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double eps = std::numeric_limits<double>::epsilon();

void softmax_values() {
    std::mt19937 random(1);
    std::normal_distribution<double> normal(0.0, 20.0);
    for (std::int64_t T = 1; T <= 40; ++T) {
        std::vector<double> logits;
        std::vector<Real> exact;
        for (std::int64_t t = 0; t < 2 * T; ++t) logits.push_back(normal(random));
        std::vector<double> out(logits.size()), logs(logits.size());
        CHECK(softmax_rows(logits.data(), 2, T, nullptr, false, out.data()) == -1);
        CHECK(softmax_rows(logits.data(), 2, T, nullptr, true, logs.data()) == -1);
        for (std::int64_t row = 0; row < 2; ++row) {
            const auto first = logits.begin() + row * T;
            const auto want = softmax_of(std::vector<Real>(first, first + T));
            for (std::int64_t t = 0; t < T; ++t) {
                const auto at = static_cast<std::size_t>(row * T + t);
                const Real weight = want[static_cast<std::size_t>(t)];
                CHECK(close(out[at], static_cast<double>(weight), 4 * eps));
                CHECK(close(logs[at], static_cast<double>(std::log(weight)), 4 * eps, 4e-19)); // log1p of long doubles
            }
        }
    }
}

void softmax_masks_and_lengths() {
    const std::vector<double> logits{-infinity, 0.0, -infinity, -infinity, -infinity, -infinity, 1.0, nan, nan};
    const std::vector<std::int64_t> lengths{3, 3, 1};
    std::vector<double> out(9, 7.0);
    CHECK(softmax_rows(logits.data(), 3, 3, lengths.data(), false, out.data()) == -1);
    const std::vector<double> want{0, 1, 0, 0, 0, 0, 1, 0, 0};
    CHECK(out == want);
    CHECK(softmax_rows(logits.data(), 3, 3, nullptr, false, out.data()) == 2);
    const std::vector<float> narrow{0.0f, std::numeric_limits<float>::infinity()};
    std::vector<float> narrow_out(2);
    CHECK(softmax_rows(narrow.data(), 1, 2, nullptr, false, narrow_out.data()) == 0);
}

void losses_values() {
    for (const LossKind kind : all_losses)
        for (const double x : {0.0, 1e-300, 0.3, 1.0, 17.0, 40.0, 300.0, 708.0})
            for (const double z : {x, -x}) {
                CHECK(close(loss_value(kind, z), static_cast<double>(loss_of(kind, z)), 4 * eps));
                CHECK(close(loss_slope(kind, z), static_cast<double>(slope_of(kind, z)), 4 * eps));
                const Real log_slope = kind == LossKind::logistic
                                           ? (z > 0 ? -Real(z) : Real(0)) - std::log1p(std::exp(-std::fabs(Real(z))))
                                           : std::log(-slope_of(kind, z));
                CHECK(close(loss_log_slope(kind, z), static_cast<double>(log_slope), 4 * eps, 1e-300));
            }
    CHECK(loss_curvature(LossKind::logistic, 0.0) == 0.25);
    CHECK(loss_curvature(LossKind::logistic, 40.0) > 0.0);
    CHECK(loss_curvature(LossKind::exponential, 1.0) == std::exp(-1.0));
    CHECK(loss_curvature(LossKind::correlation, 1.0) == 0.0);
    CHECK(loss_value(LossKind::logistic, 1e308) == 0.0);
    CHECK(loss_value(LossKind::logistic, -1e308) == 1e308);
}

void bad_entries() {
    for (const std::int64_t size : {1, 7, 8, 9, 4096, 4097, 9000})
        for (const std::int64_t place : {std::int64_t(0), size / 2, size - 1}) {
            std::vector<double> x(static_cast<std::size_t>(size), 1e308);
            CHECK(first_nonfinite(x.data(), 1, size, 1, nullptr) == -1);
            x[static_cast<std::size_t>(place)] = nan;
            CHECK(first_nonfinite(x.data(), 1, size, 1, nullptr) == place);
        }
    const std::vector<float> rows{1, 2, static_cast<float>(infinity), 3, static_cast<float>(nan), 5};
    const std::vector<std::int64_t> lengths{2, 1};
    CHECK(first_nonfinite(rows.data(), 2, 3, 1, lengths.data()) == -1);
    CHECK(first_nonfinite(rows.data(), 2, 3, 1, nullptr) == 2);
}

template <class R> void weights_and_scores(double rtol) {
    for (const auto& shape : shapes) {
        const Data<R> data(2, shape.batch, shape.n, shape.T, shape.d, shape.ragged);
        const std::vector<double> p(static_cast<std::size_t>(shape.d), 0.7);
        const std::vector<R> v(static_cast<std::size_t>(shape.d), R(0.5));
        const auto tokens = data.tokens();
        std::vector<R> first;
        for (const int threads : {1, 3}) {
            std::vector<R> out(data.scores.size()), scores(data.scores.size());
            CHECK(!attention_weights(tokens, Blocks<double>{p.data(), data.shared.data(), shape.d}, out.data(), threads,
                                     nullptr));
            CHECK(!token_scores(tokens, Blocks<R>{data.labels.data(), data.own.data(), shape.n},
                                Blocks<R>{v.data(), data.shared.data(), shape.d}, scores.data(), threads, nullptr));
            if (first.empty()) first = out;
            CHECK(out == first);
            for (std::int64_t b = 0; b < shape.batch; ++b)
                for (std::int64_t i = 0; i < shape.n; ++i) {
                    const auto want = data.weights(b, i, std::vector<Real>(p.begin(), p.end()));
                    for (std::int64_t t = 0; t < shape.T; ++t) {
                        const auto at = static_cast<std::size_t>((b * shape.n + i) * shape.T + t);
                        if (t >= data.length(b, i)) {
                            CHECK(out[at] == 0);
                            CHECK(std::isnan(scores[at]));
                            continue;
                        }
                        CHECK(close(static_cast<double>(out[at]),
                                    static_cast<double>(want[static_cast<std::size_t>(t)]), rtol));
                        Real dot = 0, size = 0;
                        for (std::int64_t j = 0; j < shape.d; ++j) {
                            const Real term = static_cast<Real>(data.key(b, i, t)[j]) * Real(0.5);
                            dot += term;
                            size += std::fabs(term);
                        }
                        const Real label = data.labels[static_cast<std::size_t>(b * shape.n + i)];
                        CHECK(close(static_cast<double>(scores[at]), static_cast<double>(label * dot), rtol,
                                    rtol * static_cast<double>(std::fabs(label) * size)));
                    }
                }
        }
    }
}

void sets() {
    const auto names = available_instruction_sets();
    CHECK(!names.empty() && names.front() == "baseline");
    CHECK(kernels().width64 * 2 == kernels().width32);
}

} // namespace

int main() {
    softmax_values();
    softmax_masks_and_lengths();
    losses_values();
    bad_entries();
    weights_and_scores<double>(1e-13);
    weights_and_scores<float>(1e-6);
    sets();
    return test::report();
}
