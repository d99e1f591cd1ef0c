// Runs of every kind, step by step with the gradient kernel for rows; see descent.hpp.
#include "fastmm/descent.hpp"

#include "fastmm/query_gradient.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

namespace fastmm {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// One parameter of one run: its numbers in double precision, its gradient, and its step rule.
template <class R> struct Group {
    const Parameter<R>& parameter;
    std::vector<double> x, unit, step;
    double log_norm = -infinity;
    StepRule rule;

    Group(const Parameter<R>& own, const RuleSettings& settings)
        : parameter(own), x(static_cast<std::size_t>(own.size())), unit(x), step(x), rule(settings, own.size()) {}

    Factored gradient() { return {-infinity, unit.data(), nullptr}; }

    void load(std::int64_t b) {
        const R* from = parameter.x + b * parameter.size();
        std::copy(from, from + parameter.size(), x.begin());
        rule.restart();
    }

    void store(R* to) const {
        std::transform(x.begin(), x.end(), to, [](double entry) { return static_cast<R>(entry); });
    }

    bool fits() const { // false when the step leaves the numbers of R
        for (std::size_t j = 0; j < x.size(); ++j)
            if (!(std::fabs(x[j] + step[j]) <= most)) return false;
        return true;
    }

    void advance() { fastmm::advance(x, step, parameter.radius, most); }

    static constexpr double most = static_cast<double>(std::numeric_limits<R>::max());
};

// What runs in W, or in its factors, need beside the gradient kernel: queries q_i, and sums over pulls.
template <class R> class Matrix {
public:
    Matrix(const DescentBatch<R>& batch, Group<R>* w, Group<R>* q, Group<R>* k)
        : batch_(batch), n_(batch.problem.tokens.n), d_(batch.problem.tokens.d), d_q_(batch.d_q),
          m_(q != nullptr ? q->parameter.columns : 0), w_(w), q_(q), k_(k), z_(size(n_, d_q_)), queries_(size(n_, d_)),
          pulls_(size(n_, d_)), exponents_(size(n_, 1)), inner_(size(n_, m_)), pulled_(size(n_, m_)) {
        if (w_ != nullptr) sum_w_ = std::make_unique<OuterMean>(n_, d_q_, d_);
        if (q_ == nullptr) return;
        product_.resize(size(d_q_, d_));
        sum_q_ = std::make_unique<OuterMean>(n_, d_q_, m_);
        sum_k_ = std::make_unique<OuterMean>(n_, d_, m_);
    }

    void load(std::int64_t b) {
        const R* from = batch_.queries[b];
        std::copy(from, from + z_.size(), z_.begin());
    }

    double* pulls() { return pulls_.data(); }
    double* exponents() { return exponents_.data(); }

    const double* queries() {
        if (w_ != nullptr) {
            rows_times(z_.data(), n_, d_q_, w_->x.data(), d_, queries_.data());
        } else {
            rows_times(z_.data(), n_, d_q_, q_->x.data(), m_, inner_.data());
            rows_times_transposed(inner_.data(), n_, m_, k_->x.data(), d_, queries_.data());
        }
        return queries_.data();
    }

    void gradients(int threads) {
        if (w_ != nullptr) return sum(*sum_w_, z_, pulls_, *w_, threads);
        rows_times(pulls_.data(), n_, d_, k_->x.data(), m_, pulled_.data());
        sum(*sum_q_, z_, pulled_, *q_, threads);
        sum(*sum_k_, pulls_, inner_, *k_, threads);
    }

    // W, or Q K'.
    const std::vector<double>& whole() {
        if (w_ != nullptr) return w_->x;
        rows_times_transposed(q_->x.data(), d_q_, m_, k_->x.data(), d_, product_.data());
        return product_;
    }

private:
    static std::size_t size(std::int64_t rows, std::int64_t columns) {
        return static_cast<std::size_t>(rows * columns);
    }

    void sum(OuterMean& mean, const std::vector<double>& left, const std::vector<double>& right, Group<R>& to,
             int threads) {
        Factored out = to.gradient();
        mean(left.data(), right.data(), exponents_.data(), out, threads);
        to.log_norm = out.log_norm;
    }

    const DescentBatch<R>& batch_;
    std::int64_t n_, d_, d_q_, m_;
    Group<R>*w_, *q_, *k_;
    std::vector<double> z_, queries_, pulls_, exponents_, inner_, pulled_, product_;
    std::unique_ptr<OuterMean> sum_w_, sum_q_, sum_k_;
};

template <class R> class RowsRun {
public:
    explicit RowsRun(const DescentBatch<R>& batch) : batch_(batch), gradient_(batch.problem), watch_(batch.stop) {
        groups_.reserve(batch.parameters.size());
        for (const auto& parameter : batch.parameters) {
            groups_.emplace_back(parameter, batch.rule);
            at_[static_cast<int>(parameter.role)] = &groups_.back();
            if (parameter.trained && parameter.role != Role::v) attention_trained_ = true;
        }
        if (of(Role::p) == nullptr) matrix_ = std::make_unique<Matrix<R>>(batch, of(Role::W), of(Role::Q), of(Role::K));
    }

    void run(std::int64_t b, int threads, Pulse* pulse) {
        for (auto& group : groups_) group.load(b);
        if (matrix_) matrix_->load(b);
        watch_.restart(b);
        std::int64_t row = 0, step = 0;
        StopReason reason = StopReason::steps;
        for (; step < batch_.steps; ++step) {
            if (row < batch_.records && batch_.record[row] == step) write(b, row++);
            if (pulse->beat(step == 0 ? 0 : 1)) {
                reason = StopReason::interrupted;
                break;
            }
            evaluate(b, threads);
            reason = gradient_reason();
            if (reason == StopReason::steps && !batch_.stop.empty()) reason = watch_.met(iterate(step));
            if (reason != StopReason::steps) break;
            if (!move(b, step)) {
                reason = StopReason::overflow;
                break;
            }
        }
        batch_.steps_done[b] = step;
        batch_.reason[b] = reason;
        if (reason != StopReason::interrupted)
            for (; row < batch_.records; ++row) write(b, row);
        for (const auto& group : groups_)
            if (group.parameter.trained) group.store(group.parameter.x + b * group.parameter.size());
    }

private:
    Group<R>* of(Role role) { return at_[static_cast<int>(role)]; }

    // Gradients of all trained parameters at the present iterate, and what the rules and conditions look at.
    void evaluate(std::int64_t b, int threads) {
        Group<R>*p = of(Role::p), *v = of(Role::v);
        Factored of_p{}, of_v{};
        Point point{};
        Wanted wanted{};
        if (p != nullptr) {
            point.p = p->x.data();
            of_p = p->gradient();
            if (p->parameter.trained) wanted.p = &of_p;
        } else {
            point.queries = matrix_->queries();
            if (attention_trained_) {
                wanted.pulls = matrix_->pulls();
                wanted.exponents = matrix_->exponents();
            }
        }
        if (v != nullptr) {
            point.v = v->x.data();
            of_v = v->gradient();
            if (v->parameter.trained) wanted.v = &of_v;
        }
        wanted.saturation = &saturation_;
        if (batch_.rule.kind == RuleKind::polyak) wanted.log_excess = &log_excess_;
        wanted.above_zero = v != nullptr && v->parameter.trained; // a trained head brings the risk down to 0
        risk_ = gradient_(b, point, wanted, threads, nullptr);
        if (wanted.p != nullptr) p->log_norm = of_p.log_norm;
        if (wanted.v != nullptr) v->log_norm = of_v.log_norm;
        if (wanted.pulls != nullptr) matrix_->gradients(threads);
    }

    // The reason to stop that the gradients give: all zero, or not numbers; else StopReason::steps.
    StopReason gradient_reason() const {
        bool zero = true;
        for (const auto& group : groups_) {
            if (!group.parameter.trained) continue;
            if (std::isnan(group.log_norm) || group.log_norm == infinity) return StopReason::overflow;
            zero = zero && group.log_norm == -infinity;
        }
        return zero ? StopReason::zero_gradient : StopReason::steps;
    }

    // The parameter whose direction the conditions look at: attention's, and the head's when only that is trained.
    Iterate iterate(std::int64_t step) {
        Iterate out{step, risk_, saturation_, nullptr, 0};
        if (!batch_.stop.needs_direction()) return out;
        const Group<R>* group = attention_trained_ ? of(Role::p) : of(Role::v);
        const std::vector<double>& x = group != nullptr ? group->x : matrix_->whole();
        out.x = x.data();
        out.size = static_cast<std::int64_t>(x.size());
        return out;
    }

    // One step of every trained parameter, or of none when one of them would leave the numbers.
    bool move(std::int64_t b, std::int64_t step) {
        StepFacts facts{static_cast<double>(batch_.lr[b]), log_excess_, log_norm_of_all()};
        if (batch_.schedule != nullptr) facts.rate *= batch_.schedule[step];
        for (auto& group : groups_) {
            if (!group.parameter.trained) continue;
            group.rule.move(group.unit.data(), group.log_norm, facts, group.step.data());
            if (!group.fits()) return false;
        }
        for (auto& group : groups_)
            if (group.parameter.trained) group.advance();
        return true;
    }

    double log_norm_of_all() const {
        double largest = -infinity, square = 0.0;
        for (const auto& group : groups_)
            if (group.parameter.trained) largest = std::max(largest, group.log_norm);
        for (const auto& group : groups_)
            if (group.parameter.trained) square += std::exp(2 * (group.log_norm - largest));
        return largest + std::log(square) / 2;
    }

    void write(std::int64_t b, std::int64_t row) {
        for (const auto& group : groups_)
            if (group.parameter.trained)
                group.store(group.parameter.recorded +
                            (row * batch_.problem.tokens.batch + b) * group.parameter.size());
    }

    const DescentBatch<R>& batch_;
    GradientOfOne<R> gradient_;
    StopWatch watch_;
    std::vector<Group<R>> groups_;
    Group<R>* at_[5] = {};
    std::unique_ptr<Matrix<R>> matrix_; // of runs that are not in p
    bool attention_trained_ = false;
    double risk_ = 0.0, saturation_ = 0.0, log_excess_ = 0.0;
};

} // namespace

template <class R> void descend_rows(const DescentBatch<R>& batch, int threads, Monitor* monitor) {
    const auto& tokens = batch.problem.tokens;
    const bool inside = tokens.batch < threads && tokens.n * tokens.T * tokens.d >= (1 << 21);
    if (inside) { // few large problems: threads share the chunks of each step
        RowsRun<R> run(batch);
        parallel_for(tokens.batch, 1, monitor, [&](std::int64_t b, int, Pulse& pulse) { run.run(b, threads, &pulse); });
        return;
    }
    std::vector<std::unique_ptr<RowsRun<R>>> workers(static_cast<std::size_t>(threads));
    parallel_for(tokens.batch, threads, monitor, [&](std::int64_t b, int worker, Pulse& pulse) {
        auto& own = workers[static_cast<std::size_t>(worker)];
        if (!own) own = std::make_unique<RowsRun<R>>(batch);
        own->run(b, 1, &pulse);
    });
}

template void descend_rows<double>(const DescentBatch<double>&, int, Monitor*);
template void descend_rows<float>(const DescentBatch<float>&, int, Monitor*);

} // namespace fastmm
