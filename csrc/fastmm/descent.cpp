// Small problems go to the lanes kernel in blocks of one vector, large ones step by step; see descent.hpp.
#include "fastmm/descent.hpp"

#include "fastmm/aligned.hpp"
#include "fastmm/dispatch.hpp"
#include "fastmm/gradient.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

namespace fastmm {

namespace {

// True when the slope of the loss may leave the range that the lanes kernel keeps it in.
template <class R> bool is_wide(const TokenBatch<R>& tokens, std::int64_t b) {
    for (std::int64_t i = 0; i < tokens.n; ++i) {
        const std::int64_t own = tokens.lengths ? tokens.lengths[b][i] : tokens.T;
        const R* scores = tokens.scores[b] + i * tokens.T;
        for (std::int64_t t = 0; t < own; ++t)
            if (std::fabs(scores[t]) > wide_scores<R>()) return true;
    }
    return false;
}

struct Beat {
    Pulse* pulse;
    std::int64_t lanes;
    static bool call(void* context, std::int64_t steps) {
        auto* self = static_cast<Beat*>(context);
        return self->pulse->beat(steps * self->lanes);
    }
};

// The pointers and scratch memory of one worker on blocks of instances.
template <class R> class LanesWorker {
public:
    explicit LanesWorker(const DescentBatch<R>& batch)
        : batch_(batch), width_(static_cast<std::size_t>(KernelsOf<R>::width(kernels()))),
          workspace_(static_cast<std::size_t>(
              KernelsOf<R>::workspace(kernels(), batch.tokens.n, batch.tokens.T, batch.tokens.d))),
          keys_(width_), scores_(width_), lengths_(width_), p_(width_), recorded_(width_), lr_(width_),
          steps_done_(width_), reason_(width_), stride_(width_), spare_(static_cast<std::size_t>(2 * batch.tokens.d)) {}

    // Runs the instances listed in [first, last), at most one vector of them.
    void run(const std::int64_t* first, const std::int64_t* last, bool wide, Pulse& pulse) {
        const auto& tokens = batch_.tokens;
        const auto count = static_cast<std::size_t>(last - first);
        for (std::size_t lane = 0; lane < width_; ++lane) {
            const bool own = lane < count; // lanes to spare repeat the first and write where nobody reads
            const std::int64_t b = first[own ? lane : 0];
            keys_[lane] = tokens.keys[b];
            scores_[lane] = tokens.scores[b];
            if (tokens.lengths) lengths_[lane] = tokens.lengths[b];
            lr_[lane] = batch_.lr[b];
            p_[lane] = own ? batch_.p + b * tokens.d : spare_.data();
            recorded_[lane] = own ? batch_.recorded + b * tokens.d : spare_.data() + tokens.d;
            stride_[lane] = own ? tokens.batch * tokens.d : 0;
        }
        if (count < width_) std::copy(p_[0], p_[0] + tokens.d, spare_.data());

        Beat beat{&pulse, static_cast<std::int64_t>(count)};
        DescentLanes<R> job{};
        job.n = tokens.n;
        job.T = tokens.T;
        job.d = tokens.d;
        job.loss = batch_.loss;
        job.normalized = batch_.normalized;
        job.wide = wide;
        job.keys = keys_.data();
        job.scores = scores_.data();
        job.lengths = tokens.lengths ? lengths_.data() : nullptr;
        job.p = p_.data();
        job.lr = lr_.data();
        job.steps = batch_.steps;
        job.record = batch_.record;
        job.records = batch_.records;
        job.recorded = recorded_.data();
        job.record_stride = stride_.data();
        job.steps_done = steps_done_.data();
        job.reason = reason_.data();
        job.beat = &Beat::call;
        job.context = &beat;
        job.workspace = workspace_.data();
        KernelsOf<R>::descend(kernels(), job);
        for (std::size_t lane = 0; lane < count; ++lane) {
            batch_.steps_done[first[lane]] = steps_done_[lane];
            batch_.reason[first[lane]] = reason_[lane];
        }
    }

private:
    const DescentBatch<R>& batch_;
    std::size_t width_;
    AlignedVector<R> workspace_;
    std::vector<const R*> keys_, scores_;
    std::vector<const std::int64_t*> lengths_;
    std::vector<R*> p_, recorded_;
    std::vector<R> lr_;
    std::vector<std::int64_t> steps_done_;
    std::vector<StopReason> reason_;
    std::vector<std::int64_t> stride_;
    std::vector<R> spare_;
};

template <class R> void descend_lanes(const DescentBatch<R>& batch, int threads, Monitor* monitor) {
    std::vector<std::int64_t> order[2]; // plain and wide instances
    for (std::int64_t b = 0; b < batch.tokens.batch; ++b) order[is_wide(batch.tokens, b) ? 1 : 0].push_back(b);
    const auto width = static_cast<std::int64_t>(KernelsOf<R>::width(kernels()));
    const auto blocks = [&](int wide) { return (static_cast<std::int64_t>(order[wide].size()) + width - 1) / width; };
    const std::int64_t count = blocks(0) + blocks(1);
    const double work = static_cast<double>(batch.tokens.batch * batch.tokens.n * batch.tokens.T * batch.tokens.d) *
                        static_cast<double>(batch.steps + 1);
    const auto worth = static_cast<std::int64_t>(std::min(work / (1 << 18), 4096.0)) + 1;
    const int useful = static_cast<int>(std::min<std::int64_t>({threads, count, worth}));
    std::vector<std::unique_ptr<LanesWorker<R>>> workers(static_cast<std::size_t>(std::max(useful, 1)));
    parallel_for(count, useful, monitor, [&](std::int64_t item, int worker, Pulse& pulse) {
        auto& own = workers[static_cast<std::size_t>(worker)];
        if (!own) own = std::make_unique<LanesWorker<R>>(batch);
        const int wide = item < blocks(0) ? 0 : 1;
        const auto& list = order[wide];
        const std::int64_t from = (wide == 0 ? item : item - blocks(0)) * width;
        const std::int64_t to = std::min(from + width, static_cast<std::int64_t>(list.size()));
        own->run(list.data() + from, list.data() + to, wide == 1, pulse);
    });
}

template <class R> class RowsRun {
public:
    RowsRun(const DescentBatch<R>& batch, const GradientBatch<R>& gradient)
        : batch_(batch), d_(batch.tokens.d), gradient_(gradient), p_(static_cast<std::size_t>(d_)), unit_(p_) {}

    void run(std::int64_t b, int threads, Monitor* monitor, Pulse* pulse) {
        R* p = batch_.p + b * d_;
        std::copy(p, p + d_, p_.begin());
        batch_.steps_done[b] = batch_.steps;
        batch_.reason[b] = StopReason::steps;
        std::int64_t row = 0, step = 0;
        for (; step < batch_.steps; ++step) {
            if (row < batch_.records && batch_.record[row] == step) write(b, row++);
            if (pulse != nullptr && pulse->beat(step == 0 ? 0 : 1)) {
                batch_.reason[b] = StopReason::interrupted;
                break;
            }
            Factored of_p{0.0, unit_.data(), nullptr};
            Point point;
            point.p = p_.data();
            Wanted wanted;
            wanted.p = &of_p;
            gradient_(b, point, wanted, threads, monitor);
            if (stopped_by(of_p, b)) break;
            const double rate = static_cast<double>(batch_.lr[b]);
            if (!move(batch_.normalized ? rate : rate * std::exp(of_p.log_norm))) {
                batch_.reason[b] = StopReason::overflow;
                break;
            }
        }
        if (batch_.reason[b] != StopReason::steps) batch_.steps_done[b] = step;
        if (batch_.reason[b] != StopReason::interrupted)
            for (; row < batch_.records; ++row) write(b, row);
        for (std::int64_t j = 0; j < d_; ++j) p[j] = static_cast<R>(p_[static_cast<std::size_t>(j)]);
    }

private:
    bool stopped_by(const Factored& of_p, std::int64_t b) {
        if (std::isnan(of_p.log_norm) || of_p.log_norm == HUGE_VAL) {
            batch_.reason[b] = StopReason::overflow;
        } else if (of_p.log_norm == -HUGE_VAL) {
            batch_.reason[b] = StopReason::zero_gradient;
        } else {
            return false;
        }
        return true;
    }

    // Goes `length` along the unit direction, or stays and returns false when that leaves the numbers.
    bool move(double length) {
        const double most = static_cast<double>(std::numeric_limits<R>::max());
        for (std::size_t j = 0; j < p_.size(); ++j)
            if (!(std::fabs(p_[j] + length * unit_[j]) <= most)) return false;
        for (std::size_t j = 0; j < p_.size(); ++j) p_[j] += length * unit_[j];
        return true;
    }

    void write(std::int64_t b, std::int64_t row) {
        R* to = batch_.recorded + (row * batch_.tokens.batch + b) * d_;
        for (std::int64_t j = 0; j < d_; ++j) to[j] = static_cast<R>(p_[static_cast<std::size_t>(j)]);
    }

    const DescentBatch<R>& batch_;
    std::int64_t d_;
    GradientOfOne<R> gradient_;
    std::vector<double> p_, unit_;
};

template <class R> void descend_rows(const DescentBatch<R>& batch, int threads, Monitor* monitor) {
    GradientBatch<R> gradient{};
    gradient.tokens = batch.tokens;
    gradient.loss = batch.loss;
    const bool inside = batch.tokens.batch < threads && GradientOfOne<R>(gradient).work() >= (1 << 21);
    if (inside) { // few large problems: threads share the chunks of each step
        RowsRun<R> run(batch, gradient);
        parallel_for(batch.tokens.batch, 1, monitor,
                     [&](std::int64_t b, int, Pulse& pulse) { run.run(b, threads, nullptr, &pulse); });
        return;
    }
    std::vector<std::unique_ptr<RowsRun<R>>> workers(static_cast<std::size_t>(threads));
    parallel_for(batch.tokens.batch, threads, monitor, [&](std::int64_t b, int worker, Pulse& pulse) {
        auto& own = workers[static_cast<std::size_t>(worker)];
        if (!own) own = std::make_unique<RowsRun<R>>(batch, gradient);
        own->run(b, 1, nullptr, &pulse);
    });
}

} // namespace

template <class R> void descend_batch(const DescentBatch<R>& batch, int threads, Monitor* monitor) {
    const auto& tokens = batch.tokens;
    // instances that are never begun, because the call was interrupted, say so
    std::fill(batch.steps_done, batch.steps_done + tokens.batch, 0);
    std::fill(batch.reason, batch.reason + tokens.batch, StopReason::interrupted);
    if (tokens.n * tokens.T * tokens.d <= lanes_limit)
        descend_lanes(batch, threads, monitor);
    else
        descend_rows(batch, threads, monitor);
}

template void descend_batch<double>(const DescentBatch<double>&, int, Monitor*);
template void descend_batch<float>(const DescentBatch<float>&, int, Monitor*);

} // namespace fastmm
