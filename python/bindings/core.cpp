// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/core.h"

NB_MODULE(_core, m) {
    using namespace partita;
    m.doc() = "Partita's library; use it through the package partita.";
    const nanobind::exception<std::runtime_error> error(m, "Error", PyExc_Exception);
    // The most general first: nanobind asks the last one first.
    nanobind::exception<InputError>(m, "InputError", error.ptr());
    nanobind::exception<UsageError>(m, "UsageError", error.ptr());
    nanobind::exception<MismatchError>(m, "MismatchError", error.ptr());
    nanobind::exception<DeviceError>(m, "DeviceError", error.ptr());
    python::bind_model(m);
    python::bind_plan(m);
    python::bind_search(m);
}
