// SPDX-License-Identifier: Apache-2.0
//
// Where the data files lie: machine presets and calibration tables.
#pragma once

#include <filesystem>

namespace partita::cost {

/// share/partita beside the folder of the running program when that is an installed one, else the
/// source tree that the library was built from. Throws InputError when neither is there.
std::filesystem::path data_folder();

}  // namespace partita::cost
