// Binding of the addresses of the C entries, for compilers at run time.
#include "fastmm/c_entry.hpp"

#include <pybind11/pybind11.h>

#include <cstdint>

namespace fastmm::python {

namespace py = pybind11;

void bind_addresses(py::module_& m) {
    m.def(
        "c_entries",
        [] {
            py::dict out;
            out["fastmm_gradient_p"] = reinterpret_cast<std::uintptr_t>(&fastmm_gradient_p);
            out["fastmm_gradient_pv"] = reinterpret_cast<std::uintptr_t>(&fastmm_gradient_pv);
            return out;
        },
        "Addresses of the entries with C calling conventions; see csrc/fastmm/c_entry.hpp.");
}

} // namespace fastmm::python
