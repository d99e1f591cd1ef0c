// A batch of W-SVMs shared out to workers; see weight_batch.hpp.
#include "fastmm/weight_batch.hpp"

#include "fastmm/weight_worker.hpp"

#include <algorithm>
#include <memory>
#include <vector>

namespace fastmm {

namespace {

// Writes the differences of one program and returns their number.
template <class R> std::int64_t read(const WeightPrograms<R>& all, std::int64_t program, WeightWorker& worker) {
    const R* tokens = all.X + all.block[program] * all.n * all.T * all.d;
    std::int64_t row = 0;
    for (std::int64_t i = 0; i < all.n; ++i) {
        const std::int64_t own = all.lengths != nullptr ? all.lengths[program * all.n + i] : all.T;
        const std::int64_t chosen = all.selected[program * all.n + i];
        const R* top = tokens + (i * all.T + chosen) * all.d;
        for (std::int64_t t = 0; t < own; ++t) {
            if (t == chosen) continue;
            const R* other = tokens + (i * all.T + t) * all.d;
            double* out = worker.difference(row);
            for (std::int64_t j = 0; j < all.d; ++j)
                out[j] = static_cast<double>(top[j]) - static_cast<double>(other[j]);
            worker.input()[row] = i;
            worker.place()[row++] = i * all.T + t;
        }
    }
    return row;
}

} // namespace

template <class R> bool solve_weights(const WeightPrograms<R>& programs, const Start& start, const Limits& limits,
                                      int threads, Monitor* monitor, const Answers& answers) {
    const auto& all = programs;
    const std::int64_t most = all.n * (all.T - 1), whole = all.d_q * all.d, width = all.n * all.T;
    const std::int64_t shortest = std::min(all.queries, all.d_q) * std::min(most, all.d);
    const std::int64_t size = most * shortest + 1, together = programs_together(size);
    const std::int64_t items = (all.count + together - 1) / together;
    const auto steps = static_cast<double>(std::min(most, shortest) + 4);
    const int useful = useful_threads(all.count, static_cast<double>(size) * steps, threads);
    std::vector<std::unique_ptr<WeightWorker>> workers(static_cast<std::size_t>(useful));
    return parallel_for(items, useful, monitor, [&](std::int64_t item, int worker, Pulse& pulse) {
        auto& own = workers[static_cast<std::size_t>(worker)];
        if (!own) own = std::make_unique<WeightWorker>(all.n, all.T, all.queries, all.d_q, all.d, all.nuclear);
        const std::int64_t from = item * together, to = std::min(all.count, from + together);
        for (std::int64_t program = from; program < to; ++program) {
            if (program > from && pulse.beat(0)) return;
            const Answers out = answers.at(program, whole, width, 0);
            if (limits.late()) {
                *out.status = static_cast<std::int8_t>(Status::time_limit);
                continue;
            }
            const std::int64_t rows = read(all, program, *own);
            own->solve(all.Z + all.Z_block[program] * all.queries * all.d_q, rows,
                       start.dual != nullptr ? start.dual + program * width : nullptr,
                       start.point != nullptr ? start.point + program * whole : nullptr, limits, pulse, out);
        }
    });
}

template bool solve_weights(const WeightPrograms<float>&, const Start&, const Limits&, int, Monitor*, const Answers&);
template bool solve_weights(const WeightPrograms<double>&, const Start&, const Limits&, int, Monitor*, const Answers&);

} // namespace fastmm
