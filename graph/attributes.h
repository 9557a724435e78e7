// SPDX-License-Identifier: Apache-2.0
//
// Typed attributes of an op: a small sorted vector from name to one of six value types (ONNX's
// tensor-valued attributes become constant tensors of the graph, its graph-valued ones bodies).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace partita::graph {

using AttributeValue = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>,
                                    std::vector<double>, std::vector<std::string>>;

class Attributes {
public:
    using Entry = std::pair<std::string, AttributeValue>;

    /// Replaces an earlier value of the same name.
    void set(std::string name, AttributeValue value);
    void erase(std::string_view name);  ///< nothing happens when it is absent
    [[nodiscard]] const AttributeValue* find(std::string_view name) const;

    /// The value, or `fallback` when the attribute is absent or of another type (the importer has
    /// checked types against the operator's schema).
    [[nodiscard]] std::int64_t get_int(std::string_view name, std::int64_t fallback) const;
    [[nodiscard]] double get_float(std::string_view name, double fallback) const;
    [[nodiscard]] std::string get_string(std::string_view name, std::string_view fallback) const;
    [[nodiscard]] std::vector<std::int64_t> get_ints(std::string_view name) const;  ///< or empty

    [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
    friend bool operator==(const Attributes&, const Attributes&) = default;

private:
    std::vector<Entry> entries_;
};

}  // namespace partita::graph
