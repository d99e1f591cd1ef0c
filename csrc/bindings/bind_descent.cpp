// Bindings of gradient-descent runs.
#include "batch_arrays.hpp"
#include "monitor.hpp"

#include "fastmm/descent.hpp"

#include <pybind11/stl.h>

#include <cmath>
#include <limits>
#include <memory>
#include <tuple>

namespace fastmm::python {
namespace {

template <class R> using MaybeArray = std::optional<Array<R>>;
using MaybeIndex = std::optional<Index>;

// (role, trained, start (batch, rows, columns), radius)
template <class R> using ParameterArgument = std::tuple<int, bool, Array<R>, double>;
// (kind, bound, every, target (blocks, size) and its index (batch))
using ConditionArgument = std::tuple<int, double, std::int64_t, MaybeArray<double>, MaybeIndex>;

RuleSettings rule_of(const std::tuple<int, double, double, double, double>& rule) {
    const auto& [kind, momentum, beta1, beta2, epsilon] = rule;
    if (kind < 0 || kind > static_cast<int>(RuleKind::adam)) throw std::invalid_argument("rule: unknown code");
    return {static_cast<RuleKind>(kind), momentum, beta1, beta2, epsilon};
}

StoppingRule stop_of(const std::vector<ConditionArgument>& conditions, const std::vector<std::vector<int>>& clauses,
                     std::int64_t batch, std::int64_t size) {
    StoppingRule out;
    for (const auto& [kind, bound, every, target, index] : conditions) {
        if (kind < 0 || kind > static_cast<int>(StopKind::time)) throw std::invalid_argument("stop: unknown condition");
        if (every < 1) throw std::invalid_argument("stop: want every at least 1");
        StopCondition own{static_cast<StopKind>(kind), bound, every, {}};
        if (own.kind == StopKind::angle) {
            if (!target || !index) throw std::invalid_argument("stop: an angle wants a target");
            own.target = blocks_of(*target, *index, "target", batch, {size});
        }
        out.conditions.push_back(own);
    }
    if (clauses.size() > static_cast<std::size_t>(most_clauses)) throw std::invalid_argument("stop: too many clauses");
    for (const auto& clause : clauses)
        for (const int k : clause)
            if (k < 0 || static_cast<std::size_t>(k) >= conditions.size())
                throw std::invalid_argument("stop: clause names a condition that is not there");
    out.clauses = clauses;
    return out;
}

void need_record(const Index& record, std::int64_t steps) {
    need_shape(record, "record", {-1});
    need_indices(record, "record", steps + 1);
    for (py::ssize_t k = 1; k < record.size(); ++k)
        if (record.data()[k] <= record.data()[k - 1]) throw std::invalid_argument("record: want increasing steps");
}

// Arrays that a run writes: end points and records of each trained parameter, by role.
template <class R> struct Outputs {
    std::vector<std::unique_ptr<Array<R>>> kept;
    py::dict ends, records;

    R* make(py::dict& into, int role, const std::vector<py::ssize_t>& shape) {
        kept.push_back(std::make_unique<Array<R>>(shape));
        into[py::int_(role)] = *kept.back();
        return kept.back()->mutable_data();
    }
};

// Checks that the parameters fit each other and the problem, and gives each its memory.
template <class R>
void add_parameters(DescentBatch<R>& batch, const std::vector<ParameterArgument<R>>& arguments, Outputs<R>& outputs) {
    const auto& tokens = batch.problem.tokens;
    bool present[5] = {};
    std::int64_t inner = -1;
    for (const auto& [role, trained, start, radius] : arguments) {
        if (role < 0 || role > 4 || present[role]) throw std::invalid_argument("parameters: unknown or repeated role");
        present[role] = true;
        if (start.ndim() != 3) throw std::invalid_argument("parameters: want (batch, rows, columns)");
        const std::int64_t rows[] = {tokens.d, batch.problem.d_v, batch.d_q, batch.d_q, tokens.d};
        const auto kind = static_cast<Role>(role);
        if (kind == Role::Q || kind == Role::K) {
            if (inner >= 0 && inner != start.shape(2)) throw std::invalid_argument("Q and K: want as many columns");
            inner = start.shape(2);
            if (inner < 1) throw std::invalid_argument("Q and K: want a column at least");
        }
        const std::int64_t columns = kind == Role::W ? tokens.d : inner >= 0 && role >= 3 ? inner : 1;
        need_shape(start, "start", {tokens.batch, rows[role], columns});
        if (!(radius > 0)) throw std::invalid_argument("radius: want a positive number");
        Parameter<R> own{kind, trained, rows[role], columns, nullptr, nullptr, radius};
        own.x = outputs.make(outputs.ends, role, {tokens.batch, rows[role], columns});
        std::copy(start.data(), start.data() + start.size(), own.x);
        if (trained) {
            own.recorded = outputs.make(outputs.records, role, {batch.records, tokens.batch, rows[role], columns});
            std::fill_n(own.recorded, outputs.kept.back()->size(), std::numeric_limits<R>::quiet_NaN());
        }
        batch.parameters.push_back(own);
    }
    const bool factors = present[3] && present[4];
    if (present[0] + present[2] + factors != 1 || present[3] != present[4])
        throw std::invalid_argument("parameters: want one of p, W, or Q and K");
    if (!present[0] && !batch.queries) throw std::invalid_argument("parameters: W, Q and K want queries");
    if (present[1] ? !batch.problem.values : !batch.problem.tokens.scores)
        throw std::invalid_argument("parameters: want values when v is given, else scores");
}

template <class R> py::dict
descend(const Array<R>& keys, const Index& key_index, const MaybeArray<R>& scores, const MaybeIndex& score_index,
        const MaybeArray<R>& values, const MaybeIndex& value_index, const MaybeArray<R>& labels,
        const MaybeIndex& label_index, const MaybeArray<R>& queries, const MaybeIndex& query_index, int loss,
        const std::vector<ParameterArgument<R>>& parameters, const Array<R>& lr, const MaybeArray<double>& schedule,
        const std::tuple<int, double, double, double, double>& rule, const std::vector<ConditionArgument>& conditions,
        const std::vector<std::vector<int>>& clauses, std::int64_t steps, const Index& record,
        const MaybeIndex& lengths, const MaybeIndex& length_index, int threads, py::object progress) {
    need_threads(threads);
    DescentBatch<R> batch{};
    auto& problem = batch.problem;
    problem.tokens = tokens_of(keys, key_index, lengths, length_index);
    const std::int64_t count = problem.tokens.batch, n = problem.tokens.n, T = problem.tokens.T;
    const auto blocks = [&](const MaybeArray<R>& array, const MaybeIndex& index, const char* name,
                            std::initializer_list<std::int64_t> shape) {
        if (!index) throw std::invalid_argument(std::string(name) + ": want an index too");
        return blocks_of(*array, *index, name, count, shape);
    };
    if (scores) problem.tokens.scores = blocks(scores, score_index, "scores", {n, T});
    if (values) {
        if (values->ndim() != 4 || !labels) throw std::invalid_argument("values: want (blocks, n, T, d_v), and labels");
        problem.d_v = values->shape(3);
        problem.values = blocks(values, value_index, "values", {n, T, problem.d_v});
        problem.labels = blocks(labels, label_index, "labels", {n});
    }
    if (queries) {
        if (queries->ndim() != 3) throw std::invalid_argument("queries: want (blocks, n, d_q)");
        batch.d_q = queries->shape(2);
        batch.queries = blocks(queries, query_index, "queries", {n, batch.d_q});
    }
    problem.loss = loss_of(loss);
    need_shape(lr, "lr", {count});
    batch.lr = lr.data();
    if (steps < 0 || steps >= std::int64_t(1) << 62) throw std::invalid_argument("steps: want 0 to 2**62 - 1");
    batch.steps = steps;
    if (schedule) {
        need_shape(*schedule, "schedule", {steps});
        batch.schedule = schedule->data();
    }
    need_record(record, steps);
    batch.record = record.data();
    batch.records = record.size();
    batch.rule = rule_of(rule);
    Outputs<R> outputs;
    add_parameters(batch, parameters, outputs);
    const auto trained = [&](Role role) {
        for (const auto& own : batch.parameters)
            if (own.role == role) return own.trained;
        return false;
    };
    const bool matrix = trained(Role::W) || trained(Role::Q) || trained(Role::K);
    // the parameter whose direction the conditions look at: attention's, or else the head
    const std::int64_t direction = trained(Role::p) ? problem.tokens.d
                                   : matrix         ? batch.d_q * problem.tokens.d
                                                    : problem.d_v;
    batch.stop = stop_of(conditions, clauses, count, direction);

    Array<std::int64_t> steps_done(count);
    Array<std::int8_t> reason(count);
    batch.steps_done = steps_done.mutable_data();
    batch.reason = reinterpret_cast<StopReason*>(reason.mutable_data());
    SignalMonitor monitor(std::move(progress));
    {
        const py::gil_scoped_release release;
        descend_batch(batch, threads, &monitor);
    }
    py::dict out;
    out["end"] = outputs.ends;
    out["recorded"] = outputs.records;
    out["steps_done"] = steps_done;
    out["reason"] = reason;
    return out;
}

template <class R> void bind_descent_of(py::module_& m) {
    const auto array = [](const char* name) { return py::arg(name).noconvert(); };
    const auto optional = [](const char* name) { return py::arg(name).noconvert() = py::none(); };
    m.def("descend", &descend<R>, py::kw_only(), array("keys"), array("key_index"), optional("scores"),
          optional("score_index"), optional("values"), optional("value_index"), optional("labels"),
          optional("label_index"), optional("queries"), optional("query_index"), py::arg("loss"),
          py::arg("parameters").noconvert(), array("lr"), optional("schedule"), py::arg("rule"), py::arg("conditions"),
          py::arg("clauses"), py::arg("steps"), array("record"), optional("lengths"), optional("length_index"),
          py::arg("threads"), py::arg("progress"),
          "Runs from starts (batch, rows, columns): end points and records by role, steps done, reasons.");
}

} // namespace

void bind_descent(py::module_& m) {
    bind_descent_of<double>(m);
    bind_descent_of<float>(m);
}

} // namespace fastmm::python
