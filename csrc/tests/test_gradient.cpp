// Gradients in one pass against plain loops in long double, at odd shapes, and what is made from them.
#include "check.hpp"
#include "model.hpp"

#include "fastmm/attention.hpp"
#include "fastmm/gradient.hpp"
#include "fastmm/losses.hpp"
#include "fastmm/query_gradient.hpp"

#include <algorithm>
#include <limits>

using namespace fastmm;
using namespace fastmm::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

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

// Queries of their own, tied values, heads: each input alone in p tells what its pull has to be.
template <class R> void queries_and_heads() {
    for (const auto& shape : shapes)
        for (const LossKind kind : all_losses) {
            const Data<R> data(4, shape.batch, shape.n, shape.T, shape.d, shape.ragged);
            const auto n = static_cast<std::size_t>(shape.n), d = static_cast<std::size_t>(shape.d);
            std::vector<double> queries, v;
            for (std::size_t k = 0; k < n * d; ++k) queries.push_back(0.1 * static_cast<double>(k % 7) - 0.3);
            for (std::size_t j = 0; j < d; ++j) v.push_back(0.2 * static_cast<double>(j % 4) - 0.25);
            GradientBatch<R> batch{};
            batch.tokens = data.tokens();
            batch.tokens.scores = {};
            batch.loss = kind;
            batch.values = batch.tokens.keys; // the same memory
            batch.labels = {data.labels.data(), data.own.data(), shape.n};
            batch.d_v = shape.d;
            std::vector<R> copy = data.keys;
            GradientBatch<R> untied = batch;
            untied.values.data = copy.data();
            GradientOfOne<R> gradient(batch), apart(untied);
            for (std::int64_t b = 0; b < shape.batch; ++b) {
                std::vector<double> pulls(n * d), exponents(n), unit(d), natural(d), other_pulls(n * d), other(n);
                Factored of_v{0.0, unit.data(), natural.data()};
                double saturation = 0.0;
                Point point;
                point.queries = queries.data();
                point.v = v.data();
                Wanted wanted;
                wanted.v = &of_v;
                wanted.pulls = pulls.data();
                wanted.exponents = exponents.data();
                wanted.saturation = &saturation;
                const double risk = gradient(b, point, wanted, 1, nullptr);
                std::vector<double> first = natural;
                CHECK(gradient(b, point, wanted, 3, nullptr) == risk && natural == first);
                wanted.pulls = other_pulls.data();
                wanted.exponents = other.data();
                CHECK(close(apart(b, point, wanted, 1, nullptr), risk, 1e-14));
                Real mean = 0;
                std::vector<Real> sum_v(d, 0);
                double least = 1.0;
                for (std::int64_t i = 0; i < shape.n; ++i) {
                    std::vector<Real> query;
                    for (std::size_t j = 0; j < d; ++j) query.push_back(queries[static_cast<std::size_t>(i) * d + j]);
                    const auto s = data.weights(b, i, query);
                    Real z = 0, top = 0;
                    std::vector<Real> gamma, moment(d, 0), average(d, 0);
                    const auto label = static_cast<Real>(data.labels[static_cast<std::size_t>(b * shape.n + i)]);
                    for (std::size_t t = 0; t < s.size(); ++t) {
                        Real score = 0;
                        for (std::size_t j = 0; j < d; ++j)
                            score += static_cast<Real>(data.key(b, i, static_cast<std::int64_t>(t))[j]) * v[j];
                        gamma.push_back(static_cast<Real>(static_cast<R>(label * score)));
                        z += s[t] * gamma[t];
                        top = std::max(top, s[t]);
                    }
                    least = std::min(least, static_cast<double>(top));
                    mean += loss_of(kind, z) / static_cast<Real>(shape.n);
                    const Real slope = slope_of(kind, z);
                    for (std::size_t t = 0; t < s.size(); ++t)
                        for (std::size_t j = 0; j < d; ++j) {
                            const auto x = static_cast<Real>(data.key(b, i, static_cast<std::int64_t>(t))[j]);
                            moment[j] -= slope * s[t] * (gamma[t] - z) * x;
                            average[j] += slope * label * s[t] * x / static_cast<Real>(shape.n);
                        }
                    const Real size = norm_of(moment);
                    const double tolerance = sizeof(R) == 8 ? 1e-12 : 1e-5; // scores are rounded to R
                    for (std::size_t j = 0; j < d; ++j) {
                        const auto at = static_cast<std::size_t>(i) * d + j;
                        const double factor = std::exp(exponents[static_cast<std::size_t>(i)]);
                        CHECK(close(factor * pulls[at], static_cast<double>(moment[j]), 0,
                                    tolerance * static_cast<double>(size) + 1e-15));
                        CHECK(close(std::exp(other[static_cast<std::size_t>(i)]) * other_pulls[at], factor * pulls[at],
                                    1e-13, 1e-17));
                        sum_v[j] += average[j];
                    }
                }
                CHECK(close(risk, static_cast<double>(mean), sizeof(R) == 8 ? 1e-13 : 1e-6,
                            sizeof(R) == 8 ? 1e-14 : 1e-7));
                CHECK(close(saturation, least, 1e-13));
                for (std::size_t j = 0; j < d; ++j)
                    CHECK(close(first[j], static_cast<double>(sum_v[j]), 0,
                                (sizeof(R) == 8 ? 1e-13 : 1e-6) * static_cast<double>(norm_of(sum_v)) + 1e-17));
            }
        }
}

// Scores made in the pass are those of token_scores to the bit, rounded to R as well.
template <class R> void scores_in_the_pass() {
    for (const auto& shape : shapes) {
        const Data<R> data(5, shape.batch, shape.n, shape.T, shape.d, shape.ragged);
        std::vector<R> v, scores(data.scores.size());
        for (std::int64_t j = 0; j < shape.d; ++j) v.push_back(static_cast<R>(0.1 * static_cast<double>(j % 6) - 0.2));
        const std::vector<double> wide(v.begin(), v.end()), p(v.size(), 0.3);
        GradientBatch<R> batch{};
        batch.tokens = data.tokens();
        batch.values = batch.tokens.keys;
        batch.labels = {data.labels.data(), data.own.data(), shape.n};
        batch.d_v = shape.d;
        CHECK(!token_scores(batch.tokens, batch.labels, Blocks<R>{v.data(), data.shared.data(), shape.d}, scores.data(),
                            1, nullptr));
        batch.tokens.scores = {scores.data(), data.own.data(), shape.n * shape.T};
        GradientOfOne<R> gradient(batch);
        for (std::int64_t b = 0; b < shape.batch; ++b) {
            std::vector<double> unit(v.size());
            Factored of_p{0.0, unit.data(), nullptr};
            Point point;
            point.p = p.data();
            Wanted wanted;
            wanted.p = &of_p;
            const double given = gradient(b, point, wanted, 1, nullptr);
            const std::vector<double> first = unit;
            point.v = wide.data();
            CHECK(gradient(b, point, wanted, 1, nullptr) == given);
            CHECK(unit == first);
        }
    }
}

void outer_means() {
    const std::vector<double> left{1.0, 2.0, 0.0, 0.0, 3.0, -1.0}, right{1.0, 0.5, 7.0, 7.0, -2.0, 4.0};
    for (const double shift : {0.0, -700.0, -5000.0}) {
        const std::vector<double> exponents{shift, shift + 900.0, shift + 1.0}; // the second has a zero query
        std::vector<double> unit(4), natural(4);
        Factored out{0.0, unit.data(), natural.data()};
        OuterMean mean(3, 2, 2);
        mean(left.data(), right.data(), exponents.data(), out, 2);
        const double e = std::exp(1.0);
        const double want[] = {1.0 - 6.0 * e, 0.5 + 12.0 * e, 2.0 + 2.0 * e, 1.0 - 4.0 * e};
        double square = 0.0;
        for (const double x : want) square += x * x;
        for (std::size_t k = 0; k < 4; ++k) CHECK(close(unit[k], want[k] / std::sqrt(square), 1e-14));
        CHECK(close(out.log_norm, shift + std::log(std::sqrt(square) / 3.0), 1e-14));
        CHECK(close(natural[0], -std::exp(shift) * want[0] / 3.0, 1e-12));
    }
}

void excess_losses() {
    for (const LossKind kind : all_losses)
        for (const double best : {-30.0, -1.0, 0.0, 2.0, 30.0, 500.0})
            for (const double deficit : {1e-12, 1e-6, 0.3, 5.0, 60.0}) {
                Real want =
                    kind == LossKind::correlation ? Real(deficit) : std::exp(-Real(best)) * std::expm1(Real(deficit));
                if (kind == LossKind::logistic)
                    want = std::log1p(std::expm1(Real(deficit)) / (1 + std::exp(Real(best))));
                CHECK(close(log_excess(kind, best, std::log(deficit)), static_cast<double>(std::log(want)), 1e-12,
                            1e-12));
            }
    CHECK(log_excess(LossKind::logistic, 1.0, -infinity) == -infinity);
    CHECK(close(log_excess(LossKind::exponential, 3.0, -4000.0), -4003.0, 1e-15));
    CHECK(close(log_excess(LossKind::logistic, 800.0, -4000.0), -4800.0, 1e-15));
    CHECK(loss_bend(LossKind::logistic, 0.0) == 0.5 && loss_bend(LossKind::exponential, 9.0) == 1.0);
    CHECK(loss_bend(LossKind::correlation, 1.0) == 0.0 && loss_bend(LossKind::logistic, 900.0) == 1.0);
}

} // namespace

int main() {
    gradients<double>();
    gradients<float>();
    gradient_ends();
    queries_and_heads<double>();
    queries_and_heads<float>();
    scores_in_the_pass<double>();
    scores_in_the_pass<float>();
    outer_means();
    excess_losses();
    return test::report();
}
