// Runs against a plain loop in long double, records, reasons to stop, and lanes that do not know each other.
#include "check.hpp"
#include "model.hpp"

#include "fastmm/descent.hpp"

#include <algorithm>
#include <limits>
#include <string>

using namespace fastmm;
using namespace fastmm::test;

namespace {

template <class R> struct Run {
    std::vector<R> p, recorded;
    std::vector<std::int64_t> steps_done;
    std::vector<StopReason> reason;
};

template <class R> struct Settings {
    LossKind loss = LossKind::logistic;
    bool normalized = true;
    std::int64_t steps = 20;
    R lr = R(0.05);
    std::vector<std::int64_t> record;
    int threads = 1;
    Monitor* monitor = nullptr;
    R start = R(0.1);
};

template <class R> Run<R> run_of(const TokenBatch<R>& tokens, const Settings<R>& settings) {
    const auto count = static_cast<std::size_t>(tokens.batch), d = static_cast<std::size_t>(tokens.d);
    Run<R> run{std::vector<R>(count * d, settings.start),
               std::vector<R>(settings.record.size() * count * d, std::numeric_limits<R>::quiet_NaN()),
               std::vector<std::int64_t>(count, -1), std::vector<StopReason>(count)};
    const std::vector<R> lr(count, settings.lr);
    DescentBatch<R> batch{};
    batch.problem.tokens = tokens;
    batch.problem.loss = settings.loss;
    batch.rule.kind = settings.normalized ? RuleKind::normalized : RuleKind::gradient;
    batch.parameters.push_back({Role::p, true, tokens.d, 1, run.p.data(), run.recorded.data()});
    batch.lr = lr.data();
    batch.steps = settings.steps;
    batch.record = settings.record.data();
    batch.records = static_cast<std::int64_t>(settings.record.size());
    batch.steps_done = run.steps_done.data();
    batch.reason = run.reason.data();
    descend_batch(batch, settings.threads, settings.monitor);
    return run;
}

template <class R> std::vector<Real> plain_loop(const Data<R>& data, std::int64_t b, const Settings<R>& settings) {
    std::vector<Real> p(static_cast<std::size_t>(data.d), settings.start), of_p, of_v;
    for (std::int64_t step = 0; step < settings.steps; ++step) {
        data.gradient(b, settings.loss, p, of_p, of_v);
        const Real norm = norm_of(of_p);
        const Real length = settings.normalized ? (norm > 1e-17L ? settings.lr / norm : 0) : Real(settings.lr);
        for (std::size_t j = 0; j < p.size(); ++j) p[j] -= length * of_p[j];
    }
    return p;
}

struct Shape {
    std::int64_t batch, n, T, d;
    bool ragged;
};
// every tile remainder, every number of lanes in use, and (last) the layout along rows
const Shape shapes[] = {{1, 1, 2, 1, false},  {2, 2, 3, 2, false},  {3, 2, 4, 3, true},   {5, 1, 5, 4, false},
                        {7, 3, 6, 5, true},   {8, 2, 7, 6, false},  {9, 2, 8, 7, true},   {16, 1, 9, 8, false},
                        {17, 2, 17, 9, true}, {1, 5, 11, 10, true}, {3, 20, 17, 27, true}};

template <class R> void runs(double tolerance) {
    for (const auto& shape : shapes)
        for (const LossKind loss : all_losses)
            for (const bool normalized : {true, false}) {
                const Data<R> data(4, shape.batch, shape.n, shape.T, shape.d, shape.ragged, 1);
                Settings<R> settings;
                settings.loss = loss;
                settings.normalized = normalized;
                std::vector<std::vector<Real>> ends;
                for (std::int64_t b = 0; b < shape.batch; ++b) ends.push_back(plain_loop(data, b, settings));
                for (const int threads : {1, 3}) {
                    settings.threads = threads;
                    const auto run = run_of(data.tokens(), settings);
                    for (std::int64_t b = 0; b < shape.batch; ++b) {
                        const auto& want = ends[static_cast<std::size_t>(b)];
                        const bool whole = run.reason[static_cast<std::size_t>(b)] == StopReason::steps;
                        CHECK(whole || run.reason[static_cast<std::size_t>(b)] == StopReason::zero_gradient);
                        for (std::size_t j = 0; j < want.size(); ++j)
                            CHECK(close(static_cast<double>(run.p[static_cast<std::size_t>(b) * want.size() + j]),
                                        static_cast<double>(want[j]), 0, tolerance));
                    }
                }
            }
}

template <class R> void records() {
    for (const auto& shape : shapes) {
        const Data<R> data(5, shape.batch, shape.n, shape.T, shape.d, false, 1);
        Settings<R> settings;
        settings.steps = 9;
        settings.record = {0, 1, 4, 9};
        const auto run = run_of(data.tokens(), settings);
        const std::size_t row = run.p.size();
        CHECK(std::equal(run.p.begin(), run.p.end(), run.recorded.begin() + static_cast<std::ptrdiff_t>(3 * row)));
        for (std::size_t k = 0; k < row; ++k) CHECK(run.recorded[k] == settings.start);
        for (const std::size_t r : {std::size_t(1), std::size_t(2)}) {
            settings.steps = settings.record[r];
            Settings<R> shorter = settings;
            shorter.record.clear();
            const auto part = run_of(data.tokens(), shorter);
            CHECK(
                std::equal(part.p.begin(), part.p.end(), run.recorded.begin() + static_cast<std::ptrdiff_t>(r * row)));
        }
        settings.steps = 0;
        settings.record = {0};
        const auto none = run_of(data.tokens(), settings);
        CHECK(none.p == none.recorded);
        CHECK(none.steps_done[0] == 0 && none.reason[0] == StopReason::steps);
    }
}

// keys 1 and 0 in the first coordinate, in a layout of lanes or of rows
template <class R> Data<R> ladder(bool rows) {
    Data<R> data(6, 1, 1, 2, rows ? 5000 : 1, false, 1);
    std::fill(data.keys.begin(), data.keys.end(), R(0));
    data.keys[0] = 1;
    data.scores = {R(1), R(0)};
    return data;
}

template <class R> void reasons() {
    for (const bool rows : {false, true}) {
        Data<R> data = ladder<R>(rows);
        Settings<R> settings;
        settings.start = 0;
        settings.steps = (std::int64_t(1) << 62) - 1;
        data.scores = {R(2), R(2)};
        auto run = run_of(data.tokens(), settings);
        CHECK(run.steps_done[0] == 0 && run.reason[0] == StopReason::zero_gradient);

        data = ladder<R>(rows);
        settings.steps = 10;
        settings.lr = std::numeric_limits<R>::max() * R(0.4);
        run = run_of(data.tokens(), settings);
        CHECK(run.reason[0] == StopReason::overflow);
        CHECK(run.steps_done[0] == 2 && std::isfinite(run.p[0]));

        settings.normalized = false;
        settings.loss = LossKind::exponential;
        settings.lr = 1;
        data.scores = {R(-2999), R(-3000)};
        run = run_of(data.tokens(), settings);
        CHECK(run.reason[0] == StopReason::overflow && run.steps_done[0] == 0 && run.p[0] == 0);
    }
}

template <class R> void lanes_do_not_know_each_other() {
    Data<R> data(7, 19, 2, 5, 3, false, 1);
    for (std::size_t k = 0; k < 10; ++k) data.scores[40 + k] = R(0.5);  // element 4 is flat
    for (std::size_t k = 0; k < 10; ++k) data.scores[70 + k] *= R(300); // element 7 is wide
    Settings<R> settings;
    settings.record = {3};
    const auto all = run_of(data.tokens(), settings);
    CHECK(all.reason[4] == StopReason::zero_gradient);
    for (std::int64_t b = 0; b < 19; ++b) {
        auto one = data.tokens();
        one.batch = 1;
        one.keys.index = one.scores.index = data.own.data() + b;
        const auto alone = run_of(one, settings);
        CHECK(std::equal(alone.p.begin(), alone.p.end(), all.p.begin() + b * 3));
        CHECK(std::equal(alone.recorded.begin(), alone.recorded.end(), all.recorded.begin() + b * 3));
        CHECK(alone.steps_done[0] == all.steps_done[static_cast<std::size_t>(b)]);
    }
}

struct StopSoon final : Monitor {
    int polls = 0;
    std::int64_t last = 0;
    bool poll(std::int64_t done) override {
        CHECK(done >= last);
        last = done;
        return ++polls > 2;
    }
};

template <class R> void stops() {
    for (const auto& shape : {Shape{4, 2, 3, 4, false}, Shape{2, 20, 17, 27, false}, Shape{1, 900, 60, 40, false}})
        for (const int threads : {1, 2}) {
            const Data<R> data(8, shape.batch, shape.n, shape.T, shape.d, false, 1);
            StopSoon monitor;
            Settings<R> settings;
            settings.steps = 1000000000;
            settings.threads = threads;
            settings.monitor = &monitor;
            settings.record = {0, 1000000000};
            const auto run = run_of(data.tokens(), settings);
            for (std::size_t b = 0; b < run.reason.size(); ++b) {
                CHECK(run.reason[b] == StopReason::interrupted);
                CHECK(run.steps_done[b] >= 0 && run.steps_done[b] < settings.steps);
            }
            CHECK(*std::max_element(run.steps_done.begin(), run.steps_done.end()) > 0);
            CHECK(std::isnan(run.recorded.back()));
        }
}

} // namespace

int main() {
    runs<double>(1e-12);
    runs<float>(2e-4);
    records<double>();
    records<float>();
    reasons<double>();
    reasons<float>();
    lanes_do_not_know_each_other<double>();
    lanes_do_not_know_each_other<float>();
    stops<double>();
    stops<float>();
    return test::report();
}
