// SPDX-License-Identifier: Apache-2.0
#include "graph/attributes.h"

#include <algorithm>

namespace partita::graph {

namespace {

template <class Entries>
auto lower_bound_of(Entries& entries, std::string_view name) {
    return std::lower_bound(entries.begin(), entries.end(), name,
                            [](const Attributes::Entry& entry, std::string_view key) {
                                return entry.first.compare(key) < 0;
                            });
}

template <class T>
const T* get_if(const Attributes& attributes, std::string_view name) {
    const AttributeValue* value = attributes.find(name);
    return value == nullptr ? nullptr : std::get_if<T>(value);
}

}  // namespace

void Attributes::set(std::string name, AttributeValue value) {
    const auto it = lower_bound_of(entries_, name);
    if (it != entries_.end() && it->first == name) {
        it->second = std::move(value);
    } else {
        entries_.emplace(it, std::move(name), std::move(value));
    }
}

void Attributes::erase(std::string_view name) {
    const auto it = lower_bound_of(entries_, name);
    if (it != entries_.end() && it->first == name) entries_.erase(it);
}

const AttributeValue* Attributes::find(std::string_view name) const {
    const auto it = lower_bound_of(entries_, name);
    return it != entries_.end() && it->first == name ? &it->second : nullptr;
}

std::int64_t Attributes::get_int(std::string_view name, std::int64_t fallback) const {
    const auto* value = get_if<std::int64_t>(*this, name);
    return value == nullptr ? fallback : *value;
}

double Attributes::get_float(std::string_view name, double fallback) const {
    const auto* value = get_if<double>(*this, name);
    return value == nullptr ? fallback : *value;
}

std::string Attributes::get_string(std::string_view name, std::string_view fallback) const {
    const auto* value = get_if<std::string>(*this, name);
    return value == nullptr ? std::string(fallback) : *value;
}

std::vector<std::int64_t> Attributes::get_ints(std::string_view name) const {
    const auto* value = get_if<std::vector<std::int64_t>>(*this, name);
    return value == nullptr ? std::vector<std::int64_t>{} : *value;
}

}  // namespace partita::graph
