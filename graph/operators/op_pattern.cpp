// SPDX-License-Identifier: Apache-2.0
//
// Rules from the letters of a row. The text of each row is read once, when the table is first used.
#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "graph/operators/op_rules.h"
#include "graph/stated_rule.h"

namespace partita::graph {

namespace {

struct TensorPattern {
    std::vector<int> before;  ///< letters left of the ellipsis, kFixed for `.`
    std::vector<int> after;   ///< and right of it
    enum class Ellipsis : std::uint8_t { none, factors, fixed } ellipsis = Ellipsis::none;
};
constexpr int kFixed = -1;

struct RowPattern {
    std::vector<std::string> letters;
    std::vector<bool> whole;  ///< per letter
    bool whole_ellipsis = false;
    std::vector<TensorPattern> operands;
    std::vector<TensorPattern> results;
};

std::vector<std::string_view> split_text(std::string_view text, std::string_view separator) {
    std::vector<std::string_view> parts;
    while (true) {
        const std::size_t at = text.find(separator);
        parts.push_back(text.substr(0, at));
        if (at == std::string_view::npos) return parts;
        text.remove_prefix(at + separator.size());
    }
}

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> words;
    for (const std::string_view word : split_text(text, " ")) {
        if (!word.empty()) words.push_back(word);
    }
    return words;
}

int letter_index(std::vector<std::string>& letters, std::string_view letter) {
    const auto it = std::find(letters.begin(), letters.end(), letter);
    if (it != letters.end()) return static_cast<int>(it - letters.begin());
    letters.emplace_back(letter);
    return static_cast<int>(letters.size()) - 1;
}

TensorPattern parse_tensor(std::string_view text, std::vector<std::string>& letters) {
    using Ellipsis = TensorPattern::Ellipsis;
    TensorPattern pattern;
    for (const std::string_view word : words_of(text)) {
        if (word == "..." || word == "..") {
            if (pattern.ellipsis != Ellipsis::none) throw std::logic_error("two ellipses");
            pattern.ellipsis = word == "..." ? Ellipsis::factors : Ellipsis::fixed;
            continue;
        }
        auto& side = pattern.ellipsis == Ellipsis::none ? pattern.before : pattern.after;
        if (word == ".") {
            side.push_back(kFixed);
        } else if (word.find_first_not_of("abcdefghijklmnopqrstuvwxyz") == word.npos) {
            side.push_back(letter_index(letters, word));
        } else {
            throw std::logic_error(fmt::format("'{}' is no letter", word));
        }
    }
    return pattern;
}

/// Nothing for no text at all: "-> ..." has no operands.
std::vector<TensorPattern> parse_tensors(std::string_view text, std::vector<std::string>& letters) {
    std::vector<TensorPattern> patterns;
    if (words_of(text).empty()) return patterns;
    for (const std::string_view tensor : split_text(text, ",")) {
        patterns.push_back(parse_tensor(tensor, letters));
    }
    return patterns;
}

RowPattern parse_row(const OpRow& row) {
    const std::vector<std::string_view> sides = split_text(row.factors, "->");
    if (sides.size() != 2) throw std::logic_error("expected one '->'");
    RowPattern pattern;
    pattern.operands = parse_tensors(sides[0], pattern.letters);
    pattern.results = parse_tensors(sides[1], pattern.letters);
    pattern.whole.resize(pattern.letters.size(), false);
    for (const std::string_view word : words_of(row.whole)) {
        if (word == "...") {
            pattern.whole_ellipsis = true;
            continue;
        }
        const auto it = std::find(pattern.letters.begin(), pattern.letters.end(), word);
        if (it == pattern.letters.end()) throw std::logic_error("whole: an unknown letter");
        pattern.whole[static_cast<std::size_t>(it - pattern.letters.begin())] = true;
    }
    return pattern;
}

const RowPattern& pattern_of(const OpRow& row) {
    static const std::vector<RowPattern> kPatterns = [] {
        std::vector<RowPattern> patterns;
        for (const OpRow& each : op_table()) {
            patterns.push_back(each.factors.empty() ? RowPattern{} : parse_row(each));
        }
        return patterns;
    }();
    return kPatterns.at(static_cast<std::size_t>(&row - op_table().data()));
}

/// The extent of two dims under one letter: 1 broadcasts.
std::int64_t joined_extent(std::int64_t a, std::int64_t b) {
    return a == 1 ? b : a;
}

/// What letters and an ellipsis stand for in all tensors together.
struct Extents {
    explicit Extents(std::size_t count) : letters(count, 1), seen(count, 0) {}

    /// The tensor has as many dims as letters at least; `under_ellipsis`: the others.
    void join(const TensorPattern& tensor, const Shape& shape, std::size_t under_ellipsis) {
        const auto read = [&](int letter, std::int64_t extent) {
            if (letter == kFixed) return;
            auto& known = letters[static_cast<std::size_t>(letter)];
            known = joined_extent(known, extent);
            seen[static_cast<std::size_t>(letter)] = 1;
        };
        const std::size_t first = tensor.before.size();
        for (std::size_t i = 0; i < first; ++i) read(tensor.before[i], shape[i]);
        for (std::size_t i = 0; i < tensor.after.size(); ++i)
            read(tensor.after[i], shape[first + under_ellipsis + i]);
        if (tensor.ellipsis != TensorPattern::Ellipsis::factors) return;
        if (ellipsis.size() < under_ellipsis)
            ellipsis.insert(ellipsis.begin(), under_ellipsis - ellipsis.size(), 1);
        const std::size_t shift = ellipsis.size() - under_ellipsis;
        for (std::size_t i = 0; i < under_ellipsis; ++i) {
            auto& known = ellipsis[shift + i];
            known = joined_extent(known, shape[first + i]);
        }
    }

    std::vector<std::int64_t> letters;
    std::vector<char> seen;              ///< per letter
    std::vector<std::int64_t> ellipsis;  ///< aligned from the right
};

/// One op read against its row.
class PatternReader {
public:
    PatternReader(RuleBuilder& builder, const RowPattern& pattern)
        : builder_(builder), pattern_(pattern), extents_(pattern.letters.size()) {}

    void run() {
        for_each_tensor(
            [this](bool is_result, int i, const TensorPattern& tensor, const Shape& shape) {
                extents_.join(tensor, shape, ellipsis_size(is_result, i, tensor, shape));
            });
        for (std::size_t i = 0; i < extents_.ellipsis.size(); ++i) {
            builder_.add(numbered('d', i), extents_.ellipsis[i], !pattern_.whole_ellipsis);
        }
        for (std::size_t i = 0; i < extents_.letters.size(); ++i) {
            builder_.add(pattern_.letters[i], extents_.letters[i], !pattern_.whole[i]);
        }
        for_each_tensor([this](bool is_result, int i, const TensorPattern& tensor,
                               const Shape& shape) { assign(is_result, i, tensor, shape); });
    }

private:
    template <class Use>
    void for_each_tensor(Use use) {
        for (int i = 0; i < builder_.operand_count() && !pattern_.operands.empty(); ++i) {
            if (!builder_.has_operand(i)) continue;
            use(false, i, at_or_last(pattern_.operands, i), builder_.shape(i));
        }
        for (int i = 0; i < builder_.result_count() && !pattern_.results.empty(); ++i) {
            if (!builder_.has_result(i)) continue;
            use(true, i, at_or_last(pattern_.results, i), builder_.result_shape(i));
        }
    }

    static const TensorPattern& at_or_last(const std::vector<TensorPattern>& list, int i) {
        return list[std::min(static_cast<std::size_t>(i), list.size() - 1)];
    }

    /// Dims under the ellipsis; complains when the tensor has fewer dims than letters.
    std::size_t ellipsis_size(bool is_result, int i, const TensorPattern& tensor,
                              const Shape& shape) const {
        const std::size_t letters = tensor.before.size() + tensor.after.size();
        const bool has_ellipsis = tensor.ellipsis != TensorPattern::Ellipsis::none;
        if (shape.size() < letters || (!has_ellipsis && shape.size() > letters)) {
            builder_.fail(fmt::format("{} {}: expected {}{} dims, got shape [{}]",
                                      is_result ? "result" : "operand", i, letters,
                                      has_ellipsis ? " or more" : "", fmt::join(shape, " ")));
        }
        return shape.size() - letters;
    }

    void assign(bool is_result, int tensor_index, const TensorPattern& tensor, const Shape& shape) {
        const std::size_t size = ellipsis_size(is_result, tensor_index, tensor, shape);
        const auto set = [&](std::size_t dim, int factor) {
            if (is_result) {
                builder_.result(tensor_index, static_cast<int>(dim), {factor});
            } else {
                builder_.operand(tensor_index, static_cast<int>(dim), {factor});
            }
        };
        const int first_letter = static_cast<int>(extents_.ellipsis.size());
        for (std::size_t i = 0; i < tensor.before.size(); ++i) {
            if (tensor.before[i] != kFixed) set(i, first_letter + tensor.before[i]);
        }
        for (std::size_t i = 0; i < tensor.after.size(); ++i) {
            if (tensor.after[i] == kFixed) continue;
            set(tensor.before.size() + size + i, first_letter + tensor.after[i]);
        }
        if (tensor.ellipsis != TensorPattern::Ellipsis::factors) return;
        const std::size_t shift = extents_.ellipsis.size() - size;
        for (std::size_t i = 0; i < size; ++i) {
            set(tensor.before.size() + i, static_cast<int>(shift + i));
        }
    }

    RuleBuilder& builder_;
    const RowPattern& pattern_;
    Extents extents_;
};

}  // namespace

OpRule pattern_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder builder(graph, op, row);
    PatternReader(builder, pattern_of(row)).run();
    return builder.finish();
}

namespace {

std::string_view text_of(const Attributes& attributes, std::string_view name,
                         std::string_view usual) {
    const AttributeValue* const value = attributes.find(name);
    const auto* const text = value == nullptr ? nullptr : std::get_if<std::string>(value);
    return text == nullptr ? usual : std::string_view(*text);
}

/// "0 y1", "all": numbers of tensors that there are.
bool names_tensors(std::string_view words, int operands, int results) {
    if (words == "all") return true;
    return std::ranges::all_of(words_of(words), [&](std::string_view word) {
        const bool is_result = word.starts_with('y');
        if (is_result) word.remove_prefix(1);
        int number = -1;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
        return error == std::errc{} && end == word.data() + word.size() && number >= 0 &&
               number < (is_result ? results : operands);
    });
}

std::optional<Combine> combine_from(std::string_view name) {
    for (const Combine combine :
         {Combine::none, Combine::sum, Combine::max, Combine::min, Combine::product}) {
        if (name_of(combine) == name) return combine;
    }
    return std::nullopt;
}

/// As names go, of many tensors of many dims; more is an attack on who reads it.
constexpr std::size_t kLongestRule = 8'192;

RowPattern parse_stated(const OpRow& row) {
    if (row.factors.size() > kLongestRule) {
        throw std::logic_error(fmt::format("more than {} characters", kLongestRule));
    }
    return parse_row(row);
}

}  // namespace

bool states_rule(const Attributes& attributes) {
    return !text_of(attributes, kStatedRule, "").empty();
}

OpRule stated_rule(const OpGraph& graph, const Op& op) {
    OpRow row{.type = op.type,
              .factors = text_of(op.attributes, kStatedRule, ""),
              .linear = text_of(op.attributes, "partita_linear", ""),
              .whole = text_of(op.attributes, "partita_whole", ""),
              .saves = text_of(op.attributes, "partita_saves", "all")};
    RuleBuilder builder(graph, op, row);
    const auto check = [&](std::string_view attribute, std::string_view words) {
        if (names_tensors(words, builder.operand_count(), builder.result_count())) return;
        builder.fail(
            fmt::format("attribute '{}': expected numbers of operands (y0, y1, ... of "
                        "results) or \"all\", got \"{}\"",
                        attribute, words));
    };
    check("partita_linear", row.linear);
    check("partita_saves", row.saves);
    const std::string_view combine = text_of(op.attributes, "partita_combine", "sum");
    if (!combine_from(combine)) {
        builder.fail(
            fmt::format("attribute 'partita_combine': expected sum, max, min, product or "
                        "none, got \"{}\"",
                        combine));
    }
    row.combine = *combine_from(combine);
    RowPattern pattern;
    try {
        pattern = parse_stated(row);
    } catch (const std::logic_error& error) {
        builder.fail(
            fmt::format("attribute '{}': {}; expected names of dims in lower case, such as "
                        "\"b m k, k n -> b m n\", got \"{}\"",
                        kStatedRule, error.what(), row.factors.substr(0, 200)));
    }
    const auto expect = [&](std::string_view what, std::size_t said, int there) {
        if (said == static_cast<std::size_t>(there)) return;
        builder.fail(fmt::format("attribute '{}': expected {} {}, got {} in \"{}\"", kStatedRule,
                                 there, what, said, row.factors));
    };
    expect("operands", pattern.operands.size(), builder.operand_count());
    expect("results", pattern.results.size(), builder.result_count());
    PatternReader(builder, pattern).run();
    OpRule rule = builder.finish();
    const bool sums = std::ranges::any_of(rule.factors, &Factor::reduction);
    rule.matrix_product = op.inputs.size() >= 2 && sums && row.combine == Combine::sum;
    const std::int64_t per_point =
        op.attributes.get_int("partita_flops_per_point", rule.matrix_product ? 2 : 1);
    if (per_point < 0) {
        builder.fail(fmt::format("attribute 'partita_flops_per_point': expected at least 0, got {}",
                                 per_point));
    }
    rule.flops = per_point * rule.flops;
    return rule;
}

std::optional<std::vector<Shape>> stated_shapes(const Attributes& attributes,
                                                std::span<const Shape> operands,
                                                std::size_t results) {
    const OpRow row{.type = "", .factors = text_of(attributes, kStatedRule, "")};
    RowPattern pattern;
    try {
        pattern = parse_stated(row);
    } catch (const std::logic_error&) {
        return std::nullopt;
    }
    if (pattern.operands.size() != operands.size() || pattern.results.size() != results)
        return std::nullopt;
    Extents extents(pattern.letters.size());
    for (std::size_t i = 0; i < operands.size(); ++i) {
        const TensorPattern& tensor = pattern.operands[i];
        const std::size_t letters = tensor.before.size() + tensor.after.size();
        if (operands[i].size() < letters) return std::nullopt;
        extents.join(tensor, operands[i], operands[i].size() - letters);
    }
    std::vector<Shape> shapes;
    for (const TensorPattern& tensor : pattern.results) {
        Shape& shape = shapes.emplace_back();
        const auto add = [&](int letter) {
            const auto at = static_cast<std::size_t>(letter);
            const bool open = letter == kFixed || extents.seen[at] == 0;
            shape.push_back(open ? -1 : extents.letters[at]);
        };
        std::ranges::for_each(tensor.before, add);
        if (tensor.ellipsis == TensorPattern::Ellipsis::fixed) return std::nullopt;
        if (tensor.ellipsis == TensorPattern::Ellipsis::factors)
            shape.insert(shape.end(), extents.ellipsis.begin(), extents.ellipsis.end());
        std::ranges::for_each(tensor.after, add);
        const bool open =
            std::ranges::any_of(shape, [](std::int64_t extent) { return extent < 0; });
        if (open) return std::nullopt;
    }
    return shapes;
}

void check_row(const OpRow& row) {
    if (row.factors.empty() == (row.make == nullptr)) {
        throw std::logic_error("a row has letters or a function");
    }
    if (!row.factors.empty()) parse_row(row);
}

}  // namespace partita::graph
