// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace partita {

struct JsonNode {
    using Array = std::vector<JsonNode>;
    using Object = std::vector<std::pair<std::string, JsonNode>>;  ///< sorted by name
    std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, Array, Object> value;
};

namespace {

constexpr std::size_t kMostLevels = 32;
constexpr std::size_t kMostGotCharacters = 60;
/// Two bytes of text may be a value, and a value takes 40 bytes: without a limit 1 GiB would take
/// 20.
constexpr std::size_t kMostValues = std::size_t{1} << 24;

/// Receives the events of nlohmann's parser and builds a JsonNode.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
public:
    explicit Builder(const std::string& file) : file_(file) {}

    JsonNode take() { return std::move(root_); }

    bool null() override { return add(JsonNode{nullptr}); }
    bool boolean(bool value) override { return add(JsonNode{value}); }
    bool number_integer(std::int64_t value) override { return add(JsonNode{value}); }
    bool number_unsigned(std::uint64_t value) override {
        if (std::in_range<std::int64_t>(value)) {
            return add(JsonNode{static_cast<std::int64_t>(value)});
        }
        return add(JsonNode{static_cast<double>(value)});
    }
    bool number_float(double value, const std::string& text) override {
        if (!std::isfinite(value)) refuse(fmt::format("the number {} is out of range", text));
        return add(JsonNode{value});
    }
    bool string(std::string& value) override { return add(JsonNode{std::move(value)}); }
    bool binary(nlohmann::json::binary_t& /*value*/) override { return false; }

    bool start_object(std::size_t /*elements*/) override { return open(JsonNode::Object{}); }
    bool start_array(std::size_t /*elements*/) override { return open(JsonNode::Array{}); }
    bool end_array() override { return close(); }
    bool key(std::string& name) override {
        std::get<JsonNode::Object>(open_.back().value).emplace_back(std::move(name), JsonNode{});
        return true;
    }
    bool end_object() override {
        auto& members = std::get<JsonNode::Object>(open_.back().value);
        const auto name = [](const auto& member) -> const std::string& { return member.first; };
        std::ranges::sort(members, {}, name);
        const auto twice = std::ranges::adjacent_find(members, {}, name);
        if (twice != members.end()) {
            refuse(
                fmt::format("the field {} stands twice in one object", json_quoted(twice->first)));
        }
        return close();
    }

    bool parse_error(std::size_t position, const std::string& /*token*/,
                     const nlohmann::json::exception& error) override {
        // "[json.exception.parse_error.101] parse error at line 1, column 2: <reason>", without a
        // line when a number is out of range. What was read may hold any bytes.
        constexpr std::string_view kWhere = "parse error at ";
        std::string reason = error.what();
        reason.erase(0, reason.find("] ") + 2);
        if (reason.starts_with(kWhere)) {
            reason.erase(0, kWhere.size());
        } else {
            reason = fmt::format("byte {}: {}", position, reason);
        }
        std::ranges::replace_if(
            reason, [](char c) { return c < ' ' || c > '~'; }, '?');
        refuse("no JSON: " + reason);
    }

private:
    [[noreturn]] void refuse(const std::string& reason) const {
        throw InputError(fmt::format("{}: {}. Correct the file.", file_, reason));
    }

    /// Parents are complete only when they are closed: until then children wait on a stack.
    bool open(auto container) {
        if (open_.size() == kMostLevels) {
            refuse(fmt::format("more than {} levels of [ and {{", kMostLevels));
        }
        open_.push_back(JsonNode{std::move(container)});
        return true;
    }
    bool close() {
        JsonNode node = std::move(open_.back());
        open_.pop_back();
        return add(std::move(node));
    }
    bool add(JsonNode node) {
        if (++values_ > kMostValues) refuse(fmt::format("more than {} values", kMostValues));
        if (open_.empty()) {
            root_ = std::move(node);
        } else if (auto* array = std::get_if<JsonNode::Array>(&open_.back().value)) {
            array->push_back(std::move(node));
        } else {
            std::get<JsonNode::Object>(open_.back().value).back().second = std::move(node);
        }
        return true;
    }

    const std::string& file_;
    std::size_t values_ = 0;
    JsonNode root_;
    std::vector<JsonNode> open_;
};

/// A value as messages show it: scalars as written, containers by their first characters.
std::string shown(const JsonNode& node);

struct Shower {
    std::string operator()(std::nullptr_t) const { return "null"; }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(std::int64_t value) const { return fmt::to_string(value); }
    std::string operator()(double value) const { return json_number(value); }
    std::string operator()(const std::string& value) const {
        return json_quoted(std::string_view(value).substr(0, kMostGotCharacters));
    }
    std::string operator()(const JsonNode::Array& array) const {
        std::string text = "[";
        for (const JsonNode& item : array) {
            if (text.size() > 1) text += ", ";
            text += shown(item);
            if (text.size() > kMostGotCharacters) break;
        }
        return text + "]";
    }
    std::string operator()(const JsonNode::Object& object) const {
        std::string text = "{";
        for (const auto& [name, value] : object) {
            if (text.size() > 1) text += ", ";
            text += json_quoted(name) + ": " + shown(value);
            if (text.size() > kMostGotCharacters) break;
        }
        return text + "}";
    }
};

std::string shown(const JsonNode& node) {
    std::string text = std::visit(Shower{}, node.value);
    if (text.size() > kMostGotCharacters) {
        std::size_t end = kMostGotCharacters;
        while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
        text = text.substr(0, end) + "...";
    }
    return text;
}

}  // namespace

bool JsonField::is_null() const {
    return present() && std::holds_alternative<std::nullptr_t>(node_->value);
}

bool JsonField::is_text() const {
    return present() && std::holds_alternative<std::string>(node_->value);
}

bool JsonField::is_number() const {
    return present() && (std::holds_alternative<std::int64_t>(node_->value) ||
                         std::holds_alternative<double>(node_->value));
}

bool JsonField::is_object() const {
    return present() && std::holds_alternative<JsonNode::Object>(node_->value);
}

JsonField JsonField::operator[](std::string_view key) const {
    if (!is_object()) fail({"an object {...}"});
    const auto& members = std::get<JsonNode::Object>(node_->value);
    const auto found =
        std::ranges::lower_bound(members, key, {}, &JsonNode::Object::value_type::first);
    const bool there = found != members.end() && found->first == key;
    std::string place = place_.empty() ? std::string(key) : fmt::format("{}.{}", place_, key);
    return {there ? &found->second : nullptr, std::move(place), file_};
}

std::vector<std::string> JsonField::keys() const {
    if (!is_object()) fail({"an object {...}"});
    std::vector<std::string> names;
    for (const auto& [name, value] : std::get<JsonNode::Object>(node_->value)) {
        names.push_back(name);
    }
    return names;
}

void JsonField::allow_only(std::initializer_list<std::string_view> known,
                           std::span<const std::string_view> more) const {
    std::vector<std::string_view> all(known);
    all.insert(all.end(), more.begin(), more.end());
    for (const std::string& name : keys()) {
        if (std::ranges::find(all, name) != all.end()) continue;
        (*this)[name].reject(fmt::format("unknown field. Known here: {}.", fmt::join(all, ", ")));
    }
}

std::vector<JsonField> JsonField::items() const {
    if (!present() || !std::holds_alternative<JsonNode::Array>(node_->value)) {
        fail({"an array [...]"});
    }
    std::vector<JsonField> fields;
    const auto& array = std::get<JsonNode::Array>(node_->value);
    fields.reserve(array.size());
    for (std::size_t i = 0; i < array.size(); ++i) {
        fields.push_back({&array[i], fmt::format("{}[{}]", place_, i), file_});
    }
    return fields;
}

std::int64_t JsonField::integer(std::int64_t least, std::int64_t most,
                                const JsonExpectation& expected) const {
    if (!is_number()) fail(expected);
    std::int64_t value = 0;
    if (const auto* whole = std::get_if<std::int64_t>(&node_->value)) {
        value = *whole;
    } else {
        const double real = std::get<double>(node_->value);
        if (real != std::trunc(real) || !(std::abs(real) < 0x1p63)) fail(expected);
        value = static_cast<std::int64_t>(real);
    }
    if (value < least || value > most) fail(expected);
    return value;
}

double JsonField::number(double least, double most, const JsonExpectation& expected) const {
    if (!is_number()) fail(expected);
    const auto* whole = std::get_if<std::int64_t>(&node_->value);
    const double value =
        whole != nullptr ? static_cast<double>(*whole) : std::get<double>(node_->value);
    if (value < least || value > most) fail(expected);
    return value;
}

std::string JsonField::text(const JsonExpectation& expected, std::size_t most_characters) const {
    if (!is_text()) fail(expected);
    const auto& value = std::get<std::string>(node_->value);
    if (value.size() > most_characters) {
        reject(
            fmt::format("a text of {} characters. Use at most {}.", value.size(), most_characters));
    }
    return value;
}

bool JsonField::boolean() const {
    if (!present() || !std::holds_alternative<bool>(node_->value)) fail({"true or false"});
    return std::get<bool>(node_->value);
}

JsonField JsonField::called(std::string_view note) const {
    return {node_, fmt::format("{} {}", place_, note), file_};
}

void JsonField::fail(const JsonExpectation& expected) const {
    reject(fmt::format("expected {}, got {}. {}", expected.what,
                       present() ? shown(*node_) : "nothing",
                       !expected.remedy.empty() ? expected.remedy
                       : present()              ? "Correct it."
                                                : "Add it."));
}

void JsonField::reject(std::string_view message) const {
    throw InputError(place_.empty() ? fmt::format("{}: {}", *file_, message)
                                    : fmt::format("{}: {}: {}", *file_, place_, message));
}

JsonFile::JsonFile(std::string_view text, std::string name) : name_(std::move(name)) {
    Builder builder(name_);
    nlohmann::json::sax_parse(text, &builder);
    root_ = std::make_unique<const JsonNode>(builder.take());
}

JsonFile::~JsonFile() = default;

JsonField JsonFile::root() const {
    return {root_.get(), "", &name_};
}

std::string json_quoted(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_number(double value) {
    return fmt::format("{}", value);
}

}  // namespace partita
