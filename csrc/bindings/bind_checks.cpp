// Bindings of the data checks.
#include "arrays.hpp"

#include "fastmm/checks.hpp"

#include <pybind11/stl.h>

#include <limits>
#include <optional>

namespace fastmm::python {
namespace {

template <class R> std::int64_t first_nonfinite(const Array<R>& x, std::int64_t T, std::int64_t d,
                                                const std::optional<Array<std::int64_t>>& lengths) {
    if (T < 0 || d < 0 || (d > 0 && T > std::numeric_limits<std::int64_t>::max() / d))
        throw std::invalid_argument("T and d: want 0 or more, and a product below 2**63");
    need_shape(x, "x", {-1, T * d});
    const std::int64_t rows = x.shape(0);
    const std::int64_t* own = nullptr;
    if (lengths) {
        need_shape(*lengths, "lengths", {rows});
        need_indices(*lengths, "lengths", T + 1);
        own = lengths->data();
    }
    const py::gil_scoped_release release;
    return fastmm::first_nonfinite(x.data(), rows, T, d, own);
}

} // namespace

void bind_checks(py::module_& m) {
    const char* doc = "Position of the first entry of x (rows, T*d) that is not finite, padding left out, or -1.";
    const auto x = py::arg("x").noconvert();
    const auto lengths = py::arg("lengths").noconvert() = py::none();
    m.def("first_nonfinite", &first_nonfinite<double>, x, py::arg("T"), py::arg("d"), lengths, doc);
    m.def("first_nonfinite", &first_nonfinite<float>, x, py::arg("T"), py::arg("d"), lengths, doc);
}

} // namespace fastmm::python
