// Bindings of loss and gradients, and of gradients in matrices from those in queries.
#include "batch_arrays.hpp"
#include "monitor.hpp"

#include "fastmm/gradient.hpp"
#include "fastmm/query_gradient.hpp"

#include <pybind11/stl.h>

#include <vector>

namespace fastmm::python {
namespace {

template <class T> using Maybe = std::optional<Array<T>>;

// An array with its index, or no blocks without one.
template <class T> Blocks<T> maybe_blocks(const Maybe<T>& array, const Maybe<std::int64_t>& index, const char* name,
                                          std::int64_t batch, std::initializer_list<std::int64_t> shape) {
    if (!array) return {};
    if (!index) throw std::invalid_argument(std::string(name) + ": want its index too");
    return blocks_of(*array, *index, name, batch, shape);
}

template <class R> py::dict
gradient(const Array<R>& keys, const Index& key_index, const std::optional<Index>& lengths,
         const std::optional<Index>& length_index, const Maybe<R>& scores, const Maybe<std::int64_t>& score_index,
         const Maybe<R>& values, const Maybe<std::int64_t>& value_index, const Maybe<R>& labels,
         const Maybe<std::int64_t>& label_index, const Maybe<double>& p, const Maybe<std::int64_t>& p_index,
         const Maybe<double>& queries, const Maybe<std::int64_t>& query_index, const Maybe<double>& v,
         const Maybe<std::int64_t>& v_index, const Maybe<double>& along, const Maybe<std::int64_t>& along_index,
         int loss, bool with_p, bool with_v, bool extras, int threads) {
    need_threads(threads);
    GradientBatch<R> batch{};
    batch.tokens = tokens_of(keys, key_index, lengths, length_index);
    batch.loss = loss_of(loss);
    const std::int64_t count = batch.tokens.batch, n = batch.tokens.n, T = batch.tokens.T, d = batch.tokens.d;
    batch.tokens.scores = maybe_blocks(scores, score_index, "scores", count, {n, T});
    if (values) {
        if (values->ndim() != 4) throw std::invalid_argument("values: want (blocks, n, T, d_v)");
        batch.d_v = values->shape(3);
        batch.values = maybe_blocks(values, value_index, "values", count, {n, T, batch.d_v});
        batch.labels = maybe_blocks(labels, label_index, "labels", count, {n});
        if (batch.d_v < 1 || !batch.labels) throw std::invalid_argument("values: want labels too");
    }
    if ((v || with_v) && !values) throw std::invalid_argument("v: want values");
    GradientPoints points;
    points.p = maybe_blocks(p, p_index, "p", count, {d});
    points.queries = maybe_blocks(queries, query_index, "queries", count, {n, d});
    points.v = maybe_blocks(v, v_index, "v", count, {batch.d_v});
    points.along = maybe_blocks(along, along_index, "along", count, {d});
    if (!points.p == !points.queries) throw std::invalid_argument("p, queries: want one of them");
    if (points.along && (!points.p || !with_p)) throw std::invalid_argument("along: want p, and its gradient");
    if (!points.v && !batch.tokens.scores) throw std::invalid_argument("scores, v: want one of them");

    py::dict result;
    GradientOutputs out;
    const auto make = [&result](const char* name, std::initializer_list<py::ssize_t> shape) {
        Array<double> array{std::vector<py::ssize_t>(shape)};
        double* data = array.mutable_data();
        result[name] = std::move(array);
        return data;
    };
    out.loss = make("loss", {count});
    if (with_p && points.p) {
        out.unit_p = make("unit_p", {count, d});
        out.log_norm_p = make("log_norm_p", {count});
        out.natural_p = make("natural_p", {count, d});
    } else if (with_p) {
        out.pulls = make("pulls", {count, n, d});
        out.exponents = make("exponents", {count, n});
    }
    if (with_v) {
        out.unit_v = make("unit_v", {count, batch.d_v});
        out.log_norm_v = make("log_norm_v", {count});
        out.natural_v = make("natural_v", {count, batch.d_v});
    }
    if (extras) {
        out.saturation = make("saturation", {count});
        out.log_excess = make("log_excess", {count});
    }
    SignalMonitor monitor;
    bool stopped;
    {
        const py::gil_scoped_release release;
        stopped = gradient_batch(batch, points, out, threads, &monitor);
    }
    if (stopped) interrupted();
    return result;
}

// Means of outer products of the elements of a batch: left (batch, n, a), right (batch, n, b), exponents (batch, n).
py::dict outer_mean(const Array<double>& left, const Array<double>& right, const Array<double>& exponents,
                    int threads) {
    need_threads(threads);
    need_shape(exponents, "exponents", {-1, -1});
    const std::int64_t count = exponents.shape(0), n = exponents.shape(1);
    need_shape(left, "left", {count, n, -1});
    need_shape(right, "right", {count, n, -1});
    const std::int64_t a = left.shape(2), b = right.shape(2);
    if (n < 1) throw std::invalid_argument("exponents: want at least one input");
    Array<double> unit({count, a, b}), natural({count, a, b}), log_norm(count);
    double *units = unit.mutable_data(), *naturals = natural.mutable_data(), *log_norms = log_norm.mutable_data();
    {
        const py::gil_scoped_release release;
        OuterMean mean(n, a, b);
        for (std::int64_t k = 0; k < count; ++k) {
            Factored out{0.0, units + k * a * b, naturals + k * a * b};
            mean(left.data() + k * n * a, right.data() + k * n * b, exponents.data() + k * n, out, threads);
            log_norms[k] = out.log_norm;
        }
    }
    py::dict result;
    result["unit"] = unit;
    result["natural"] = natural;
    result["log_norm"] = log_norm;
    return result;
}

// A (batch, n, a) times B (batch, a, b), or times the transposed of B (batch, b, a).
Array<double> rows_times_matrix(const Array<double>& A, const Array<double>& B, bool transposed) {
    need_shape(A, "A", {-1, -1, -1});
    const std::int64_t count = A.shape(0), n = A.shape(1), a = A.shape(2);
    if (transposed)
        need_shape(B, "B", {count, -1, a});
    else
        need_shape(B, "B", {count, a, -1});
    const std::int64_t b = B.shape(transposed ? 1 : 2);
    Array<double> out({count, n, b});
    double* to = out.mutable_data();
    const py::gil_scoped_release release;
    for (std::int64_t k = 0; k < count; ++k)
        (transposed ? rows_times_transposed : rows_times)(A.data() + k * n * a, n, a, B.data() + k * a * b, b,
                                                          to + k * n * b);
    return out;
}

template <class R> void bind_gradient_of(py::module_& m) {
    const auto none = py::none();
    m.def("gradient", &gradient<R>, py::arg("keys").noconvert(), py::arg("key_index").noconvert(),
          py::arg("lengths").noconvert(), py::arg("length_index").noconvert(), py::kw_only(),
          py::arg("scores").noconvert() = none, py::arg("score_index").noconvert() = none,
          py::arg("values").noconvert() = none, py::arg("value_index").noconvert() = none,
          py::arg("labels").noconvert() = none, py::arg("label_index").noconvert() = none,
          py::arg("p").noconvert() = none, py::arg("p_index").noconvert() = none, py::arg("queries").noconvert() = none,
          py::arg("query_index").noconvert() = none, py::arg("v").noconvert() = none,
          py::arg("v_index").noconvert() = none, py::arg("along").noconvert() = none,
          py::arg("along_index").noconvert() = none, py::arg("loss"), py::arg("with_p") = false,
          py::arg("with_v") = false, py::arg("extras") = false, py::arg("threads"),
          "Risk and, as asked for, unit descent directions, log norms and natural gradients in p (with `along`, of the "
          "Hessian in p times it) and in v, pulls and exponents of each query, saturation and log excess.");
}

} // namespace

void bind_gradient(py::module_& m) {
    bind_gradient_of<double>(m);
    bind_gradient_of<float>(m);
    m.def("rows_times", &rows_times_matrix, py::arg("A").noconvert(), py::arg("B").noconvert(), py::arg("transposed"),
          "Products of matrices (batch, n, a) with (batch, a, b), summed in a fixed order.");
    m.def("outer_mean", &outer_mean, py::arg("left").noconvert(), py::arg("right").noconvert(),
          py::arg("exponents").noconvert(), py::arg("threads"),
          "Minus the mean of e^exponent left right': its direction, log norm and natural size.");
}

} // namespace fastmm::python
