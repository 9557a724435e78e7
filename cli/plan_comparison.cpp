// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_comparison.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/pricing.h"
#include "base/error.h"
#include "cli/description.h"
#include "cli/summary.h"
#include "cli/table.h"

namespace partita::cli {
namespace {

using graph::OpId;
using Json = nlohmann::ordered_json;

constexpr std::size_t kNameWidth = 40;

/// What the device that holds most holds of each kind at its peak; empty where that is not known.
plan::MemoryByKind fullest(const plan::Priced& priced) {
    plan::MemoryByKind most;
    for (const plan::MemoryByKind& memory : priced.memory) {
        if (memory.total() > most.total()) most = memory;
    }
    return most;
}

/// "0.952"; "" where there is nothing to compare.
std::string ratio_text(double a, double b) {
    return a > 0 && b > 0 ? fmt::format("{:.3f}", b / a) : "";
}

/// Bytes and time per device by what moves, of both.
using Moved = std::pair<plan::Moved, std::string_view>;
struct MovedByBoth {
    Bytes a_bytes, b_bytes;
    Time a, b;
};

/// Rows of what is said of both.
class Figures {
public:
    Figures(std::string_view a, std::string_view b)
        : table_({{.title = ""},
                  {.title = std::string(a), .align = Align::right},
                  {.title = std::string(b), .align = Align::right},
                  {.title = "second / first", .align = Align::right}}) {}

    void words(const std::string& what, std::string a, std::string b) {
        if (a.empty() && b.empty()) return;
        table_.add_row({what, std::move(a), std::move(b), ""});
    }
    void count(const std::string& what, std::int64_t a, std::int64_t b) {
        if (a == b && a <= 1) return;  // not split so in either
        words(what, with_commas(a), with_commas(b));
    }
    template <class Quantity>
    void quantity(const std::string& what, Quantity a, Quantity b) {
        if (a == Quantity{0} && b == Quantity{0}) return;
        table_.add_row({what, to_text(a), to_text(b),
                        ratio_text(static_cast<double>(a.raw()), static_cast<double>(b.raw()))});
    }
    void rate(const std::string& what, double a, double b) {
        if (a <= 0 && b <= 0) return;
        table_.add_row({what, figure_text(a), figure_text(b), ratio_text(a, b)});
    }
    void moved(const std::string& what, const MovedByBoth& both) {
        const auto text = [](Bytes bytes, Time time) {
            return time > Time{0} ? fmt::format("{} in {}", to_text(bytes), to_text(time)) : "-";
        };
        table_.add_row(
            {what, text(both.a_bytes, both.a), text(both.b_bytes, both.b),
             ratio_text(static_cast<double>(both.a.raw()), static_cast<double>(both.b.raw()))});
    }
    [[nodiscard]] std::string text() const { return table_.to_text(); }

private:
    Table table_;
};

std::map<Moved, MovedByBoth> moved_by(const ComparedPlan& a, const ComparedPlan& b) {
    std::map<Moved, MovedByBoth> moved;
    for (const plan::Communication& each : a.communication) {
        MovedByBoth& both = moved[{each.moved, each.kind}];
        both.a_bytes = each.bytes_per_device;
        both.a = each.time_per_device;
    }
    for (const plan::Communication& each : b.communication) {
        MovedByBoth& both = moved[{each.moved, each.kind}];
        both.b_bytes = each.bytes_per_device;
        both.b = each.time_per_device;
    }
    return moved;
}

Json json_of(const ComparedPlan& of) {
    const plan::Problem& problem = *of.planned.loaded->problem;
    Json memory = nullptr;
    if (!of.priced.memory.empty()) {
        for (const plan::MemoryKind kind : plan::kMemoryKinds) {
            memory[std::string(name_of(kind))] = fullest(of.priced)[kind].raw();
        }
    }
    return {{"plan", of.name},
            {"machine", problem.machine().name()},
            {"value_ps", of.priced.evaluation.value.raw()},
            {"memory_bytes", most_memory(of.priced.evaluation).raw()},
            {"memory", memory},
            {"strategy", strategy_json(problem, of.strategy)},
            {"throughput", throughput_json(of.throughput)},
            {"communication", communication_json(of.communication)}};
}

std::string config_of(const ComparedPlan& of, OpId op) {
    return config_text(*of.planned.loaded->problem, op, of.strategy.ops[op.index()]);
}

}  // namespace

ComparedPlan compared_plan(const PlannedOptions& options, Console& console) {
    ComparedPlan compared;
    compared.name = options.plan.filename().string();
    compared.planned = load_planned(options, console);
    const plan::Problem& problem = *compared.planned.loaded->problem;
    compared.strategy = plan::strategy_of(compared.planned.plan, problem);
    compared.priced = api::price_as_planned(problem, compared.strategy, compared.planned.plan);
    compared.parallelism = plan::parallelism_of(problem, compared.strategy);
    compared.throughput =
        plan::throughput_of(problem, compared.strategy, compared.priced.evaluation.value);
    compared.communication = plan::communication_of(problem, compared.priced.tasks);
    return compared;
}

PlanComparison::PlanComparison(const ComparedPlan& a, const ComparedPlan& b) : a_(a), b_(b) {
    const graph::OpGraph& graph = a.planned.loaded->problem->graph();
    const graph::OpGraph& other = b.planned.loaded->problem->graph();
    const auto same_op = [](const graph::Op& x, const graph::Op& y) {
        return x.name == y.name && x.type == y.type;
    };
    if (!std::ranges::equal(graph.ops(), other.ops(), same_op)) {
        throw MismatchError(
            fmt::format("{} and {} are plans of graphs with other ops (another precision, loss, "
                        "fusion or attention).",
                        a.name, b.name));
    }
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        if (a.strategy.ops[i] != b.strategy.ops[i]) different_.emplace_back(i);
    }
}

std::string PlanComparison::figures() const {
    const plan::Problem& of_a = *a_.planned.loaded->problem;
    const plan::Problem& of_b = *b_.planned.loaded->problem;
    const plan::Policy& a = a_.strategy.policy;
    const plan::Policy& b = b_.strategy.policy;
    Figures rows(a_.name, b_.name);
    rows.words("machine", of_a.machine().name(), of_b.machine().name());
    rows.words("objective", std::string(name_of(of_a.objective())),
               std::string(name_of(of_b.objective())));
    rows.quantity("time", a_.priced.evaluation.value, b_.priced.evaluation.value);
    rows.rate("samples/s", a_.throughput.samples, b_.throughput.samples);
    rows.rate("tokens/s", a_.throughput.tokens, b_.throughput.tokens);
    rows.words("MFU", percent(a_.throughput.mfu), percent(b_.throughput.mfu));
    rows.count("devices", a_.parallelism.devices, b_.parallelism.devices);
    rows.count("stages", std::ssize(a_.parallelism.stages), std::ssize(b_.parallelism.stages));
    rows.count("data", a_.parallelism.data, b_.parallelism.data);
    rows.count("tensor", a_.parallelism.tensor, b_.parallelism.tensor);
    rows.count("context", a_.parallelism.context, b_.parallelism.context);
    rows.count("experts", a_.parallelism.experts, b_.parallelism.experts);
    rows.count("micro-batches", a.micro_batches, b.micro_batches);
    rows.words("schedule", to_text(a.schedule), to_text(b.schedule));
    rows.words("ZeRO", std::to_string(static_cast<int>(a_.parallelism.zero)),
               std::to_string(static_cast<int>(b_.parallelism.zero)));
    rows.words("recompute", recompute_line(of_a, a_.strategy), recompute_line(of_b, b_.strategy));
    rows.quantity("memory, at most", most_memory(a_.priced.evaluation),
                  most_memory(b_.priced.evaluation));
    for (const plan::MemoryKind kind : plan::kMemoryKinds) {
        rows.quantity("  " + std::string(name_of(kind)), fullest(a_.priced)[kind],
                      fullest(b_.priced)[kind]);
    }
    for (const auto& [what, both] : moved_by(a_, b_)) {
        rows.moved(fmt::format("{} of {}", what.second, name_of(what.first)), both);
    }
    return rows.text();
}

std::string PlanComparison::strategies() const {
    const std::string a = strategy_lines(*a_.planned.loaded->problem, a_.strategy);
    const std::string b = strategy_lines(*b_.planned.loaded->problem, b_.strategy);
    if (a == b) return fact_line("both", a);
    return fact_line("first", a) + fact_line("second", b);
}

std::string PlanComparison::ops(std::size_t most) const {
    const graph::OpGraph& graph = a_.planned.loaded->problem->graph();
    const auto total = static_cast<std::int64_t>(graph.op_count());
    if (different_.empty()) {
        return fmt::format("All {} lie and are split alike.\n", count_of(total, "op"));
    }
    std::string text = fmt::format("{} of {} lie elsewhere or are split otherwise:\n",
                                   with_commas(std::ssize(different_)), count_of(total, "op"));
    Table table({{.title = "op"}, {.title = "type"}, {.title = "first"}, {.title = "second"}});
    for (const OpId op : different_) {
        if (most-- == 0) break;
        table.add_row({shortened(graph.op(op).name, kNameWidth), graph.op(op).type,
                       config_of(a_, op), config_of(b_, op)});
    }
    return text + table.to_text();
}

std::string PlanComparison::text(const Console& console) const {
    const plan::Problem& problem = *a_.planned.loaded->problem;
    std::string text = fact_line("model", model_line(a_.planned.loaded->model,
                                                     facts_of(problem.graph(), rules_of(problem))));
    text += '\n' + figures() + '\n' + strategies() + '\n';
    constexpr std::size_t kLeast = 5;
    constexpr std::size_t kAround = 2;  // the lines above the ops
    const std::size_t below = lines_below(text, console);
    return text + ops(std::max(kLeast, below - std::min(below, kAround)));
}

Json PlanComparison::json() const {
    const graph::OpGraph& graph = a_.planned.loaded->problem->graph();
    Json ops = Json::array();
    for (const OpId op : different_) {
        ops.push_back({{"name", graph.op(op).name},
                       {"type", graph.op(op).type},
                       {"first", config_of(a_, op)},
                       {"second", config_of(b_, op)}});
    }
    return {{"first", json_of(a_)},
            {"second", json_of(b_)},
            {"ratio", a_.priced.evaluation.value > Time{0}
                          ? Json(b_.priced.evaluation.value / a_.priced.evaluation.value)
                          : Json(nullptr)},
            {"ops", graph.op_count()},
            {"different_ops", ops}};
}

}  // namespace partita::cli
