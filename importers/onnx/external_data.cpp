// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/external_data.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include <fmt/format.h>

#include "importers/onnx/model_error.h"
#include "importers/onnx/onnx_types.h"

namespace partita::importers {

namespace {

std::int64_t to_number(const std::string& text) {
    std::int64_t number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() ? number : -2;
}

}  // namespace

External external_of(const onnx::TensorProto& tensor) {
    External external;
    for (const auto& entry : tensor.external_data()) {
        if (entry.key() == "location") external.location = entry.value();
        if (entry.key() == "offset") external.offset = to_number(entry.value());
        if (entry.key() == "length") external.length = to_number(entry.value());
    }
    return external;
}

std::set<std::string> external_locations(const onnx::ModelProto& model) {
    std::set<std::string> locations;
    for (const onnx::TensorProto& tensor : model.graph().initializer()) {
        if (is_external(tensor)) locations.insert(external_of(tensor).location);
    }
    return locations;
}

ExternalFile find_external(const std::filesystem::path& folder, const std::string& location) {
    namespace fs = std::filesystem;
    ExternalFile found;
    const fs::path relative(location);
    const bool climbs = std::find(relative.begin(), relative.end(), "..") != relative.end();
    if (location.empty() || relative.is_absolute() || climbs ||
        location.find('\0') != std::string::npos) {
        found.fault = fmt::format(
            "its external data lies at '{}'; expected a path inside the model's "
            "folder. Move the data next to the model",
            printable(location));
        return found;
    }
    std::error_code error;
    const fs::path root = fs::canonical(folder.empty() ? fs::path(".") : folder, error);
    const fs::path file = error ? fs::path() : fs::canonical(root / relative, error);
    if (error) {
        found.missing = error == std::errc::no_such_file_or_directory;
        found.fault = fmt::format(
            "its external data '{}' cannot be opened ({}). Put the weights file "
            "next to the model, or run with random weights",
            printable(location), error.message());
        return found;
    }
    // After links are resolved it must still be below the folder.
    const auto [in_root, in_file] =
        std::mismatch(root.begin(), root.end(), file.begin(), file.end());
    if (in_root != root.end() || in_file == file.end()) {
        found.fault = fmt::format(
            "its external data '{}' is a link that leaves the model's folder. Move the data next "
            "to the model",
            printable(location));
    } else if (!fs::is_regular_file(file, error)) {
        found.fault = fmt::format("its external data '{}' is no regular file", printable(location));
    } else {
        found.path = file;
    }
    return found;
}

}  // namespace partita::importers
