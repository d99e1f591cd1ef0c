// Runs of small problems in any parameters: blocks of one vector of instances each for the joint kernel.
#include "fastmm/descent_run.hpp"
#include "fastmm/dispatch.hpp"
#include "fastmm/losses.hpp"

#include <algorithm>
#include <memory>

namespace fastmm {

namespace {

// One worker's lanes: their data in double precision, the parameters and gradients with the lane fastest, and the runs.
template <class R> class JointWorker {
public:
    explicit JointWorker(const DescentBatch<R>& batch)
        : batch_(batch), width_(static_cast<std::size_t>(kernels().width64)), sources_(width_), active_(width_) {
        for (std::size_t lane = 0; lane < width_; ++lane) runs_.push_back(std::make_unique<DescentRun<R>>(batch));
        const auto& tokens = batch.problem.tokens;
        auto& data = job_.data;
        data.n = tokens.n;
        data.T = tokens.T;
        data.d = tokens.d;
        data.loss = batch.problem.loss;
        job_.d_q = batch.d_q;
        for (const auto& parameter : batch.parameters) add(parameter);
        const auto n = static_cast<std::size_t>(data.n), T = static_cast<std::size_t>(data.T),
                   d = static_cast<std::size_t>(data.d);
        for (auto& source : sources_) {
            source.keys.resize(n * T * d);
            source.scores.resize(n * T);
            source.labels.resize(n);
            source.queries.resize(n * static_cast<std::size_t>(batch.d_q));
            source.start.resize(d);
        }
        for (auto& source : sources_) {
            pointers_.keys.push_back(source.keys.data());
            pointers_.scores.push_back(source.scores.data());
            pointers_.labels.push_back(source.labels.data());
            pointers_.queries.push_back(source.queries.data());
            pointers_.starts.push_back(source.start.data());
        }
        pointers_.lengths.resize(width_);
        data.keys = pointers_.keys.data();
        data.scores = pointers_.scores.data();
        data.p = pointers_.starts.data();
        job_.labels = pointers_.labels.data();
        job_.queries = pointers_.queries.data();
        scale_.resize(width_);
        scale_v_.resize(width_);
        saturation_.resize(width_);
        margins_.resize(n * width_);
        job_.scale = scale_.data();
        job_.scale_v = scale_v_.data();
        job_.saturation = saturation_.data();
        job_.margins = margins_.data();
        job_.pulls = runs_[0]->attention_trained();
        workspace_.resize(static_cast<std::size_t>(kernels().joint_workspace(job_)));
        data.workspace = workspace_.data();
    }

    // Runs the instances [first, last), at most one vector of them; lanes to spare repeat the first.
    void run(std::int64_t first, std::int64_t last, Pulse& pulse) {
        count_ = static_cast<std::size_t>(last - first);
        for (std::size_t lane = 0; lane < width_; ++lane) {
            load(lane, first + static_cast<std::int64_t>(lane < count_ ? lane : 0));
            active_[lane] = lane < count_;
        }
        kernels().joint_load(job_);
        std::int64_t row = 0, step = 0;
        bool stopped = false;
        for (; step < batch_.steps && !stopped; ++step) {
            if (row < batch_.records && batch_.record[row] == step) record(row++);
            if (pulse.beat(step == 0 ? 0 : static_cast<std::int64_t>(count_))) {
                for (std::size_t lane = 0; lane < count_; ++lane)
                    if (active_[lane]) runs_[lane]->end(step, StopReason::interrupted);
                return;
            }
            stopped = !take_step(step);
        }
        for (; row < batch_.records; ++row) record(row);
        for (std::size_t lane = 0; lane < count_; ++lane)
            if (active_[lane]) runs_[lane]->end(batch_.steps, StopReason::steps);
    }

private:
    struct Source {
        AlignedVector<double> keys, scores, labels, queries, start;
    };
    struct Pointers {
        std::vector<const double*> keys, scores, labels, queries;
        std::vector<double*> starts;
        std::vector<const std::int64_t*> lengths;
    };
    struct Lanes {
        Role role;
        bool trained;
        AlignedVector<double> x, g; // (size, lanes)
    };

    void add(const Parameter<R>& parameter) {
        const auto size = static_cast<std::size_t>(parameter.size()) * width_;
        lanes_.push_back(std::make_unique<Lanes>(Lanes{parameter.role, parameter.trained, {}, {}}));
        Lanes& own = *lanes_.back();
        own.x.resize(size);
        own.g.resize(size);
        const double** x[] = {&job_.p, &job_.v, &job_.W, &job_.Q, &job_.K};
        double** g[] = {&job_.of_p, &job_.of_v, &job_.of_W, &job_.of_Q, &job_.of_K};
        *x[static_cast<int>(parameter.role)] = own.x.data();
        *g[static_cast<int>(parameter.role)] = own.g.data();
        if (parameter.role == Role::Q) job_.m = parameter.columns;
    }

    void load(std::size_t lane, std::int64_t b) {
        const auto& problem = batch_.problem;
        auto& source = sources_[lane];
        const auto copy = [b](const Blocks<R>& from, AlignedVector<double>& to) {
            if (from) std::copy(from[b], from[b] + to.size(), to.begin());
        };
        copy(problem.tokens.keys, source.keys);
        copy(problem.tokens.scores, source.scores);
        copy(problem.labels, source.labels);
        copy(batch_.queries, source.queries);
        if (problem.tokens.lengths) pointers_.lengths[lane] = problem.tokens.lengths[b];
        job_.data.lengths = problem.tokens.lengths ? pointers_.lengths.data() : nullptr;
        runs_[lane]->load(b);
    }

    // False when no lane goes on.
    bool take_step(std::int64_t step) {
        for (const auto& own : lanes_)
            for (std::size_t lane = 0; lane < width_; ++lane) {
                const auto& x = runs_[lane]->of(own->role)->x;
                for (std::size_t j = 0; j < x.size(); ++j) own->x[j * width_ + lane] = x[j];
            }
        kernels().joint_gradient(job_);
        bool some = false;
        for (std::size_t lane = 0; lane < count_; ++lane) {
            if (!active_[lane]) continue;
            read_gradients(lane);
            const StopReason reason = runs_[lane]->take_step(step, facts(lane));
            active_[lane] = reason == StopReason::steps;
            if (!active_[lane]) runs_[lane]->end(step, reason);
            some = some || active_[lane];
        }
        return some;
    }

    void read_gradients(std::size_t lane) {
        for (const auto& own : lanes_) {
            if (!own->trained) continue;
            Group<R>& group = *runs_[lane]->of(own->role);
            const auto size = static_cast<std::int64_t>(group.x.size());
            for (std::size_t j = 0; j < group.x.size(); ++j) group.step[j] = own->g[j * width_ + lane];
            Factored out = group.gradient();
            const double& scale = own->role == Role::v ? scale_v_[lane] : scale_[lane];
            combine(group.step.data(), size, &scale, 1, size, batch_.problem.tokens.n, out);
            group.log_norm = out.log_norm;
        }
    }

    IterateFacts facts(std::size_t lane) const {
        IterateFacts out;
        out.saturation = saturation_[lane];
        if (!batch_.stop.needs(StopKind::loss)) return out;
        const std::int64_t n = batch_.problem.tokens.n;
        for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i)
            out.risk += loss_value(batch_.problem.loss, margins_[i * width_ + lane]);
        out.risk /= static_cast<double>(n);
        return out;
    }

    void record(std::int64_t row) const {
        for (std::size_t lane = 0; lane < count_; ++lane) runs_[lane]->record(row);
    }

    const DescentBatch<R>& batch_;
    std::size_t width_, count_ = 0;
    JointLanes job_{};
    std::vector<Source> sources_;
    Pointers pointers_;
    std::vector<std::unique_ptr<Lanes>> lanes_;
    std::vector<std::unique_ptr<DescentRun<R>>> runs_;
    std::vector<char> active_;
    AlignedVector<double> workspace_, scale_, scale_v_, margins_, saturation_;
};

} // namespace

template <class R> void descend_joint(const DescentBatch<R>& batch, int threads, Monitor* monitor) {
    const std::int64_t count = batch.problem.tokens.batch, width = kernels().width64;
    const std::int64_t blocks = (count + width - 1) / width;
    const int useful = static_cast<int>(std::min<std::int64_t>(threads, std::max<std::int64_t>(blocks, 1)));
    std::vector<std::unique_ptr<JointWorker<R>>> workers(static_cast<std::size_t>(useful));
    parallel_for(blocks, useful, monitor, [&](std::int64_t block, int worker, Pulse& pulse) {
        auto& own = workers[static_cast<std::size_t>(worker)];
        if (!own) own = std::make_unique<JointWorker<R>>(batch);
        own->run(block * width, std::min(count, (block + 1) * width), pulse);
    });
}

template void descend_joint<double>(const DescentBatch<double>&, int, Monitor*);
template void descend_joint<float>(const DescentBatch<float>&, int, Monitor*);

} // namespace fastmm
