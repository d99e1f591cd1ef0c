// Looks at Python's signals, and tells a Python callback how far the work is, while compiled code runs without the GIL.
#pragma once

#include "fastmm/parallel.hpp"

#include <pybind11/pybind11.h>

namespace fastmm::python {

class SignalMonitor final : public Monitor {
public:
    // `progress` is None or a callable taking the amount of work done.
    explicit SignalMonitor(pybind11::object progress = pybind11::none()) : progress_(std::move(progress)) {}

    bool poll(std::int64_t done) override {
        const pybind11::gil_scoped_acquire gil;
        try {
            if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
            if (!progress_.is_none()) progress_(done);
        } catch (pybind11::error_already_set& error) {
            if (!error.matches(PyExc_KeyboardInterrupt)) throw;
            interrupted_ = true;
        }
        return interrupted_;
    }

    // True once Ctrl-C was seen; the work done until then is kept.
    bool interrupted() const { return interrupted_; }

private:
    pybind11::object progress_;
    bool interrupted_ = false;
};

// For calls that have nothing to give back when they are stopped.
[[noreturn]] inline void interrupted() {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw pybind11::error_already_set();
}

} // namespace fastmm::python
