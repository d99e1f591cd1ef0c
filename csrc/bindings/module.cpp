// The compiled module fastmm._core: one bind_* per concept, each in a file of its own.
#include <pybind11/pybind11.h>

namespace fastmm::python {
void bind_build(pybind11::module_& m);
void bind_checks(pybind11::module_& m);
void bind_addresses(pybind11::module_& m);
void bind_attention(pybind11::module_& m);
void bind_descent(pybind11::module_& m);
void bind_gradient(pybind11::module_& m);
void bind_losses(pybind11::module_& m);
void bind_margin(pybind11::module_& m);
void bind_plan(pybind11::module_& m);
} // namespace fastmm::python

PYBIND11_MODULE(_core, m, pybind11::mod_gil_not_used()) {
    m.doc() = "Compiled kernels of fastmm. Arguments are checked by the Python layer; call that instead.";
    fastmm::python::bind_build(m);
    fastmm::python::bind_checks(m);
    fastmm::python::bind_addresses(m);
    fastmm::python::bind_attention(m);
    fastmm::python::bind_descent(m);
    fastmm::python::bind_gradient(m);
    fastmm::python::bind_losses(m);
    fastmm::python::bind_margin(m);
    fastmm::python::bind_plan(m);
}
