// SPDX-License-Identifier: Apache-2.0
//
// Where the data files lie: machine presets and calibration tables.
#pragma once

#include <filesystem>

namespace partita::cost {

/// share/partita beside the folder of the library when that is an installed one, whatever program
/// loaded it; else the source tree that it was built from. Throws InputError when neither is there.
std::filesystem::path data_folder();

}  // namespace partita::cost
