// Runs of small problems: blocks of one vector of instances each for the lanes kernel.
#include "fastmm/descent_run.hpp"

#include "fastmm/aligned.hpp"
#include "fastmm/dispatch.hpp"
#include "fastmm/losses.hpp"

#include <algorithm>
#include <cmath>
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

// Steps that the kernel does not know: other rules, schedules, balls and stopping rules, lane by lane in doubles.
template <class R> class LanesHook {
public:
    LanesHook(const DescentBatch<R>& batch, std::size_t width) : batch_(batch), d_(batch.problem.tokens.d) {
        for (std::size_t lane = 0; lane < width; ++lane) runs_.push_back(std::make_unique<DescentRun<R>>(batch));
    }

    void load(std::size_t lane, std::int64_t b) { runs_[lane]->load(b); }

    void take(const LanesStep<R>& step) {
        for (std::int64_t lane = 0; lane < step.lanes; ++lane) {
            if (!step.active[lane]) continue;
            DescentRun<R>& run = *runs_[static_cast<std::size_t>(lane)];
            Group<R>& p = *run.of(Role::p);
            read_gradient(step, lane, p);
            step.verdict[lane] = run.take_step(step.step, facts(step, lane));
            for (std::int64_t j = 0; j < d_; ++j)
                step.p[j * step.lanes + lane] = static_cast<R>(p.x[static_cast<std::size_t>(j)]);
        }
    }

private:
    void read_gradient(const LanesStep<R>& step, std::int64_t lane, Group<R>& p) const {
        const double scale = static_cast<double>(step.shift[lane]);
        for (std::int64_t j = 0; j < d_; ++j)
            p.step[static_cast<std::size_t>(j)] = static_cast<double>(step.g[j * step.lanes + lane]);
        Factored out = p.gradient();
        combine(p.step.data(), d_, &scale, 1, d_, batch_.problem.tokens.n, out);
        p.log_norm = out.log_norm;
    }

    IterateFacts facts(const LanesStep<R>& step, std::int64_t lane) const {
        IterateFacts out;
        out.saturation = static_cast<double>(step.saturation[lane]);
        if (!batch_.stop.needs(StopKind::loss)) return out;
        const std::int64_t n = batch_.problem.tokens.n;
        for (std::int64_t i = 0; i < n; ++i)
            out.risk += loss_value(batch_.problem.loss, static_cast<double>(step.margins[i * step.lanes + lane]));
        out.risk /= static_cast<double>(n);
        return out;
    }

    const DescentBatch<R>& batch_;
    std::int64_t d_;
    std::vector<std::unique_ptr<DescentRun<R>>> runs_;
};

// What the kernel calls back for.
template <class R> struct Context {
    Pulse* pulse;
    std::int64_t lanes;
    LanesHook<R>* hook;
    static bool beat(void* context, std::int64_t steps) {
        auto* self = static_cast<Context*>(context);
        return self->pulse->beat(steps * self->lanes);
    }
    static void step(void* context, const LanesStep<R>& step) { static_cast<Context*>(context)->hook->take(step); }
};

// The pointers and scratch memory of one worker on blocks of instances.
template <class R> class LanesWorker {
public:
    explicit LanesWorker(const DescentBatch<R>& batch)
        : batch_(batch), p_of_(batch.parameters[0]), width_(static_cast<std::size_t>(KernelsOf<R>::width(kernels()))),
          workspace_(static_cast<std::size_t>(KernelsOf<R>::workspace(kernels(), batch.problem.tokens.n,
                                                                      batch.problem.tokens.T, batch.problem.tokens.d))),
          keys_(width_), scores_(width_), lengths_(width_), p_(width_), recorded_(width_), lr_(width_),
          steps_done_(width_), reason_(width_), stride_(width_),
          spare_(static_cast<std::size_t>(2 * batch.problem.tokens.d)) {
        const bool known = batch.rule.kind == RuleKind::normalized || batch.rule.kind == RuleKind::gradient;
        if (!known || batch.schedule != nullptr || !batch.stop.empty() ||
            p_of_.radius != std::numeric_limits<double>::infinity())
            hook_ = std::make_unique<LanesHook<R>>(batch, width_);
    }

    // Runs the instances listed in [first, last), at most one vector of them.
    void run(const std::int64_t* first, const std::int64_t* last, bool wide, Pulse& pulse) {
        const auto& tokens = batch_.problem.tokens;
        const auto count = static_cast<std::size_t>(last - first);
        for (std::size_t lane = 0; lane < width_; ++lane) {
            const bool own = lane < count; // lanes to spare repeat the first and write where nobody reads
            const std::int64_t b = first[own ? lane : 0];
            keys_[lane] = tokens.keys[b];
            scores_[lane] = tokens.scores[b];
            if (tokens.lengths) lengths_[lane] = tokens.lengths[b];
            lr_[lane] = batch_.lr[b];
            p_[lane] = own ? p_of_.x + b * tokens.d : spare_.data();
            recorded_[lane] = own ? p_of_.recorded + b * tokens.d : spare_.data() + tokens.d;
            stride_[lane] = own ? tokens.batch * tokens.d : 0;
        }
        if (count < width_) std::copy(p_[0], p_[0] + tokens.d, spare_.data());

        if (hook_)
            for (std::size_t lane = 0; lane < width_; ++lane) hook_->load(lane, first[lane < count ? lane : 0]);
        Context<R> context{&pulse, static_cast<std::int64_t>(count), hook_.get()};
        DescentLanes<R> job{};
        job.n = tokens.n;
        job.T = tokens.T;
        job.d = tokens.d;
        job.loss = batch_.problem.loss;
        job.normalized = batch_.rule.kind == RuleKind::normalized;
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
        job.beat = &Context<R>::beat;
        job.hook = hook_ ? &Context<R>::step : nullptr;
        job.context = &context;
        job.workspace = workspace_.data();
        KernelsOf<R>::descend(kernels(), job);
        for (std::size_t lane = 0; lane < count; ++lane) {
            batch_.steps_done[first[lane]] = steps_done_[lane];
            batch_.reason[first[lane]] = reason_[lane];
        }
    }

private:
    const DescentBatch<R>& batch_;
    const Parameter<R>& p_of_;
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
    std::unique_ptr<LanesHook<R>> hook_;
};

} // namespace

template <class R> void descend_lanes(const DescentBatch<R>& batch, int threads, Monitor* monitor) {
    std::vector<std::int64_t> order[2]; // plain and wide instances
    for (std::int64_t b = 0; b < batch.problem.tokens.batch; ++b)
        order[is_wide(batch.problem.tokens, b) ? 1 : 0].push_back(b);
    const auto width = static_cast<std::int64_t>(KernelsOf<R>::width(kernels()));
    const auto blocks = [&](int wide) { return (static_cast<std::int64_t>(order[wide].size()) + width - 1) / width; };
    const std::int64_t count = blocks(0) + blocks(1);
    const double work = static_cast<double>(batch.problem.tokens.batch * batch.problem.tokens.n *
                                            batch.problem.tokens.T * batch.problem.tokens.d) *
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

template void descend_lanes<double>(const DescentBatch<double>&, int, Monitor*);
template void descend_lanes<float>(const DescentBatch<float>&, int, Monitor*);

} // namespace fastmm
