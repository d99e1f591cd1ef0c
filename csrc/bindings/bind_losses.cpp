// Bindings of the losses, elementwise.
#include "batch_arrays.hpp"

#include "fastmm/losses.hpp"

namespace fastmm::python {
namespace {

template <double (*function)(LossKind, double)> Array<double> elementwise(int loss, const Array<double>& x) {
    const LossKind kind = loss_of(loss);
    need_shape(x, "x", {-1});
    Array<double> out(x.size());
    const double* from = x.data();
    double* to = out.mutable_data();
    const py::gil_scoped_release release;
    for (py::ssize_t k = 0; k < x.size(); ++k) to[k] = function(kind, from[k]);
    return out;
}

} // namespace

void bind_losses(py::module_& m) {
    const auto x = py::arg("x").noconvert();
    m.def("loss_value", &elementwise<loss_value>, py::arg("loss"), x, "Loss at the margins x.");
    m.def("loss_slope", &elementwise<loss_slope>, py::arg("loss"), x, "First derivative at the margins x.");
    m.def("loss_curvature", &elementwise<loss_curvature>, py::arg("loss"), x, "Second derivative at the margins x.");
}

} // namespace fastmm::python
