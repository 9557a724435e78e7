// SPDX-License-Identifier: Apache-2.0
#include "cost/traces/work_text.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace partita::cost {

namespace {

std::optional<std::int64_t> integer_of(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// Up to `end`, which goes too; all where there is none.
std::string_view take(std::string_view& text, std::string_view end) {
    const std::size_t at = text.find(end);
    const std::string_view taken = text.substr(0, at);
    text.remove_prefix(at == std::string_view::npos ? text.size() : at + end.size());
    return taken;
}

/// Where `wanted` stands outside of quotes.
std::size_t find_unquoted(std::string_view text, std::string_view wanted) {
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (quoted && text[i] == '\\') {
            ++i;
        } else if (text[i] == '"') {
            quoted = !quoted;
        } else if (!quoted && text.substr(i).starts_with(wanted)) {
            return i;
        }
    }
    return std::string_view::npos;
}

/// "float32[8,64]=1,2", up to the comma or bracket behind it; false: no tensor.
bool take_tensor(std::string_view& text, std::optional<WorkText::Tensor>& tensor) {
    if (text.starts_with('-')) {
        text.remove_prefix(1);
        return true;
    }
    const std::size_t open = text.find('[');
    const std::size_t close = text.find(']');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
        return false;
    }
    const auto dtype = graph::dtype_from_name(text.substr(0, open));
    if (!dtype) return false;
    tensor = {*dtype, {}};
    std::string_view dims = text.substr(open + 1, close - open - 1);
    while (!dims.empty()) {
        const auto extent = integer_of(take(dims, ","));
        if (!extent) return false;
        tensor->shape.push_back(*extent);
    }
    text.remove_prefix(close + 1);
    // Known values, "cropped", "weighted".
    const std::size_t next = std::min(text.find(", "), text.find(')'));
    if (next == std::string_view::npos) return false;
    text.remove_prefix(next);
    return true;
}

bool take_tensors(std::string_view& text, std::vector<std::optional<WorkText::Tensor>>& tensors) {
    while (!text.starts_with(')')) {
        if (!take_tensor(text, tensors.emplace_back())) return false;
        if (text.starts_with(", ")) text.remove_prefix(2);
        if (text.empty()) return false;
    }
    text.remove_prefix(1);
    return true;
}

std::optional<Phase> phase_of(std::string_view name) {
    for (const Phase phase :
         {Phase::forward, Phase::backward, Phase::accumulate, Phase::pack, Phase::update}) {
        if (name_of(phase) == name) return phase;
    }
    return std::nullopt;
}

/// "adam float32 4096": the last two count.
std::optional<WorkText> elements_of(WorkText work, std::string_view rest) {
    const std::size_t last = rest.rfind(' ');
    if (last == std::string_view::npos) return std::nullopt;
    const auto elements = integer_of(rest.substr(last + 1));
    rest = rest.substr(0, last);
    const auto dtype = graph::dtype_from_name(rest.substr(rest.rfind(' ') + 1));
    if (!elements || !dtype) return std::nullopt;
    work.elements = *elements;
    work.dtype = *dtype;
    return work;
}

}  // namespace

std::optional<WorkText> parse_work_text(std::string_view text) {
    WorkText work;
    const auto phase = phase_of(take(text, " "));
    if (!phase) return std::nullopt;
    work.phase = *phase;
    if (*phase != Phase::forward && *phase != Phase::backward) return elements_of(work, text);
    if (text.starts_with('0') || text.starts_with('1')) work.wanted = take(text, " ");
    const std::size_t open = find_unquoted(text, " (");
    if (open == std::string_view::npos) return std::nullopt;
    std::string_view head = text.substr(0, open);
    text.remove_prefix(open + 2);
    if (head.starts_with('"')) take(head, ":");  // the domain
    work.type = take(head, ".");
    take(head, " ");  // the opset
    work.attributes = head;
    if (!take_tensors(text, work.operands)) return std::nullopt;
    constexpr std::string_view kArrow = " -> (";
    if (!text.starts_with(kArrow)) return std::nullopt;
    text.remove_prefix(kArrow.size());
    if (!take_tensors(text, work.results)) return std::nullopt;
    return work;
}

std::optional<std::int64_t> WorkText::integer(std::string_view attribute) const {
    const std::string start = std::string(attribute) + '=';
    std::string_view rest = attributes;
    while (!rest.empty()) {
        const std::string_view piece = take(rest, " ");
        if (piece.starts_with(start)) return integer_of(piece.substr(start.size()));
    }
    return std::nullopt;
}

}  // namespace partita::cost
