// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as what a policy file holds after the line of its digest, with the digest that they
// have: either an error that the user can act on, or a policy that is written and read back as the
// same bytes.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/sha256.h"
#include "rl/policy_file.h"
#include "tests/support/temporary_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view body(reinterpret_cast<const char*>(data), size);
    const std::string text = "partita-policy 2\ndigest " + partita::Sha256().add(body).finish() +
                             "\n" + std::string(body);
    try {
        const auto net = partita::rl::parse_policy(text, "learned.policy");
        const partita::TemporaryFolder folder;
        const auto file = folder.path() / "again.policy";
        partita::rl::write_policy(file, *net);
        if (partita::read_text_file(file) != text) std::abort();
    } catch (const partita::InputError&) {
    }
    return 0;
}
