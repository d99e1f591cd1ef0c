// Runs of every kind, step by step with the gradient kernel for rows; see descent.hpp.
#include "fastmm/descent_run.hpp"
#include "fastmm/query_gradient.hpp"

#include <algorithm>
#include <memory>

namespace fastmm {

namespace {

// What runs in W, or in its factors, need beside the gradient kernel: queries q_i, and sums over pulls.
template <class R> class Matrix {
public:
    Matrix(const DescentBatch<R>& batch, Group<R>* w, Group<R>* q, Group<R>* k)
        : batch_(batch), n_(batch.problem.tokens.n), d_(batch.problem.tokens.d), d_q_(batch.d_q),
          m_(q != nullptr ? q->parameter.columns : 0), w_(w), q_(q), k_(k), z_(size(n_, d_q_)), queries_(size(n_, d_)),
          pulls_(size(n_, d_)), exponents_(size(n_, 1)), inner_(size(n_, m_)), pulled_(size(n_, m_)) {
        if (w_ != nullptr) sum_w_ = std::make_unique<OuterMean>(n_, d_q_, d_);
        if (q_ == nullptr) return;
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
    std::vector<double> z_, queries_, pulls_, exponents_, inner_, pulled_;
    std::unique_ptr<OuterMean> sum_w_, sum_q_, sum_k_;
};

template <class R> class RowsRun {
public:
    explicit RowsRun(const DescentBatch<R>& batch) : batch_(batch), gradient_(batch.problem), run_(batch) {
        if (run_.of(Role::p) == nullptr)
            matrix_ = std::make_unique<Matrix<R>>(batch, run_.of(Role::W), run_.of(Role::Q), run_.of(Role::K));
    }

    void run(std::int64_t b, int threads, Pulse* pulse) {
        run_.load(b);
        if (matrix_) matrix_->load(b);
        std::int64_t row = 0, step = 0;
        StopReason reason = StopReason::steps;
        for (; step < batch_.steps; ++step) {
            if (row < batch_.records && batch_.record[row] == step) run_.record(row++);
            if (pulse->beat(step == 0 ? 0 : 1))
                reason = StopReason::interrupted;
            else
                reason = run_.take_step(step, evaluate(b, threads));
            if (reason != StopReason::steps) break;
        }
        if (reason != StopReason::interrupted)
            for (; row < batch_.records; ++row) run_.record(row);
        run_.end(step, reason);
    }

private:
    // Gradients of all trained parameters at the present iterate, and what the rules and conditions look at.
    IterateFacts evaluate(std::int64_t b, int threads) {
        Group<R>*p = run_.of(Role::p), *v = run_.of(Role::v);
        Factored of_p{}, of_v{};
        IterateFacts facts;
        Point point{};
        Wanted wanted{};
        if (p != nullptr) {
            point.p = p->x.data();
            of_p = p->gradient();
            if (p->parameter.trained) wanted.p = &of_p;
        } else {
            point.queries = matrix_->queries();
            if (run_.attention_trained()) {
                wanted.pulls = matrix_->pulls();
                wanted.exponents = matrix_->exponents();
            }
        }
        if (v != nullptr) {
            point.v = v->x.data();
            of_v = v->gradient();
            if (v->parameter.trained) wanted.v = &of_v;
        }
        wanted.saturation = &facts.saturation;
        if (batch_.rule.kind == RuleKind::polyak) wanted.log_excess = &facts.log_excess;
        wanted.above_zero = wanted.v != nullptr; // a trained head brings the risk down to 0
        facts.risk = gradient_(b, point, wanted, threads, nullptr);
        if (wanted.p != nullptr) p->log_norm = of_p.log_norm;
        if (wanted.v != nullptr) v->log_norm = of_v.log_norm;
        if (wanted.pulls != nullptr) matrix_->gradients(threads);
        return facts;
    }

    const DescentBatch<R>& batch_;
    GradientOfOne<R> gradient_;
    DescentRun<R> run_;
    std::unique_ptr<Matrix<R>> matrix_; // of runs that are not in p
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
