// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/blocks.h"

#include <vector>

#include "importers/onnx/model_error.h"

namespace partita::importers {

namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    while (!text.empty()) {
        const std::size_t end = text.find(separator);
        parts.push_back(text.substr(0, end));
        if (end == std::string_view::npos) break;
        text.remove_prefix(end + 1);
    }
    return parts;
}

/// layer.0, encoder_layer_3 and h7 do; conv2 inside of them never gets that far.
bool ends_in_number(std::string_view component) {
    return !component.empty() && component.back() >= '0' && component.back() <= '9';
}

/// layer.0, encoder_layer_3, Mixed_5b: the number stands apart, so it counts repetitions.
bool is_repeated(std::string_view component) {
    const bool letter = !component.empty() && component.back() >= 'a' && component.back() <= 'e';
    if (letter) component.remove_suffix(1);
    if (!ends_in_number(component)) return false;
    const std::size_t last = component.find_last_not_of("0123456789");
    return last != std::string_view::npos && (component[last] == '.' || component[last] == '_');
}

std::string join(const std::vector<std::string_view>& parts, std::size_t count) {
    std::string joined;
    for (std::size_t i = 0; i < count; ++i) {
        if (i > 0) joined += '/';
        joined += printable(parts[i]);
    }
    return joined;
}

/// The first component with a number of its own (layer.0) wins over one that merely ends in a digit
/// (layer1 of layer1/layer1.2, conv1), which wins over the first two.
std::string block_of_path(const std::vector<std::string_view>& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (is_repeated(parts[i])) return join(parts, i + 1);
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (ends_in_number(parts[i])) return join(parts, i + 1);
    }
    return join(parts, std::min<std::size_t>(parts.size(), 2));
}

/// ": Outputs/model: T5/model.encoder: Stack/model.encoder.block.0: T5Block/...": each entry names
/// a module by its whole dotted path, so the entry itself is the block. The last one is the call.
std::string block_of_namespace(std::string_view metadata) {
    std::vector<std::string_view> modules;
    for (const std::string_view entry : split(metadata, '/')) {
        const std::string_view module = entry.substr(0, entry.find(": "));
        if (module != entry && !module.empty() && module.front() != ':') modules.push_back(module);
    }
    if (!modules.empty()) modules.pop_back();
    for (const std::string_view module : modules) {
        if (is_repeated(module)) return printable(module);
    }
    if (modules.empty() || modules.front().front() == '_') return {};
    return printable(modules[std::min<std::size_t>(modules.size(), 2) - 1]);
}

}  // namespace

std::string block_of(std::string_view node_name, std::string_view namespace_metadata) {
    if (std::string block = block_of_namespace(namespace_metadata); !block.empty()) return block;
    if (node_name.find('/') == std::string_view::npos) return {};
    std::vector<std::string_view> parts;
    for (const std::string_view part : split(node_name, '/')) {
        if (!part.empty()) parts.push_back(part);
    }
    if (!parts.empty()) parts.pop_back();  // the operator itself
    return block_of_path(parts);
}

}  // namespace partita::importers
