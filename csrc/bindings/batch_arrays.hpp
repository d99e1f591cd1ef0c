// Arrays with an index of blocks, checked so that no kernel can read outside them, as the core's Blocks and TokenBatch.
#pragma once

#include "arrays.hpp"

#include "fastmm/batch.hpp"
#include "fastmm/kernels.hpp"

#include <optional>

namespace fastmm::python {

using Index = Array<std::int64_t>;

// array (blocks, *shape) with index (batch).
template <class R> Blocks<R> blocks_of(const Array<R>& array, const Index& index, const char* name, std::int64_t batch,
                                       std::initializer_list<std::int64_t> shape) {
    bool same = array.ndim() == static_cast<py::ssize_t>(shape.size()) + 1;
    std::int64_t size = 1;
    py::ssize_t axis = 1;
    for (const auto extent : shape) {
        same = same && array.shape(axis) == extent;
        size *= extent;
        ++axis;
    }
    if (!same) throw std::invalid_argument(std::string(name) + ": shape of its blocks does not fit the problem");
    need_shape(index, "index", {batch});
    need_indices(index, "index", array.shape(0));
    return {array.data(), index.data(), size};
}

template <class R> TokenBatch<R> tokens_of(const Array<R>& keys, const Index& key_index,
                                           const std::optional<Index>& lengths,
                                           const std::optional<Index>& length_index) {
    if (keys.ndim() != 4) throw std::invalid_argument("keys: want (blocks, n, T, d)");
    TokenBatch<R> tokens{key_index.size(), keys.shape(1), keys.shape(2), keys.shape(3), {}, {}, {}};
    if (tokens.n < 1 || tokens.T < 1 || tokens.d < 1)
        throw std::invalid_argument("keys: n, T and d must be at least 1");
    tokens.keys = blocks_of(keys, key_index, "keys", tokens.batch, {tokens.n, tokens.T, tokens.d});
    if (lengths) {
        if (!length_index) throw std::invalid_argument("lengths: want length_index too");
        tokens.lengths = blocks_of(*lengths, *length_index, "lengths", tokens.batch, {tokens.n});
        const std::int64_t* own = lengths->data();
        for (py::ssize_t k = 0; k < lengths->size(); ++k)
            if (own[k] < 1 || own[k] > tokens.T) throw std::invalid_argument("lengths: outside 1..T");
    }
    return tokens;
}

inline LossKind loss_of(int code) {
    if (code < 0 || code > 2) throw std::invalid_argument("loss: unknown code " + std::to_string(code));
    return static_cast<LossKind>(code);
}

inline void need_threads(int threads) {
    if (threads < 1 || threads > 4096) throw std::invalid_argument("threads: want 1..4096");
}

} // namespace fastmm::python
