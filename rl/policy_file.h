// SPDX-License-Identifier: Apache-2.0
//
// Policies on disk. A few lines of text, then the weights as they are in memory (little-endian
// floats):
//
//     partita-policy 2
//     digest 9f31c2...              SHA-256 of all that follows this line
//     features 1                    kFeatureVersion: what the weights mean
//     hidden 64
//     groups 0                      > 0: of rl-hierarchical
//     tensor types.weight 256 16    one line each
//     ...
//     weights
//
// Reading is strict: a file that is cut, changed, of another version or of another shape is an
// InputError that names the file and says what is wrong. Equal policies are equal bytes.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "rl/policy_net.h"

namespace partita::rl {

/// Through a temporary file. Throws UsageError when it cannot be written.
void write_policy(const std::filesystem::path& file, const PolicyNet& net);

/// Throws InputError.
std::shared_ptr<PolicyNet> read_policy(const std::filesystem::path& file);
/// What such a file holds; errors name `file`.
std::shared_ptr<PolicyNet> parse_policy(std::string_view text, const std::filesystem::path& file);

}  // namespace partita::rl
