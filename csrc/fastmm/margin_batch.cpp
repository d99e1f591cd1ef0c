// A batch of max-margin programs shared out to workers; see margin_batch.hpp.
#include "fastmm/margin_batch.hpp"

#include "fastmm/margin_worker.hpp"

#include <algorithm>
#include <memory>
#include <vector>

namespace fastmm {

Answers Answers::at(std::int64_t program, std::int64_t d, std::int64_t width, std::int64_t equalities) const {
    Answers one = *this;
    one.point += program * d;
    one.dual += program * width;
    one.farkas += program * width;
    one.neighbors += program * width;
    one.equality_dual += program * equalities;
    one.equality_farkas += program * equalities;
    one.status += program;
    one.steps += program;
    one.residuals += 3 * program;
    return one;
}

bool solve_batch(const Programs& programs, const Start& start, const Limits& limits, int threads, Monitor* monitor,
                 const Answers& answers) {
    const std::int64_t size = programs.most_rows * programs.d + 1, together = programs_together(size);
    const std::int64_t items = (programs.count + together - 1) / together;
    const double steps = static_cast<double>(std::min(programs.most_rows, programs.d) + 4);
    const int useful = useful_threads(programs.count, static_cast<double>(size) * steps, threads);
    std::vector<std::unique_ptr<MarginWorker>> workers(static_cast<std::size_t>(useful));
    return parallel_for(items, useful, monitor, [&](std::int64_t item, int worker, Pulse& pulse) {
        auto& own = workers[static_cast<std::size_t>(worker)];
        if (!own) own = std::make_unique<MarginWorker>(programs.most_rows, programs.d, programs.width);
        const std::int64_t from = item * together, to = std::min(programs.count, from + together);
        for (std::int64_t program = from; program < to; ++program) {
            if (program > from && pulse.beat(0)) return;
            const Answers out = answers.at(program, programs.d, programs.width, programs.equalities);
            if (limits.late()) {
                *out.status = static_cast<std::int8_t>(Status::time_limit);
                continue;
            }
            programs.fill(program, own->rows(), own->place());
            own->solve(start.dual != nullptr ? start.dual + program * programs.width : nullptr,
                       start.point != nullptr ? start.point + program * programs.d : nullptr, limits, pulse, out);
        }
    });
}

} // namespace fastmm
