// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernels/expected.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"

namespace partita::runtime {

namespace {

std::vector<std::string_view> cut_at(std::string_view text, char separator) {
    std::vector<std::string_view> pieces;
    while (true) {
        const std::size_t at = text.find(separator);
        std::string_view piece = text.substr(0, at);
        while (piece.starts_with(' ')) piece.remove_prefix(1);
        pieces.push_back(piece);
        if (at == std::string_view::npos) return pieces;
        text.remove_prefix(at + 1);
    }
}

/// Extents by name, those of the operands before.
class Extents {
public:
    bool holds(std::string_view name, std::int64_t extent) {
        std::int64_t number = 0;
        const auto read = std::from_chars(name.data(), name.data() + name.size(), number);
        if (read.ec == std::errc()) return number == extent;
        return known_.emplace(name, extent).first->second == extent;
    }

private:
    std::map<std::string_view, std::int64_t> known_;
};

bool has_extents(const at::Tensor& tensor, std::string_view expected, Extents& extents) {
    std::vector<std::string_view> names = cut_at(expected, ' ');
    const bool open = names.back() == "...";
    if (open) names.pop_back();
    const auto rank = static_cast<std::size_t>(tensor.dim());
    if (open ? rank < names.size() : rank != names.size()) return false;
    for (std::size_t d = 0; d < names.size(); ++d) {
        if (!extents.holds(names[d], tensor.size(static_cast<std::int64_t>(d)))) return false;
    }
    return true;
}

bool is_as_expected(const at::Tensor& tensor, std::string_view expected, Extents& extents) {
    if (expected.empty() || expected == "list") return true;
    if (expected == "one") return tensor.numel() == 1;
    if (expected.starts_with('#')) return extents.holds(expected.substr(1), tensor.numel());
    return has_extents(tensor, expected, extents);
}

std::string words_of(std::string_view expected) {
    if (expected == "one") return "one element";
    if (expected.starts_with('#')) {
        return std::string(expected.substr(1)) + " elements, as many as the operands before say";
    }
    return "extents [" + std::string(expected) + "]";
}

thread_local std::optional<std::chrono::steady_clock::time_point> t_until;

/// "[2 3]"
std::string text_of(at::IntArrayRef extents) {
    std::string text;
    for (const std::int64_t extent : extents) text += " " + std::to_string(extent);
    return "[" + (text.empty() ? text : text.substr(1)) + "]";
}

}  // namespace

void check_result(std::size_t index, const graph::Shape& declared, std::uint64_t upper_bounds,
                  const at::Tensor& result) {
    bool fits = result.dim() == std::ssize(declared);
    for (std::size_t d = 0; fits && d < declared.size(); ++d) {
        const bool is_bound = d < 64 && (upper_bounds >> d & 1U) != 0;
        const std::int64_t extent = result.size(static_cast<std::int64_t>(d));
        fits = is_bound ? extent <= declared[d] : extent == declared[d];
    }
    if (fits) return;
    expect(false, "result " + std::to_string(index) + ": expected extents " + text_of(declared) +
                      ", as declared, got " + text_of(result.sizes()));
}

void check_operands(const KernelRow& row, const KernelCall& call) {
    if (row.expects.empty()) return;
    Extents extents;
    const std::vector<std::string_view> expected = cut_at(row.expects, ',');
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const at::Tensor& tensor = call.operand(i);
        if (!tensor.defined() || is_as_expected(tensor, expected[i], extents)) continue;
        expect(false, "operand " + std::to_string(i) + ": expected " + words_of(expected[i]) +
                          ", got " + text_of(tensor.sizes()));
    }
}

void expect(bool holds, std::string_view what) {
    if (!holds) throw InputError(std::string(what) + ". Correct the model or its inputs.");
}

TimeLimit::TimeLimit(std::chrono::milliseconds time) : is_outermost_(!t_until) {
    if (is_outermost_) t_until = std::chrono::steady_clock::now() + time;
}

TimeLimit::~TimeLimit() {
    if (is_outermost_) t_until.reset();
}

void check_time() {
    if (!t_until || std::chrono::steady_clock::now() < *t_until) return;
    throw std::runtime_error("took longer than a task may. Give it more time with --timeout.");
}

}  // namespace partita::runtime
