// SPDX-License-Identifier: Apache-2.0
//
// The one form of a complaint about a model:
//
//     resnet50.onnx: node '/conv1/Conv' (Conv), attribute 'strides': expected ..., got .... Correct
//     the model or export it again.
#pragma once

#include <string>
#include <string_view>

namespace partita::importers {

inline constexpr std::string_view kCorrectTheModel = "Correct the model or export it again.";

/// Throws InputError "`file`: `where`: `what`. `remedy`".
[[noreturn]] void throw_model_error(std::string_view file, std::string_view where,
                                    std::string_view what,
                                    std::string_view remedy = kCorrectTheModel);

/// "node 'name' (Type)".
std::string node_label(std::string_view name, std::string_view type);

/// `text` as valid UTF-8 without control characters; every other byte becomes U+FFFD. Names go into
/// JSON files and onto terminals.
std::string printable(std::string_view text);

}  // namespace partita::importers
