// SPDX-License-Identifier: Apache-2.0
//
// The compiled half of the Python package: include/partita as it is, times in seconds (float), sizes
// in bytes (int), enumerations as the program's words. What is nicer in Python is written there.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <partita/partita.h>

namespace partita::python {
namespace nb = nanobind;

void bind_model(nb::module_& m);
void bind_plan(nb::module_& m);
void bind_search(nb::module_& m);

inline double seconds(Time time) {
    return to_seconds(time);
}

/// Seconds of a field, for def_prop_ro.
template <class T, Time T::*field>
double seconds_of(const T& of) {
    return to_seconds(of.*field);
}

/// Bytes of a field, for def_prop_ro.
template <class T, Bytes T::*field>
std::int64_t bytes_of(const T& of) {
    return (of.*field).raw();
}

}  // namespace partita::python
