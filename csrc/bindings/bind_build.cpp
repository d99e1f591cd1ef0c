// Bindings of the build description and of the chosen instruction set.
#include "fastmm/build.hpp"
#include "fastmm/dispatch.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace fastmm::python {

namespace py = pybind11;

void bind_build(py::module_& m) {
    kernels(); // a wrong FASTMM_ISA is an ImportError with its reason, not a surprise in the first kernel
    m.def(
        "build_info",
        [] {
            const BuildInfo info = build_info();
            py::dict out;
            out["version"] = info.version;
            out["compiler"] = info.compiler;
            out["flags"] = info.flags;
            out["build_type"] = info.build_type;
            out["assertions"] = info.assertions;
            out["instruction_set"] = kernels().name;
            out["instruction_sets"] = available_instruction_sets();
            return out;
        },
        "Compiler, flags and build type, and the instruction set in use.");
}

} // namespace fastmm::python
