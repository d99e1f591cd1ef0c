// Bindings of gradient-descent runs.
#include "batch_arrays.hpp"
#include "monitor.hpp"

#include "fastmm/descent.hpp"

#include <pybind11/stl.h>

#include <cmath>
#include <limits>

namespace fastmm::python {
namespace {

template <class R> py::dict descend(const Array<R>& keys, const Index& key_index, const Array<R>& scores,
                                    const Index& score_index, const Array<R>& p0, const Array<R>& lr, int loss,
                                    bool normalized, std::int64_t steps, const Index& record,
                                    const std::optional<Index>& lengths, const std::optional<Index>& length_index,
                                    int threads, py::object progress) {
    need_threads(threads);
    DescentBatch<R> batch{};
    batch.tokens = tokens_of(keys, key_index, lengths, length_index);
    const std::int64_t count = batch.tokens.batch, d = batch.tokens.d;
    batch.tokens.scores = blocks_of(scores, score_index, "scores", count, {batch.tokens.n, batch.tokens.T});
    batch.loss = loss_of(loss);
    batch.normalized = normalized;
    need_shape(p0, "p0", {count, d});
    need_shape(lr, "lr", {count});
    batch.lr = lr.data();
    if (steps < 0 || steps >= std::int64_t(1) << 62) throw std::invalid_argument("steps: want 0 to 2**62 - 1");
    batch.steps = steps;
    need_shape(record, "record", {-1});
    need_indices(record, "record", steps + 1);
    for (py::ssize_t k = 1; k < record.size(); ++k)
        if (record.data()[k] <= record.data()[k - 1]) throw std::invalid_argument("record: want increasing steps");
    batch.record = record.data();
    batch.records = record.size();

    Array<R> p({count, d}), recorded({batch.records, count, d});
    Array<std::int64_t> steps_done(count);
    Array<std::int8_t> reason(count);
    std::copy(p0.data(), p0.data() + p0.size(), p.mutable_data());
    std::fill_n(recorded.mutable_data(), recorded.size(), std::numeric_limits<R>::quiet_NaN());
    batch.p = p.mutable_data();
    batch.recorded = recorded.mutable_data();
    batch.steps_done = steps_done.mutable_data();
    batch.reason = reinterpret_cast<StopReason*>(reason.mutable_data());
    SignalMonitor monitor(std::move(progress));
    {
        const py::gil_scoped_release release;
        descend_batch(batch, threads, &monitor);
    }
    py::dict out;
    out["p"] = p;
    out["recorded"] = recorded;
    out["steps_done"] = steps_done;
    out["reason"] = reason;
    return out;
}

template <class R> void bind(py::module_& m) {
    m.def("descend", &descend<R>, py::arg("keys").noconvert(), py::arg("key_index").noconvert(),
          py::arg("scores").noconvert(), py::arg("score_index").noconvert(), py::arg("p0").noconvert(),
          py::arg("lr").noconvert(), py::arg("loss"), py::arg("normalized"), py::arg("steps"),
          py::arg("record").noconvert(), py::arg("lengths").noconvert(), py::arg("length_index").noconvert(),
          py::arg("threads"), py::arg("progress"),
          "Runs from p0 (batch, d): end points, recorded iterates (records, batch, d), steps done, reasons.");
}

} // namespace

void bind_descent(py::module_& m) {
    bind<double>(m);
    bind<float>(m);
}

} // namespace fastmm::python
