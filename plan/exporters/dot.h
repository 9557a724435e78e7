// SPDX-License-Identifier: Apache-2.0
//
// The graph for Graphviz: one filled box per op, one colour per device, one cluster per block. A
// split op has a stripe for each of its devices, up to eight; on more of them it is grey.
// Parameters and constants are left out: they follow their users and would hide the picture.
#pragma once

#include <string>

#include "plan/exporters/exporter.h"

namespace partita::plan {

std::string dot(const ExportInput& input);

}  // namespace partita::plan
