// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/core.h"

NB_MODULE(_core, m) {
    using namespace partita;
    m.doc() = "Partita's library; use it through the package partita.";
    // torch keeps the globals of a script alive beyond the interpreter, so that a plan there is "leaked".
    nanobind::set_leak_warnings(false);
    const nanobind::exception<std::runtime_error> error(m, "Error", PyExc_Exception);
    // The most general first: nanobind asks the last one first.
    const nanobind::exception<InputError> input_error(m, "InputError", error.ptr());
    const nanobind::exception<UsageError> usage_error(m, "UsageError", error.ptr());
    const nanobind::exception<MismatchError> mismatch_error(m, "MismatchError", error.ptr());
    const nanobind::exception<DeviceError> device_error(m, "DeviceError", error.ptr());
    python::bind_model(m);
    python::bind_plan(m);
    python::bind_search(m);
}
