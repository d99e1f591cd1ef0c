// Softmax, losses, checks, weights, scores and gradients against plain loops in long double, at odd shapes.
#include "check.hpp"
#include "model.hpp"

#include "fastmm/attention.hpp"
#include "fastmm/checks.hpp"
#include "fastmm/dispatch.hpp"
#include "fastmm/gradient.hpp"
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

struct Shape {
    std::int64_t batch, n, T, d;
    bool ragged;
};
const Shape shapes[] = {{1, 1, 1, 1, false},    {1, 2, 3, 5, false}, {3, 1, 4, 7, true},   {2, 3, 9, 8, false},
                        {1, 4, 17, 9, true},    {5, 2, 5, 15, true}, {1, 2, 6, 33, false}, {20, 3, 7, 2, true},
                        {1, 300, 13, 11, true}, {2, 3, 40, 70, true}};

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

template <class R> void gradients() {
    for (const auto& shape : shapes)
        for (const LossKind kind : all_losses)
            for (const bool with_values : {false, true}) {
                const Data<R> data(3, shape.batch, shape.n, shape.T, shape.d, shape.ragged, 1 + shape.d / 2);
                std::vector<double> p;
                for (std::int64_t j = 0; j < shape.d; ++j) p.push_back(0.1 * static_cast<double>(j % 5) - 0.2);
                GradientBatch<R> batch{};
                batch.tokens = data.tokens();
                batch.loss = kind;
                GradientPoints points;
                points.p = {p.data(), data.shared.data(), shape.d};
                if (with_values) {
                    batch.values = {data.values.data(), data.own.data(), shape.n * shape.T * data.d_v};
                    batch.labels = {data.labels.data(), data.own.data(), shape.n};
                    batch.d_v = data.d_v;
                }
                const auto count = static_cast<std::size_t>(shape.batch), d = static_cast<std::size_t>(shape.d),
                           d_v = static_cast<std::size_t>(data.d_v);
                std::vector<double> first;
                for (const int threads : {1, 3}) {
                    std::vector<double> loss(count), unit(count * d), log_norm(count), natural(count * d);
                    std::vector<double> unit_v(count * d_v), log_norm_v(count), natural_v(count * d_v);
                    GradientOutputs out;
                    out.loss = loss.data();
                    out.unit_p = unit.data();
                    out.log_norm_p = log_norm.data();
                    out.natural_p = natural.data();
                    if (with_values) {
                        out.unit_v = unit_v.data();
                        out.log_norm_v = log_norm_v.data();
                        out.natural_v = natural_v.data();
                    }
                    CHECK(!gradient_batch(batch, points, out, threads, nullptr));
                    if (first.empty()) first = natural;
                    CHECK(natural == first);
                    for (std::size_t b = 0; b < count; ++b) {
                        std::vector<Real> of_p, of_v;
                        const Real risk = data.gradient(static_cast<std::int64_t>(b), kind,
                                                        std::vector<Real>(p.begin(), p.end()), of_p, of_v);
                        const Real norm = norm_of(of_p), norm_v = norm_of(of_v);
                        CHECK(close(loss[b], static_cast<double>(risk), 1e-13, 1e-14));
                        for (std::size_t j = 0; j < d; ++j) {
                            CHECK(close(natural[b * d + j], static_cast<double>(of_p[j]), 0,
                                        1e-13 * static_cast<double>(norm) + 1e-17));
                            if (norm > 1e-10L)
                                CHECK(close(unit[b * d + j], static_cast<double>(-of_p[j] / norm), 0, 1e-12));
                        }
                        if (norm > 1e-10L) CHECK(close(log_norm[b], static_cast<double>(std::log(norm)), 0, 1e-12));
                        for (std::size_t j = 0; with_values && j < d_v; ++j)
                            CHECK(close(natural_v[b * d_v + j], static_cast<double>(of_v[j]), 0,
                                        1e-13 * static_cast<double>(norm_v) + 1e-17));
                    }
                }
            }
}

void gradient_ends() {
    const std::vector<double> keys{1.0, 0.0}, flat{2.0, 2.0}, scores{1.0, 0.0};
    const std::vector<std::int64_t> zero{0};
    const auto log_norm_at = [&](const std::vector<double>& own_scores, double p) {
        GradientBatch<double> batch{};
        batch.tokens = {1, 1, 2, 1, {keys.data(), zero.data(), 2}, {own_scores.data(), zero.data(), 2}, {}};
        batch.loss = LossKind::logistic;
        GradientPoints points;
        points.p = {&p, zero.data(), 1};
        double loss, unit, log_norm;
        GradientOutputs out;
        out.loss = &loss;
        out.unit_p = &unit;
        out.log_norm_p = &log_norm;
        CHECK(!gradient_batch(batch, points, out, 1, nullptr));
        CHECK(unit == (log_norm > -infinity ? 1.0 : 0.0));
        return log_norm;
    };
    CHECK(log_norm_at(flat, 3.0) == -infinity);
    CHECK(close(log_norm_at(scores, 5000.0), -5000.0 + std::log(1.0 / (1.0 + std::exp(1.0))), 1e-15));
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
    gradients<double>();
    gradients<float>();
    gradient_ends();
    sets();
    return test::report();
}
