// Bindings of softmax, attention weights and token scores.
#include "batch_arrays.hpp"
#include "monitor.hpp"

#include "fastmm/attention.hpp"

#include <pybind11/stl.h>

namespace fastmm::python {
namespace {

template <class R> Array<R> softmax(const Array<R>& logits, const std::optional<Index>& lengths, bool logarithm) {
    need_shape(logits, "logits", {-1, -1});
    const std::int64_t rows = logits.shape(0), T = logits.shape(1);
    const std::int64_t* own = nullptr;
    if (lengths) {
        need_shape(*lengths, "lengths", {rows});
        need_indices(*lengths, "lengths", T + 1);
        own = lengths->data();
    }
    if (T < 1) throw std::invalid_argument("logits: want at least one a row");
    Array<R> out({rows, T});
    R* to = out.mutable_data();
    std::int64_t bad;
    {
        const py::gil_scoped_release release;
        bad = softmax_rows(logits.data(), rows, T, own, logarithm, to);
    }
    if (bad >= 0)
        throw py::value_error("logits: row " + std::to_string(bad) +
                              " has NaN or +inf; allowed: finite numbers and -inf (a mask)");
    return out;
}

template <class R> Array<R> attention(const Array<R>& keys, const Index& key_index, const Array<double>& p,
                                      const Index& p_index, const std::optional<Index>& lengths,
                                      const std::optional<Index>& length_index, int threads) {
    need_threads(threads);
    const TokenBatch<R> tokens = tokens_of(keys, key_index, lengths, length_index);
    const Blocks<double> own_p = blocks_of(p, p_index, "p", tokens.batch, {tokens.d});
    Array<R> out({tokens.batch, tokens.n, tokens.T});
    R* to = out.mutable_data();
    SignalMonitor monitor;
    bool stopped;
    {
        const py::gil_scoped_release release;
        stopped = attention_weights(tokens, own_p, to, threads, &monitor);
    }
    if (stopped) interrupted();
    return out;
}

template <class R> Array<R> scores(const Array<R>& X, const Index& X_index, const Array<R>& Y, const Index& Y_index,
                                   const Array<R>& v, const Index& v_index, const std::optional<Index>& lengths,
                                   const std::optional<Index>& length_index, int threads) {
    need_threads(threads);
    const TokenBatch<R> tokens = tokens_of(X, X_index, lengths, length_index);
    const Blocks<R> labels = blocks_of(Y, Y_index, "Y", tokens.batch, {tokens.n});
    const Blocks<R> head = blocks_of(v, v_index, "v", tokens.batch, {tokens.d});
    Array<R> out({tokens.batch, tokens.n, tokens.T});
    R* to = out.mutable_data();
    SignalMonitor monitor;
    bool stopped;
    {
        const py::gil_scoped_release release;
        stopped = token_scores(tokens, labels, head, to, threads, &monitor);
    }
    if (stopped) interrupted();
    return out;
}

template <class R> void bind_attention_of(py::module_& m) {
    m.def("softmax", &softmax<R>, py::arg("logits").noconvert(), py::arg("lengths").noconvert(), py::arg("logarithm"),
          "Softmax of the rows of logits (rows, T), or its logarithm.");
    m.def("attention", &attention<R>, py::arg("keys").noconvert(), py::arg("key_index").noconvert(),
          py::arg("p").noconvert(), py::arg("p_index").noconvert(), py::arg("lengths").noconvert(),
          py::arg("length_index").noconvert(), py::arg("threads"),
          "Weights (batch, n, T) of keys (blocks, n, T, d) for p (blocks, d).");
    m.def("scores", &scores<R>, py::arg("X").noconvert(), py::arg("X_index").noconvert(), py::arg("Y").noconvert(),
          py::arg("Y_index").noconvert(), py::arg("v").noconvert(), py::arg("v_index").noconvert(),
          py::arg("lengths").noconvert(), py::arg("length_index").noconvert(), py::arg("threads"),
          "Token scores (batch, n, T), NaN at padding.");
}

} // namespace

void bind_attention(py::module_& m) {
    bind_attention_of<double>(m);
    bind_attention_of<float>(m);
}

} // namespace fastmm::python
