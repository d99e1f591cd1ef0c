// Bindings of the max-margin programs: shapes and indices are checked, the GIL is free while they are solved.
#include "arrays.hpp"
#include "monitor.hpp"

#include "fastmm/margin_batch.hpp"
#include "fastmm/weight_batch.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace fastmm::python {
namespace {

using Indices = Array<std::int64_t>;
using Doubles = Array<double>;
template <class T> using Optional = std::optional<T>;

struct Settings {
    Optional<Doubles> start_dual, start_point;
    std::int64_t max_iter;
    double seconds; // left until the deadline; infinity for none
    int threads;
};

template <class T> Array<T> filled(std::initializer_list<std::int64_t> shape, T value) {
    Array<T> out(std::vector<py::ssize_t>(shape.begin(), shape.end()));
    std::fill_n(out.mutable_data(), out.size(), value);
    return out;
}

// Zeros that the system hands out page by page when they are first written to: most answers leave most of them alone.
template <class T> Array<T> zeros(std::int64_t count, std::int64_t width) {
    const auto numpy = py::module_::import("numpy");
    return numpy.attr("zeros")(py::make_tuple(count, width), py::dtype::of<T>()).template cast<Array<T>>();
}

Limits limits_of(const Settings& settings) {
    Limits limits;
    limits.steps = settings.max_iter;
    if (settings.seconds < 1e9) {
        using namespace std::chrono;
        limits.timed = true;
        limits.deadline =
            steady_clock::now() + duration_cast<steady_clock::duration>(duration<double>(settings.seconds));
    }
    return limits;
}

struct Extents {
    std::int64_t count, d, width, equalities; // as in Programs
};

// Answers filled in by run(start, limits, monitor, answers) while the GIL is free.
template <class Run> py::dict answer(const Extents& extents, const Settings& settings, const Run& run) {
    const auto [count, d, width, equalities] = extents;
    if (d < 1) throw std::invalid_argument("d is " + std::to_string(d) + ", want at least 1");
    if (settings.threads < 1) throw std::invalid_argument("threads is " + std::to_string(settings.threads));
    Start start;
    if (settings.start_dual) {
        need_shape(*settings.start_dual, "start_dual", {count, width});
        start.dual = settings.start_dual->data();
    }
    if (settings.start_point) {
        need_shape(*settings.start_point, "start_point", {count, d});
        start.point = settings.start_point->data();
    }
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    auto point = filled<double>({count, d}, nan);
    auto dual = zeros<double>(count, width);
    auto farkas = zeros<double>(count, width);
    auto equality_dual = zeros<double>(count, equalities);
    auto equality_farkas = zeros<double>(count, equalities);
    auto neighbors = zeros<bool>(count, width);
    auto status = filled<std::int8_t>({count}, static_cast<std::int8_t>(Status::max_iter));
    auto steps = filled<std::int64_t>({count}, 0);
    auto residuals = filled<double>({count, 3}, nan);
    const Answers answers{
        point.mutable_data(),           dual.mutable_data(),      equality_dual.mutable_data(), farkas.mutable_data(),
        equality_farkas.mutable_data(), neighbors.mutable_data(), status.mutable_data(),        steps.mutable_data(),
        residuals.mutable_data()};
    const Limits limits = limits_of(settings);
    SignalMonitor monitor;
    {
        const py::gil_scoped_release release;
        run(start, limits, &monitor, answers);
    }
    py::dict out;
    out["point"] = point;
    out["dual"] = dual;
    out["farkas"] = farkas;
    out["equality_dual"] = equality_dual;
    out["equality_farkas"] = equality_farkas;
    out["neighbors"] = neighbors;
    out["status"] = status;
    out["steps"] = steps;
    out["residuals"] = residuals;
    out["interrupted"] = monitor.interrupted();
    return out;
}

py::dict solve(const Programs& programs, const Settings& settings) {
    const Extents extents{programs.count, programs.d, programs.width, programs.equalities};
    return answer(extents, settings,
                  [&](const Start& start, const Limits& limits, Monitor* monitor, const Answers& out) {
                      solve_batch(programs, start, limits, settings.threads, monitor, out);
                  });
}

// Each selected token must lie inside its sequence of 1..T tokens.
void need_lengths(const Indices& lengths, const Indices& selected, std::int64_t count, std::int64_t n, std::int64_t T) {
    need_shape(lengths, "lengths", {count, n});
    need_indices(lengths, "lengths", T + 1);
    for (py::ssize_t k = 0; k < lengths.size(); ++k)
        if (selected.data()[k] >= lengths.data()[k]) throw std::invalid_argument("selected token beyond its length");
}

template <class R> py::dict att_svm(const Array<R>& K, const Indices& block, const Indices& selected,
                                    const Optional<Array<bool>>& relaxed, const Optional<Indices>& lengths,
                                    const Settings& settings) {
    need_shape(K, "K", {-1, -1, -1, -1});
    need_shape(block, "block", {-1});
    need_indices(block, "block", K.shape(0));
    AttPrograms<R> programs;
    programs.count = block.shape(0);
    programs.n = K.shape(1);
    programs.T = K.shape(2);
    programs.d = K.shape(3);
    programs.width = programs.n * programs.T;
    programs.most_rows = programs.n * std::max<std::int64_t>(programs.T - 1, 0);
    need_shape(selected, "selected", {programs.count, programs.n});
    need_indices(selected, "selected", programs.T);
    if (relaxed) {
        need_shape(*relaxed, "relaxed", {programs.count, programs.n});
        programs.relaxed = relaxed->data();
    }
    if (lengths) {
        need_lengths(*lengths, selected, programs.count, programs.n, programs.T);
        programs.lengths = lengths->data();
    }
    programs.K = K.data();
    programs.block = block.data();
    programs.selected = selected.data();
    return solve(programs, settings);
}

template <class R> py::dict weight_svm(const Array<R>& X, const Indices& block, const Doubles& Z,
                                       const Indices& Z_block, const Indices& selected,
                                       const Optional<Indices>& lengths, bool nuclear, const Settings& settings) {
    need_shape(X, "X", {-1, -1, -1, -1});
    need_shape(block, "block", {-1});
    need_indices(block, "block", X.shape(0));
    WeightPrograms<R> programs;
    programs.count = block.shape(0);
    programs.n = X.shape(1);
    programs.T = X.shape(2);
    programs.d = X.shape(3);
    if (programs.T < 1) throw std::invalid_argument("T is 0, want at least 1");
    need_shape(Z, "Z", {-1, -1, -1});
    need_shape(Z_block, "Z_block", {programs.count});
    need_indices(Z_block, "Z_block", Z.shape(0));
    programs.queries = Z.shape(1);
    if (programs.queries != programs.n && programs.queries != 1) throw std::invalid_argument("Z: want n or 1 queries");
    programs.d_q = Z.shape(2);
    need_shape(selected, "selected", {programs.count, programs.n});
    need_indices(selected, "selected", programs.T);
    if (lengths) {
        need_lengths(*lengths, selected, programs.count, programs.n, programs.T);
        programs.lengths = lengths->data();
    }
    programs.X = X.data();
    programs.block = block.data();
    programs.Z = Z.data();
    programs.Z_block = Z_block.data();
    programs.selected = selected.data();
    programs.nuclear = nuclear;
    const Extents extents{programs.count, programs.d_q * programs.d, programs.n * programs.T, 0};
    return answer(extents, settings,
                  [&](const Start& start, const Limits& limits, Monitor* monitor, const Answers& out) {
                      solve_weights(programs, start, limits, settings.threads, monitor, out);
                  });
}

py::dict label_svm(const Doubles& R, const Indices& block, const Doubles& Y, const Settings& settings) {
    need_shape(R, "R", {-1, -1, -1});
    need_shape(block, "block", {-1});
    need_indices(block, "block", R.shape(0));
    LabelPrograms programs;
    programs.count = block.shape(0);
    programs.n = programs.width = programs.most_rows = R.shape(1);
    programs.d = R.shape(2);
    need_shape(Y, "Y", {programs.count, programs.n});
    programs.R = R.data();
    programs.block = block.data();
    programs.Y = Y.data();
    return solve(programs, settings);
}

py::dict min_norm(const Doubles& A, const Indices& block, const Doubles& b, const Doubles& E, const Indices& E_block,
                  const Doubles& e, const Settings& settings) {
    need_shape(A, "A", {-1, -1, -1});
    need_shape(block, "block", {-1});
    need_indices(block, "block", A.shape(0));
    RowPrograms programs;
    programs.count = block.shape(0);
    programs.m = programs.width = A.shape(1);
    programs.d = A.shape(2);
    need_shape(b, "b", {programs.count, programs.m});
    need_shape(E, "E", {-1, -1, programs.d});
    need_shape(E_block, "E_block", {programs.count});
    need_indices(E_block, "E_block", E.shape(0));
    programs.equalities = E.shape(1);
    need_shape(e, "e", {programs.count, programs.equalities});
    programs.most_rows = programs.m + programs.equalities;
    programs.A = A.data();
    programs.block = block.data();
    programs.b = b.data();
    programs.E = E.data();
    programs.E_block = E_block.data();
    programs.e = e.data();
    return solve(programs, settings);
}

} // namespace

void bind_margin(py::module_& m) {
    py::class_<Settings>(m, "MarginSettings", "Where to start a batch of programs and when to stop.")
        .def(py::init([](Optional<Doubles> start_dual, Optional<Doubles> start_point, std::int64_t max_iter,
                         double seconds, int threads) {
                 return Settings{std::move(start_dual), std::move(start_point), max_iter, seconds, threads};
             }),
             py::arg("start_dual").noconvert() = py::none(), py::arg("start_point").noconvert() = py::none(),
             py::arg("max_iter") = -1, py::arg("seconds") = std::numeric_limits<double>::infinity(),
             py::arg("threads") = 1);
    const auto strict = [](const char* name) { return py::arg(name).noconvert(); };
    const auto relaxed = py::arg("relaxed").noconvert(), lengths = py::arg("lengths").noconvert();
    const char* doc = "Solves a batch of ATT-SVMs; K (blocks, n, T, d), block (count,), the others (count, n).";
    m.def("att_svm", &att_svm<double>, strict("K"), strict("block"), strict("selected"), relaxed, lengths,
          py::arg("settings"), doc);
    m.def("att_svm", &att_svm<float>, strict("K"), strict("block"), strict("selected"), relaxed, lengths,
          py::arg("settings"), doc);
    const char* weight_doc = "Solves a batch of W-SVMs; X (blocks, n, T, d), block (count,), Z (blocks, n or 1, d_q), "
                             "Z_block (count,), the others (count, n).";
    m.def("weight_svm", &weight_svm<double>, strict("X"), strict("block"), strict("Z"), strict("Z_block"),
          strict("selected"), lengths, py::arg("nuclear"), py::arg("settings"), weight_doc);
    m.def("weight_svm", &weight_svm<float>, strict("X"), strict("block"), strict("Z"), strict("Z_block"),
          strict("selected"), lengths, py::arg("nuclear"), py::arg("settings"), weight_doc);
    m.def("label_svm", &label_svm, strict("R"), strict("block"), strict("Y"), py::arg("settings"),
          "Solves a batch of label SVMs; R (blocks, n, d), block (count,), Y (count, n).");
    m.def("min_norm", &min_norm, strict("A"), strict("block"), strict("b"), strict("E"), strict("E_block"), strict("e"),
          py::arg("settings"),
          "Solves a batch of programs A w >= b, E w = e; A (blocks, m, d), E (blocks, k, d), b (count, m), e (count, "
          "k).");
}

} // namespace fastmm::python
