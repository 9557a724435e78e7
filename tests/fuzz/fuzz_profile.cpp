// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a profile database: either an error that the user can act on, or rows that can all
// be read.
#include <cstdint>
#include <fstream>

#include "base/error.h"
#include "cost/profile/profile_database.h"
#include "tests/support/temporary_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const partita::TemporaryFolder kFolder;
    const auto file = kFolder.path() / "profile.db";
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    try {
        const auto database = partita::cost::ProfileDatabase::open(file);
        for (const auto& device : database.devices()) (void)database.read(device);
    } catch (const partita::InputError&) {
    }
    return 0;
}
