// The only place that fixes array types at the border: C-contiguous, exact dtype, never converted.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>

namespace fastmm::python {

namespace py = pybind11;

// Arguments of this type are bound with py::arg(...).noconvert(): another dtype or order is a TypeError, never a copy.
template <class R> using Array = py::array_t<R, py::array::c_style>;

// Refuses an array whose shape is not the one given; a negative entry matches any extent.
template <class R> void need_shape(const Array<R>& array, const char* name, std::initializer_list<std::int64_t> shape) {
    bool same = array.ndim() == static_cast<py::ssize_t>(shape.size());
    py::ssize_t axis = 0;
    for (const auto extent : shape) {
        if (!same) break;
        same = extent < 0 || array.shape(axis) == extent;
        ++axis;
    }
    if (same) return;
    std::string wanted = "(", given = "(";
    for (const auto extent : shape) wanted += (extent < 0 ? std::string("any") : std::to_string(extent)) + ",";
    for (py::ssize_t k = 0; k < array.ndim(); ++k) given += std::to_string(array.shape(k)) + ",";
    throw std::invalid_argument(std::string(name) + " has shape " + given + "), want " + wanted + ")");
}

// Refuses an index array with an entry outside [0, count): it would read memory that is not ours.
inline void need_indices(const Array<std::int64_t>& array, const char* name, std::int64_t count) {
    const std::int64_t* values = array.data();
    for (py::ssize_t k = 0; k < array.size(); ++k)
        if (values[k] < 0 || values[k] >= count)
            throw std::invalid_argument(std::string(name) + " has entry " + std::to_string(values[k]) + " outside 0.." +
                                        std::to_string(count - 1));
}

} // namespace fastmm::python
