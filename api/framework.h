// SPDX-License-Identifier: Apache-2.0
//
// Frameworks: what the engine that will run a plan does, beside what it is told: a JSON file in
// data/frameworks or the user's own (docs/file-formats.md). It gives options the values that nobody
// gave them, so that a plan says all of it and needs no framework to be read:
//
//     fuse, attention, gradients        of ImportOptions (loaded_model.cpp)
//     bucket_bytes, host_time, clip_norm, strategy
//                                       of PlanOptions
//
// What is found in no place of the model (a kernel, attention) is left out; given as an option of
// its own it would be refused.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

#include <partita/search.h>

namespace partita::api {

struct Framework {
    std::string name;
    std::string summary;                    ///< one line: what it is, in which form
    std::vector<std::string> fuse;          ///< ImportOptions::fuse
    std::optional<bool> fused_attention;    ///< ImportOptions::fused_attention
    bool float32_gradients = false;         ///< ImportOptions::float32_gradients
    std::optional<Bytes> bucket_bytes;      ///< PlanOptions::bucket_bytes
    std::optional<HostTime> host_time;      ///< PlanOptions::host_time
    std::optional<double> clip_norm;        ///< PlanOptions::clip_norm
    std::string strategy;                   ///< PlanOptions::strategy, where that says nothing else
    std::vector<std::string> not_modelled;  ///< what it does otherwise than plans have it; clauses
};

/// `context` stands in front of messages. Throws InputError naming the field; each but name,
/// summary and not_modelled has a source.
Framework parse_framework(std::string_view json, const std::string& context);

/// One of data/frameworks, or a file that ends in ".json". Throws UsageError for a name that is
/// not known, naming those that are.
Framework load_framework(const std::filesystem::path& spec);

/// With what PlanOptions::framework says, where the options say nothing.
PlanOptions with_framework(PlanOptions options);

/// For people: its name and summary.
std::string note_of(const Framework& framework);
/// What of it plans do not have.
std::vector<std::string> details_of(const Framework& framework);

}  // namespace partita::api
