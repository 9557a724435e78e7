// SPDX-License-Identifier: Apache-2.0
#include "search/core/parallel_config.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "plan/strategy/pipeline_schedule.h"

namespace partita::search {

namespace {

struct DegreeRow {
    std::string_view name;
    std::optional<int> ParallelConfig::*field;
    int least;
    int most;
};

constexpr int kMostDegree = std::numeric_limits<int>::max();

constexpr DegreeRow kDegrees[] = {{"dp", &ParallelConfig::data, 1, kMostDegree},
                                  {"tp", &ParallelConfig::tensor, 1, kMostDegree},
                                  {"pp", &ParallelConfig::pipeline, 1, kMostDegree},
                                  {"cp", &ParallelConfig::context, 1, kMostDegree},
                                  {"ep", &ParallelConfig::experts, 1, kMostDegree},
                                  {"vpp", &ParallelConfig::chunks, 1, plan::kMostChunks},
                                  {"zero", &ParallelConfig::zero, 0, 3}};

struct DimRow {
    std::string_view name;
    GridDim dim;
};

constexpr DimRow kDims[] = {{"tp", GridDim::tensor},
                            {"cp", GridDim::context},
                            {"dp", GridDim::data},
                            {"pp", GridDim::pipeline}};

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(separator, begin), text.size());
        parts.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

/// Reads one configuration; messages begin with the option and its text.
class Parser {
public:
    Parser(std::string_view text, std::string_view option) : text_(text), option_(option) {}

    ParallelConfig run() {
        for (const std::string_view part : split(text_, ',')) {
            const std::size_t equals = part.find('=');
            const std::string_view key = part.substr(0, equals);
            const bool bare = equals == std::string_view::npos;
            read(key, bare ? std::nullopt : std::optional(part.substr(equals + 1)));
        }
        check_layers();
        check_experts();
        check_context();
        check_reduce();
        return config_;
    }

private:
    [[noreturn]] void fail(const std::string& why) const {
        throw UsageError(fmt::format("{} {}: {}", option_, text_, why));
    }

    void read(std::string_view key, std::optional<std::string_view> value) {
        for (const std::string_view known : keys_) {
            if (known == key) fail(fmt::format("'{}' is said twice.", key));
        }
        keys_.push_back(key);
        if (key == "sp") {
            config_.sequence = value ? number(key, *value, 0, 1) == 1 : true;
            return;
        }
        if (key == "cp-by") {
            if (value != "heads" && value != "queries") {
                fail(fmt::format("cp-by={}: expected heads or queries.", value.value_or("")));
            }
            config_.context_by_heads = value == "heads";
            return;
        }
        if (key == "reduce") {
            if (value != "each" && value != "last") {
                fail(fmt::format("reduce={}: expected each or last.", value.value_or("")));
            }
            config_.reduce_each = value == "each";
            return;
        }
        if (key == "layers") {
            config_.layers = layers(value.value_or(""));
            return;
        }
        if (key == "order") {
            config_.order = order(value.value_or(""));
            return;
        }
        for (const DegreeRow& row : kDegrees) {
            if (row.name != key) continue;
            config_.*row.field = number(key, value.value_or(""), row.least, row.most);
            return;
        }
        fail(
            fmt::format("'{}' is unknown. There is: dp, tp, pp, cp, ep, vpp, zero, sp, cp-by, "
                        "reduce, layers, order, as in dp=2,tp=4,pp=2,zero=1,sp.",
                        key));
    }

    [[nodiscard]] int number(std::string_view key, std::string_view value, int least,
                             int most) const {
        int number = 0;
        const auto [end, error] =
            std::from_chars(value.data(), value.data() + value.size(), number);
        const bool whole = error == std::errc() && end == value.data() + value.size();
        if (whole && number >= least && number <= most) return number;
        std::string expected = most == kMostDegree
                                   ? fmt::format("a number from {} on", least)
                                   : fmt::format("a number from {} to {}", least, most);
        if (key == "layers") expected += " for each stage, as in 4-8-8-4, or even, or work";
        fail(fmt::format("{}={}: expected {}.", key, value, expected));
    }

    [[nodiscard]] LayerCut layers(std::string_view value) const {
        if (value == "work") return {.by_work = true, .counts = {}};
        LayerCut cut;
        if (value == "even") return cut;
        for (const std::string_view count : split(value, '-')) {
            cut.counts.push_back(number("layers", count, 0, kMostDegree));
        }
        return cut;
    }

    /// Chunks that are not said may be any number.
    void check_layers() const {
        const bool any = config_.layers && !config_.layers->counts.empty();
        if (!any || !config_.pipeline) return;
        const std::int64_t given = std::ssize(config_.layers->counts);
        const std::int64_t chunks = std::int64_t{*config_.pipeline} * config_.chunks.value_or(1);
        if (config_.chunks ? given == chunks : given % chunks == 0) return;
        fail(
            fmt::format("layers need a number for each chunk of each stage (pp times vpp), and "
                        "{} given for {}. Give one for each, or layers=even.",
                        given == 1 ? "1 is" : fmt::format("{} are", given), chunks));
    }

    void check_experts() const {
        const int experts = config_.experts.value_or(1);
        if (!config_.data || *config_.data % experts == 0) return;
        fail(
            fmt::format("dp={} is no multiple of ep={}: experts lie in parts on devices that share "
                        "the batch.",
                        *config_.data, experts));
    }

    void check_context() const {
        if (!config_.context_by_heads || config_.context.value_or(1) > 1) return;
        fail("cp-by says how cp devices share attention. Say cp=2 or more, or leave it out.");
    }

    void check_reduce() const {
        const int level = config_.zero.value_or(0);
        if (!config_.reduce_each || (level != 1 && level != 2)) return;
        const bool each = *config_.reduce_each;
        if (each == (level == 2)) return;
        fail(fmt::format("zero={} reduces gradients {}. Say zero={}.", level,
                         each ? "once, behind the last micro-batch" : "in each micro-batch",
                         each ? 2 : 1));
    }

    /// Where cp is not among them it comes behind tp; ep is the inner part of dp.
    [[nodiscard]] GridOrder order(std::string_view value) const {
        std::vector<GridDim> dims;
        auto names = split(value, '-');
        const auto experts = std::ranges::adjacent_find(
            names, [](std::string_view a, std::string_view b) { return a == "ep" && b == "dp"; });
        if (experts != names.end()) names.erase(experts);
        for (const std::string_view name : names) {
            for (const DimRow& row : kDims) {
                const bool again = std::ranges::find(dims, row.dim) != dims.end();
                if (row.name == name && !again) dims.push_back(row.dim);
            }
        }
        const std::size_t found = dims.size();
        if (std::ranges::find(dims, GridDim::context) == dims.end()) {
            const auto tensor = std::ranges::find(dims, GridDim::tensor);
            dims.insert(tensor == dims.end() ? tensor : tensor + 1, GridDim::context);
        }
        GridOrder order{};
        if (found != names.size() || dims.size() != order.size()) {
            fail(
                fmt::format("order={}: expected tp, dp and pp, each once, innermost first, as in "
                            "tp-dp-pp; cp too, and ep right before dp, if there are any.",
                            value));
        }
        std::ranges::copy(dims, order.begin());
        return order;
    }

    std::string_view text_;
    std::string_view option_;
    std::vector<std::string_view> keys_;
    ParallelConfig config_;
};

}  // namespace

ParallelConfig parse_parallel_config(std::string_view text, std::string_view option) {
    return Parser(text, option).run();
}

ParallelConfig completed(const ParallelConfig& said, const ParallelConfig& usual) {
    ParallelConfig all = said;
    for (const DegreeRow& row : kDegrees) {
        if (!(all.*row.field)) all.*row.field = usual.*row.field;
    }
    if (!all.sequence) all.sequence = usual.sequence;
    if (!all.context_by_heads) all.context_by_heads = usual.context_by_heads;
    if (!all.reduce_each) all.reduce_each = usual.reduce_each;
    // Who says when to reduce says which of these two levels it is.
    const bool is_either = all.zero == 1 || all.zero == 2;
    if (!said.zero && said.reduce_each && is_either) all.zero = *said.reduce_each ? 2 : 1;
    if (!all.layers) all.layers = usual.layers;
    if (!all.order) all.order = usual.order;
    return all;
}

namespace {

std::string text_of(const LayerCut& cut) {
    if (cut.by_work) return "work";
    return cut.counts.empty() ? "even" : fmt::format("{}", fmt::join(cut.counts, "-"));
}

}  // namespace

std::string ParallelConfig::text() const {
    std::string all;
    const auto add = [&](const std::string& part) { all += (all.empty() ? "" : ",") + part; };
    for (const DegreeRow& row : kDegrees) {
        if (const auto& value = this->*row.field) add(fmt::format("{}={}", row.name, *value));
    }
    if (sequence) add(*sequence ? "sp" : "sp=0");
    if (context_by_heads) add(*context_by_heads ? "cp-by=heads" : "cp-by=queries");
    if (reduce_each) add(*reduce_each ? "reduce=each" : "reduce=last");
    if (layers) add("layers=" + text_of(*layers));
    if (order) {
        std::string names;
        for (std::size_t i = 0; i < order->size(); ++i) {
            const GridDim dim = (*order)[i];
            const bool usual =
                dim == GridDim::context && i > 0 && (*order)[i - 1] == GridDim::tensor;
            if (usual) continue;
            const auto* const row = std::ranges::find(kDims, dim, &DimRow::dim);
            names += fmt::format("{}{}", names.empty() ? "" : "-", row->name);
        }
        add("order=" + names);
    }
    return all;
}

}  // namespace partita::search
