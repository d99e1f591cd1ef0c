// Binding of plans: one gradient of a fixed problem, evaluated again and again without an allocation.
#include "batch_arrays.hpp"
#include "monitor.hpp"

#include "fastmm/gradient.hpp"
#include "fastmm/query_gradient.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <vector>

namespace fastmm::python {
namespace {

// Outputs of one parameter of `size` entries: in doubles as worked out, and in the problem's precision as shown.
template <class R> struct PlannedGradient {
    PlannedGradient(std::int64_t batch, std::vector<py::ssize_t> shape)
        : unit(std::size_t(count_of(batch, shape))), natural(unit.size()), log_norm(std::size_t(batch)),
          size(batch > 0 ? std::int64_t(unit.size()) / batch : 0), direction(with(batch, shape)),
          grad(with(batch, shape)), logs(batch), to_direction(direction.mutable_data()), to_grad(grad.mutable_data()),
          to_logs(logs.mutable_data()) {}

    Factored of(std::int64_t b) { return {0.0, unit.data() + b * size, natural.data() + b * size}; }

    // Returns false when a log norm is NaN.
    bool show() {
        bool fine = true;
        for (std::size_t k = 0; k < unit.size(); ++k) to_direction[k] = static_cast<R>(unit[k]);
        for (std::size_t k = 0; k < unit.size(); ++k) to_grad[k] = static_cast<R>(natural[k]);
        for (std::size_t b = 0; b < log_norm.size(); ++b) {
            to_logs[b] = static_cast<R>(log_norm[b]);
            fine = fine && !std::isnan(log_norm[b]);
        }
        return fine;
    }

    py::dict arrays() const {
        py::dict out;
        out["direction"] = direction;
        out["grad"] = grad;
        out["log_norm"] = logs;
        return out;
    }

    static std::int64_t count_of(std::int64_t batch, const std::vector<py::ssize_t>& shape) {
        for (const auto extent : shape) batch *= extent;
        return batch;
    }
    static std::vector<py::ssize_t> with(std::int64_t batch, std::vector<py::ssize_t> shape) {
        shape.insert(shape.begin(), batch);
        return shape;
    }

    std::vector<double> unit, natural, log_norm;
    std::int64_t size;
    Array<R> direction, grad, logs;
    R *to_direction, *to_grad, *to_logs;
};

template <class R> class Plan {
public:
    Plan(Array<R> keys, Index key_index, std::optional<Index> lengths, std::optional<Index> length_index,
         Array<R> scores, Index score_index, Array<R> values, Index value_index, Array<R> labels, Index label_index,
         std::optional<Array<double>> Z, bool with_p, bool with_v, bool with_W, int loss, int threads)
        : held_{keys, key_index, scores, score_index, values, value_index, labels, label_index}, threads_(threads) {
        if (lengths) held_.insert(held_.end(), {*lengths, *length_index});
        need_threads(threads);
        batch_.tokens = tokens_of(keys, key_index, lengths, length_index);
        auto& tokens = batch_.tokens;
        batch_.loss = loss_of(loss);
        tokens.scores = blocks_of(scores, score_index, "scores", tokens.batch, {tokens.n, tokens.T});
        if (values.ndim() != 4) throw std::invalid_argument("values: want (blocks, n, T, d_v)");
        batch_.d_v = values.shape(3);
        batch_.values = blocks_of(values, value_index, "values", tokens.batch, {tokens.n, tokens.T, batch_.d_v});
        batch_.labels = blocks_of(labels, label_index, "labels", tokens.batch, {tokens.n});
        one_ = std::make_unique<GradientOfOne<R>>(batch_);
        loss_ = Array<R>(tokens.batch);
        to_loss_ = loss_.mutable_data();
        p_.resize(std::size_t(tokens.batch * tokens.d));
        v_.resize(std::size_t(tokens.batch * batch_.d_v));
        if (with_p || with_W) of_p_ = std::make_unique<PlannedGradient<R>>(tokens.batch, shape_of({tokens.d}));
        if (with_v) of_v_ = std::make_unique<PlannedGradient<R>>(tokens.batch, shape_of({batch_.d_v}));
        if (with_W) plan_matrix(Z);
        shows_p_ = with_p;
        const std::int64_t work = one_->work();
        useful_ = static_cast<int>(std::min<std::int64_t>(threads, 1 + work / (1 << 20)));
        watched_ = work * tokens.batch > (1 << 22);
    }

    void run(const py::object& p, const py::object& v, const py::object& W) {
        const auto& tokens = batch_.tokens;
        // arrays stay referenced by the caller's objects while the GIL is away
        const R* from_p = matrix_ ? nullptr : point(p, "p", shape_of({tokens.batch, tokens.d}));
        const R* from_W = matrix_ ? point(W, "W", shape_of({tokens.batch, d_q_, tokens.d})) : nullptr;
        const R* from_v = v.is_none() ? nullptr : point(v, "v", shape_of({tokens.batch, batch_.d_v}));
        if (!(matrix_ ? p : W).is_none())
            throw py::value_error(matrix_ ? "p: the plan is one in W; allowed: W, and v"
                                          : "W: the plan is one in p; allowed: p, and v");
        bool fine, stopped = false;
        SignalMonitor monitor;
        {
            const py::gil_scoped_release release;
            const std::lock_guard<std::mutex> lock(mutex_);
            fine = evaluate(from_p, from_v, from_W, watched_ ? &monitor : nullptr, stopped);
        }
        if (stopped) interrupted();
        if (!fine)
            throw py::value_error(std::string(matrix_ ? "W: the logits X W' z" : "p: the logits K p") +
                                  ", or the scores, leave the range of double precision, or are not numbers; allowed: "
                                  "smaller points");
    }

    Array<R> loss() const { return loss_; }
    py::dict outputs() const {
        py::dict out;
        if (shows_p_) out["p"] = of_p_->arrays();
        if (of_v_) out["v"] = of_v_->arrays();
        if (of_W_) out["W"] = of_W_->arrays();
        return out;
    }

private:
    static std::vector<py::ssize_t> shape_of(std::initializer_list<std::int64_t> shape) {
        return {shape.begin(), shape.end()};
    }

    void plan_matrix(const std::optional<Array<double>>& Z) {
        const auto& tokens = batch_.tokens;
        if (!Z) throw std::invalid_argument("Z: want queries for a plan in W");
        need_shape(*Z, "Z", {tokens.batch, -1, -1});
        const std::int64_t queries = Z->shape(1);
        if (queries != 1 && queries != tokens.n) throw std::invalid_argument("Z: want a query, or one an input");
        matrix_ = true;
        shared_ = queries == 1;
        d_q_ = Z->shape(2);
        held_.push_back(*Z);
        Z_ = Z->data();
        W_.resize(std::size_t(d_q_ * tokens.d));
        queries_.resize(std::size_t(queries * tokens.d));
        pulls_.resize(shared_ ? 0 : queries_.size());
        exponents_.resize(std::size_t(queries));
        outer_ = std::make_unique<OuterMean>(queries, d_q_, tokens.d);
        of_W_ = std::make_unique<PlannedGradient<R>>(tokens.batch, shape_of({d_q_, tokens.d}));
    }

    // Refuses what is not an array of the plan's shape, with an axis of the batch or, for one problem, without.
    const R* point(const py::object& value, const char* name, const std::vector<py::ssize_t>& shape) const {
        const bool array = py::isinstance<Array<R>>(value);
        const auto fits = [&](std::size_t skipped) {
            const auto own = py::reinterpret_borrow<py::array>(value);
            if (own.ndim() != static_cast<py::ssize_t>(shape.size() - skipped)) return false;
            for (std::size_t axis = skipped; axis < shape.size(); ++axis)
                if (own.shape(static_cast<py::ssize_t>(axis - skipped)) != shape[axis]) return false;
            return true;
        };
        if (array && (fits(0) || (shape[0] == 1 && fits(1))))
            return static_cast<const R*>(py::reinterpret_borrow<py::array>(value).data());
        std::string wanted;
        for (std::size_t axis = shape[0] == 1 ? 1 : 0; axis < shape.size(); ++axis)
            wanted += (wanted.empty() ? "" : ", ") + std::to_string(shape[axis]);
        const std::string given = py::isinstance<py::array>(value)
                                      ? "dtype " + py::cast<std::string>(py::str(value.attr("dtype"))) + ", shape " +
                                            py::cast<std::string>(py::str(value.attr("shape")))
                                      : py::cast<std::string>(py::str(py::type::of(value).attr("__name__")));
        throw py::value_error(std::string(name) + ": got " + given + "; allowed: a C-contiguous " +
                              (sizeof(R) == 8 ? "float64" : "float32") + " array of shape (" + wanted +
                              (shape.size() - (shape[0] == 1 ? 1 : 0) == 1 ? ",)" : ")"));
    }

    // A copy in double; returns whether all are finite.
    static bool widen(const R* from, std::vector<double>& to, std::int64_t count) {
        double nothing = 0.0;
        for (std::int64_t k = 0; k < count; ++k) {
            to[std::size_t(k)] = static_cast<double>(from[k]);
            nothing += to[std::size_t(k)] - to[std::size_t(k)]; // NaN for what is not finite
        }
        return nothing == 0.0;
    }

    bool evaluate(const R* from_p, const R* from_v, const R* from_W, Monitor* monitor, bool& stopped) {
        const auto& tokens = batch_.tokens;
        const std::int64_t d = tokens.d, d_v = batch_.d_v;
        bool fine = true;
        struct Watch final : Monitor {
            Monitor* monitor;
            bool& stopped;
            Watch(Monitor* m, bool& s) : monitor(m), stopped(s) {}
            bool poll(std::int64_t done) override { return stopped = monitor->poll(done); }
        } watch(monitor, stopped);
        for (std::int64_t b = 0; b < tokens.batch && !stopped; ++b) {
            Point at;
            Wanted wanted;
            if (from_v != nullptr) {
                fine = widen(from_v + b * d_v, v_, d_v) && fine;
                at.v = v_.data();
            }
            if (matrix_) {
                const std::int64_t count = d_q_ * d, rows = shared_ ? 1 : tokens.n;
                fine = widen(from_W + b * count, W_, count) && fine;
                rows_times(Z_ + b * rows * d_q_, rows, d_q_, W_.data(), d, queries_.data());
                (shared_ ? at.p : at.queries) = queries_.data();
                if (!shared_) {
                    wanted.pulls = pulls_.data();
                    wanted.exponents = exponents_.data();
                }
            } else {
                fine = widen(from_p + b * d, p_, d) && fine;
                at.p = p_.data();
            }
            Factored of_p{}, of_v{};
            if (of_p_ && !wanted.pulls) wanted.p = &(of_p = of_p_->of(b));
            if (of_v_) wanted.v = &(of_v = of_v_->of(b));
            const double risk = (*one_)(b, at, wanted, useful_, monitor != nullptr ? &watch : nullptr);
            to_loss_[b] = static_cast<R>(risk);
            fine = fine && !std::isnan(risk);
            if (wanted.p != nullptr) of_p_->log_norm[std::size_t(b)] = of_p.log_norm;
            if (of_v_) of_v_->log_norm[std::size_t(b)] = of_v.log_norm;
            if (matrix_ && !stopped) {
                if (shared_) exponents_[0] = of_p.log_norm;
                Factored of_W = of_W_->of(b);
                (*outer_)(Z_ + b * (shared_ ? 1 : tokens.n) * d_q_, shared_ ? of_p.unit : pulls_.data(),
                          exponents_.data(), of_W, threads_);
                of_W_->log_norm[std::size_t(b)] = of_W.log_norm;
            }
        }
        if (shows_p_) fine = of_p_->show() && fine;
        if (of_v_) fine = of_v_->show() && fine;
        if (of_W_) fine = of_W_->show() && fine;
        return fine;
    }

    std::vector<py::object> held_; // the arrays that the pointers below point into
    GradientBatch<R> batch_{};
    std::unique_ptr<GradientOfOne<R>> one_;
    std::unique_ptr<PlannedGradient<R>> of_p_, of_v_, of_W_;
    std::unique_ptr<OuterMean> outer_;
    bool matrix_ = false, shared_ = false, shows_p_ = false, watched_ = false;
    std::int64_t d_q_ = 0;
    const double* Z_ = nullptr;
    std::vector<double> p_, v_, W_, queries_, pulls_, exponents_;
    Array<R> loss_;
    R* to_loss_ = nullptr;
    int threads_, useful_ = 1;
    std::mutex mutex_; // two threads may call one plan: they take turns
};

template <class R> void bind_plan_of(py::module_& m, const char* name) {
    py::class_<Plan<R>>(m, name)
        .def(py::init<Array<R>, Index, std::optional<Index>, std::optional<Index>, Array<R>, Index, Array<R>, Index,
                      Array<R>, Index, std::optional<Array<double>>, bool, bool, bool, int, int>(),
             py::arg("keys").noconvert(), py::arg("key_index").noconvert(), py::arg("lengths").noconvert(),
             py::arg("length_index").noconvert(), py::arg("scores").noconvert(), py::arg("score_index").noconvert(),
             py::arg("values").noconvert(), py::arg("value_index").noconvert(), py::arg("labels").noconvert(),
             py::arg("label_index").noconvert(), py::arg("Z").noconvert(), py::arg("with_p"), py::arg("with_v"),
             py::arg("with_W"), py::arg("loss"), py::arg("threads"))
        .def("run", &Plan<R>::run, py::arg("p"), py::arg("v"), py::arg("W"), "Evaluates; the outputs are filled.")
        .def("loss", &Plan<R>::loss)
        .def("outputs", &Plan<R>::outputs, "For each parameter its direction, log norm and gradient.");
}

} // namespace

void bind_plan(py::module_& m) {
    bind_plan_of<double>(m, "Plan64");
    bind_plan_of<float>(m, "Plan32");
    // what a call of the module costs by itself, for the benchmark of plans
    m.def("nothing", [](const py::object&, const py::object&, const py::object&) {}, "Does nothing.");
}

} // namespace fastmm::python
