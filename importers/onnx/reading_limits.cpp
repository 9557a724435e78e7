// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/reading_limits.h"

#include <algorithm>
#include <variant>

#include <fmt/format.h>

#include "base/units.h"

namespace partita::importers {

namespace {

constexpr std::size_t kMemory = std::size_t{512} << 20;
constexpr std::size_t kSteps = std::size_t{64} << 20;
constexpr std::size_t kPerFileByte = 64;
constexpr std::int64_t kFolding = std::int64_t{256} << 20;
constexpr std::int64_t kFoldingPerFileByte = 16;

bool take(std::size_t& left, std::size_t amount) {
    const bool enough = amount <= left;
    left -= std::min(left, amount);
    return enough;
}

std::string size_text(std::size_t bytes) {
    return to_text(Bytes(static_cast<std::int64_t>(bytes)));
}

std::size_t size_of(const std::string& text) {
    return text.size();
}
template <class Number>
std::size_t size_of(const Number& /*number*/) {
    return sizeof(Number);
}
template <class Element>
std::size_t size_of(const std::vector<Element>& list) {
    std::size_t size = 0;
    for (const Element& element : list) size += sizeof(Element) + size_of(element);
    return size;
}

}  // namespace

ReadingLimits::ReadingLimits(std::size_t file_size)
    : file_size_(file_size),
      memory_(kMemory + kPerFileByte * file_size),
      steps_(kSteps + kPerFileByte * file_size),
      folding_(kFolding + kFoldingPerFileByte * static_cast<std::int64_t>(file_size)) {}

bool ReadingLimits::take_memory(std::size_t bytes) {
    return take(memory_, bytes);
}

bool ReadingLimits::take_steps(std::size_t steps) {
    return take(steps_, steps);
}

std::string ReadingLimits::memory_text() const {
    return fmt::format("to read the model up to here takes more than {}, too much for a file of {}",
                       size_text(kMemory + kPerFileByte * file_size_), size_text(file_size_));
}

std::string ReadingLimits::steps_text() const {
    return fmt::format(
        "to read the model up to here means to look at {} of nodes and constants, too much for a "
        "file of {}",
        size_text(kSteps + kPerFileByte * file_size_), size_text(file_size_));
}

std::size_t memory_of(const graph::Attributes& attributes) {
    std::size_t size = 0;
    for (const auto& [name, value] : attributes.entries()) {
        size += sizeof(graph::Attributes::Entry) + name.size();
        size += std::visit([](const auto& held) { return size_of(held); }, value);
    }
    return size;
}

}  // namespace partita::importers
