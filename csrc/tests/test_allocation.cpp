// Runs and solves take their memory once: a hundred times the steps or problems make not one allocation more.
#include "check.hpp"
#include "model.hpp"

#include "fastmm/descent.hpp"
#include "fastmm/dispatch.hpp"
#include "fastmm/margin_batch.hpp"

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::int64_t> allocations{0};

void* counted(std::size_t size, std::size_t alignment) {
    ++allocations;
    const std::size_t whole = (size + alignment - 1) / alignment * alignment;
    if (void* out = std::aligned_alloc(alignment, whole == 0 ? alignment : whole)) return out;
    throw std::bad_alloc();
}
} // namespace

void* operator new(std::size_t size) { return counted(size, 16); }
void* operator new[](std::size_t size) { return counted(size, 16); }
void* operator new(std::size_t size, std::align_val_t alignment) {
    return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

using namespace fastmm;
using namespace fastmm::test;

namespace {

enum class Kind { p, pv, W, QK };

// Allocations of a batch of runs of so many steps.
std::int64_t of_runs(const Data<double>& data, Kind kind, RuleKind rule, std::int64_t steps) {
    const auto count = static_cast<std::size_t>(data.batch), d = static_cast<std::size_t>(data.d);
    constexpr std::int64_t d_q = 3, inner = 2;
    std::vector<double> start(count * d * d_q, 0.1), other(start), recorded(start);
    const std::vector<double> lr(count, 0.01), queries(count * static_cast<std::size_t>(data.n * d_q), 0.5);
    std::vector<std::int64_t> steps_done(count);
    std::vector<StopReason> reason(count);
    DescentBatch<double> batch{};
    batch.problem.tokens = data.tokens();
    batch.rule.kind = rule;
    batch.d_q = d_q;
    batch.queries = {queries.data(), data.own.data(), data.n * d_q};
    if (kind == Kind::p || kind == Kind::pv)
        batch.parameters.push_back({Role::p, true, data.d, 1, start.data(), recorded.data()});
    if (kind == Kind::W) batch.parameters.push_back({Role::W, true, d_q, data.d, start.data(), recorded.data()});
    if (kind == Kind::QK) {
        batch.parameters.push_back({Role::Q, true, d_q, inner, start.data(), recorded.data()});
        batch.parameters.push_back({Role::K, true, data.d, inner, other.data(), recorded.data()});
    }
    if (kind == Kind::pv) {
        batch.problem.d_v = data.d;
        batch.problem.values = batch.problem.tokens.keys;
        batch.problem.labels = {data.labels.data(), data.own.data(), data.n};
        batch.problem.tokens.scores = {};
        batch.parameters.push_back({Role::v, true, data.d, 1, other.data(), recorded.data()});
    }
    batch.lr = lr.data();
    batch.steps = steps;
    batch.steps_done = steps_done.data();
    batch.reason = reason.data();
    const std::int64_t before = allocations;
    descend_batch(batch, 1, nullptr);
    const std::int64_t made = allocations - before;
    CHECK(reason[0] == StopReason::steps && steps_done[0] == steps);
    return made;
}

void runs() {
    for (const auto& shape : {std::array<std::int64_t, 3>{3, 4, 5}, {30, 20, 16}}) { // lanes, and rows
        const Data<double> data(1, 4, shape[0], shape[1], shape[2], false);
        for (const Kind kind : {Kind::p, Kind::pv, Kind::W, Kind::QK})
            for (const RuleKind rule : {RuleKind::normalized, RuleKind::adam}) {
                const std::int64_t few = of_runs(data, kind, rule, 5), many = of_runs(data, kind, rule, 50);
                CHECK(few > 0);
                CHECK(few == many);
            }
    }
}

// Allocations of solving so many programs.
std::int64_t of_programs(const Data<double>& data, std::int64_t count) {
    const auto size = static_cast<std::size_t>(count);
    const std::int64_t rows = data.n * data.T;
    std::vector<std::int64_t> block(size), selected(size * static_cast<std::size_t>(data.n), 0);
    for (std::size_t k = 0; k < size; ++k) block[k] = static_cast<std::int64_t>(k) % data.batch;
    AttPrograms<double> programs;
    programs.count = count;
    programs.width = rows;
    programs.d = data.d;
    programs.most_rows = data.n * (data.T - 1);
    programs.K = data.keys.data();
    programs.block = block.data();
    programs.selected = selected.data();
    programs.n = data.n;
    programs.T = data.T;
    const auto places = size * static_cast<std::size_t>(rows);
    std::vector<double> point(size * static_cast<std::size_t>(data.d)), dual(places), farkas(places),
        residuals(3 * size);
    std::vector<char> neighbors(places);
    std::vector<std::int8_t> status(size);
    std::vector<std::int64_t> steps(size);
    Answers answers;
    answers.point = point.data();
    answers.dual = dual.data();
    answers.farkas = farkas.data();
    answers.neighbors = reinterpret_cast<bool*>(neighbors.data());
    answers.status = status.data();
    answers.steps = steps.data();
    answers.residuals = residuals.data();
    const std::int64_t before = allocations;
    solve_batch(programs, {}, {}, 1, nullptr, answers);
    const std::int64_t made = allocations - before;
    for (const std::int8_t one : status) CHECK(one == 0 || one == 1);
    return made;
}

void programs() {
    const Data<double> data(2, 50, 3, 4, 12, false);
    const std::int64_t few = of_programs(data, 5), many = of_programs(data, 500);
    CHECK(few > 0);
    CHECK(few == many);
}

} // namespace

int main() {
    kernels(); // chosen once, on first use
    runs();
    programs();
    return report();
}
