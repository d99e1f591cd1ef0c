// The active set: known answers and proofs, the same bits for any threads, and no allocation once its room is made.
#include "check.hpp"

#include "fastmm/dispatch.hpp"
#include "fastmm/margin_batch.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <vector>

namespace {
std::atomic<std::int64_t> allocations{0};

void* counted(std::size_t size, std::size_t alignment) {
    ++allocations;
    void* p = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (p == nullptr) throw std::bad_alloc();
    return p;
}
} // namespace

void* operator new(std::size_t size) { return counted(size > 0 ? size : 1, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) { return counted(size, std::size_t(alignment)); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

using namespace fastmm;
using test::close;

namespace {

struct Quiet {
    std::atomic<bool> stop{false};
    std::atomic<std::int64_t> done{0};
    Pulse pulse{stop, done, nullptr};
};

struct Rows {
    std::vector<std::vector<double>> a;
    std::vector<double> b;
};

void load(ActiveSet& solver, const Rows& program, std::int64_t equalities = 0) {
    RowBlocks& rows = solver.rows();
    rows.begin(equalities, static_cast<std::int64_t>(program.b.size()) - equalities);
    for (std::size_t row = 0; row < program.b.size(); ++row) {
        for (std::size_t j = 0; j < program.a[row].size(); ++j)
            rows.entry(static_cast<std::int64_t>(row))[j * RowBlocks::lanes] = program.a[row][j];
        rows.rhs(static_cast<std::int64_t>(row)) = program.b[row];
    }
    rows.end();
}

Verdict solve(ActiveSet& solver, const Rows& program, std::int64_t equalities = 0, const Limits& limits = {}) {
    Quiet quiet;
    solver.reserve(static_cast<std::int64_t>(program.b.size()), static_cast<std::int64_t>(program.a[0].size()));
    load(solver, program, equalities);
    return solver.solve(nullptr, 0, limits, quiet.pulse);
}

void known_answers() {
    ActiveSet solver(*kernels().margin);
    Verdict verdict = solve(solver, {{{2, 1}, {1, 2}, {2, 1}}, {1, 1, 1}});
    CHECK(verdict.status == Status::optimal);
    CHECK(close(solver.point()[0], 1.0 / 3, 1e-15) && close(solver.point()[1], 1.0 / 3, 1e-15));
    CHECK(solver.neighbors()[0] && solver.neighbors()[1] && solver.neighbors()[2]);
    CHECK(close(solver.multipliers()[0] + solver.multipliers()[2], 1.0 / 9, 1e-15));

    verdict = solve(solver, {{{1, 0}, {-1, 0x1p-20}}, {1, 1}}); // p = (1, 2^21)
    CHECK(verdict.status == Status::optimal);
    CHECK(close(solver.point()[1], 0x1p21, 1e-15));

    verdict = solve(solver, {{{1, 0}, {-1, 0x1p-51}}, {1, 1}}); // p = (1, 2^52), though the rows look dependent
    CHECK(verdict.status != Status::infeasible);
    if (verdict.status == Status::optimal) CHECK(close(solver.point()[1], 0x1p52, 1e-15));

    verdict = solve(solver, {{{1, 1, 1}, {1, 0, 0}}, {0, 1}}, 1); // w1 + w2 + w3 = 0, w1 >= 1
    CHECK(verdict.status == Status::optimal);
    CHECK(close(solver.point()[1], -0.5, 1e-15) && close(solver.point()[2], -0.5, 1e-15));
    CHECK(close(solver.multipliers()[0], -0.5, 1e-15) && close(solver.multipliers()[1], 1.5, 1e-15));
}

void proofs_of_infeasibility() {
    ActiveSet solver(*kernels().margin);
    const Rows programs[] = {{{{1, 0}, {-1, 0}}, {1, 1}},
                             {{{0, 0}, {1, 0}}, {1, 1}},
                             {{{0, 1}, {-1, 0}, {1, 0}}, {1, 0, 1e-4}},
                             {{{1, 0}, {-1, 1}, {-1, -1}}, {1, 1, 1}}};
    for (const Rows& program : programs) {
        CHECK(solve(solver, program).status == Status::infeasible);
        double contradiction = 0, columns[2] = {0, 0};
        for (std::size_t row = 0; row < program.b.size(); ++row) {
            const double y = solver.multipliers()[row];
            CHECK(y >= 0);
            contradiction += y * program.b[row];
            for (int j = 0; j < 2; ++j) columns[j] += y * program.a[row][static_cast<std::size_t>(j)];
        }
        CHECK(contradiction > 0 && columns[0] == 0 && columns[1] == 0);
    }
}

void limits_are_kept() {
    ActiveSet solver(*kernels().margin);
    const Rows program{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, {1, 2, 3}};
    Limits limits;
    limits.steps = 2;
    CHECK(solve(solver, program, 0, limits).status == Status::max_iter);
    CHECK(solver.point()[2] == 3 && solver.point()[0] == 0);
    limits = {};
    limits.timed = true;
    limits.deadline = std::chrono::steady_clock::now();
    CHECK(solve(solver, program, 0, limits).status == Status::time_limit);
}

struct Batch {
    static constexpr std::int64_t count = 300, n = 6, T = 8, d = 10;
    std::vector<double> K;
    std::vector<std::int64_t> block, selected;
    AttPrograms<double> programs;
    std::vector<double> point = std::vector<double>(count * d), dual = std::vector<double>(count * n * T),
                        farkas = dual, residuals = std::vector<double>(count * 3), none = {0};
    std::vector<char> neighbors = std::vector<char>(count * n * T);
    std::vector<std::int8_t> status = std::vector<std::int8_t>(count);
    std::vector<std::int64_t> steps = std::vector<std::int64_t>(count);

    Batch() {
        std::mt19937_64 random(1);
        std::normal_distribution<double> normal;
        for (std::int64_t k = 0; k < count * n * T * d; ++k) K.push_back(normal(random));
        for (std::int64_t program = 0; program < count; ++program) {
            block.push_back(program);
            for (std::int64_t i = 0; i < n; ++i) selected.push_back(static_cast<std::int64_t>(random() % T));
        }
        programs.count = count;
        programs.n = n;
        programs.T = T;
        programs.d = d;
        programs.width = n * T;
        programs.most_rows = n * (T - 1);
        programs.K = K.data();
        programs.block = block.data();
        programs.selected = selected.data();
    }

    Answers answers() {
        return {point.data(),  dual.data(),  none.data(),
                farkas.data(), none.data(),  reinterpret_cast<bool*>(neighbors.data()),
                status.data(), steps.data(), residuals.data()};
    }
};

void same_bits_for_any_threads() {
    Batch one;
    solve_batch(one.programs, {}, {}, 1, nullptr, one.answers());
    for (const int threads : {2, 3, 7}) {
        Batch other;
        solve_batch(other.programs, {}, {}, threads, nullptr, other.answers());
        CHECK(std::memcmp(one.point.data(), other.point.data(), one.point.size() * sizeof(double)) == 0);
        CHECK(one.dual == other.dual && one.farkas == other.farkas && one.status == other.status);
    }
}

void no_allocation_a_program() {
    Batch batch;
    const auto spent = [&batch](std::int64_t count) {
        batch.programs.count = count;
        const std::int64_t before = allocations;
        solve_batch(batch.programs, {}, {}, 1, nullptr, batch.answers());
        return allocations - before;
    };
    CHECK(spent(1) > 0); // the workspace
    CHECK(spent(Batch::count) == spent(1));

    // a workspace that was large enough once needs nothing more
    ActiveSet solver(*kernels().margin);
    const Rows large{{{2, 1, 0}, {1, 2, 0}, {0, 0, 1}, {1, 1, 1}}, {1, 1, 1, -1}}, small{{{1, 0}, {-1, 0}}, {1, 1}};
    solve(solver, large);
    const std::int64_t before = allocations;
    solve(solver, small);
    solve(solver, large);
    CHECK(allocations == before);
}

} // namespace

int main() {
    known_answers();
    proofs_of_infeasibility();
    limits_are_kept();
    same_bits_for_any_threads();
    no_allocation_a_program();
    return test::report();
}
