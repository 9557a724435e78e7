// SPDX-License-Identifier: Apache-2.0
#include "cli/explain_command.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "api/pricing.h"
#include "base/error.h"
#include "cli/description.h"
#include "cli/planned.h"
#include "cli/progress_line.h"
#include "cli/summary.h"
#include "cli/table.h"
#include "cli/what_would_help.h"
#include "plan/description/bottleneck.h"
#include "search/alternatives/alternatives.h"

namespace partita::cli {
namespace {

using graph::OpId;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostOps = 5;
constexpr std::size_t kMostMessages = 6;
constexpr int kMostAlternatives = 5;
constexpr std::size_t kOpNameWidth = 48;

/// "-6.8 %" of 0.932.
std::string saving(double ratio) {
    return (ratio > 1 ? "+" : "") + percent(ratio - 1);
}

/// Where batches overlap, the time for each and what one takes.
std::string time_line(const plan::Priced& priced) {
    const Time value = priced.evaluation.value;
    const Time whole = priced.timeline->makespan;
    if (value == whole) return to_text(value);
    return fmt::format("{} for each batch; one takes {}", to_text(value), to_text(whole));
}

/// What moves of one op: its results and their gradients, and what it reads.
struct Message {
    std::string what;  ///< "all-reduce of gradients of fc.weight"
    std::int64_t count = 0;
    Bytes bytes;  ///< of one
    Time time;    ///< of one
};

class ExplainCommand final : public Command {
public:
    void add_options(CLI::App& app) override {
        add_planned_options(app, options_);
        add_what_if_options(app, options_.what_if);
        app.add_option("OP", name_,
                       "an op of the model (inspect MODEL --ops lists them): why is it split so?")
            ->type_name("");
    }

    ExitCode run(Console& console) override {
        const Planned planned = load_planned(options_, console);
        const plan::Problem& problem = *planned.loaded->problem;
        if (!api::has_timeline(problem)) {
            throw UsageError(
                "explain: plans of given costs have loads and no timeline. `simulate` shows them.");
        }
        const plan::Strategy strategy = plan::strategy_of(planned.plan, problem);
        const plan::Priced priced = api::price_as_planned(problem, strategy, planned.plan);
        const plan::Bottleneck bottleneck =
            plan::bottleneck_of(problem, priced.tasks, *priced.timeline);
        const plan::Scheduler scheduler =
            plan::scheduler_from_name(planned.plan.scheduler).value_or(plan::Scheduler::pct);
        if (name_.empty()) {
            explain_plan(planned, strategy, priced, bottleneck, scheduler, console);
        } else {
            explain_op(planned, strategy, priced, bottleneck, scheduler, console);
        }
        return ExitCode::done;
    }

private:
    static void explain_plan(const Planned& planned, const plan::Strategy& strategy,
                             const plan::Priced& priced, const plan::Bottleneck& bottleneck,
                             plan::Scheduler scheduler, Console& console) {
        const plan::Problem& problem = *planned.loaded->problem;
        const Time whole = priced.timeline->makespan;
        const std::vector<Help> helps = what_would_help(planned, strategy, scheduler);
        const std::vector<OpId> longest = longest_ops(bottleneck);
        std::string text = fact_line(
            "model",
            model_line(planned.loaded->model, facts_of(problem.graph(), rules_of(problem))));
        text += fact_line("machine", machine_line(planned.loaded->machine));
        text += fact_line("strategy", strategy_lines(problem, strategy));
        text += fact_line("time", time_line(priced));
        text += fact_line("path", time_parts_line(bottleneck.critical_path, whole));
        text += fact_line("a device", time_parts_line(bottleneck.devices, whole));
        Table help({{.title = "the same plan with"},
                    {.title = "time", .align = Align::right},
                    {.title = "", .align = Align::right}});
        for (const Help& each : helps) {
            help.add_row({each.what, to_text(each.value), saving(each.ratio)});
        }
        if (!help.empty()) text += '\n' + help.to_text();
        Table ops({{.title = "longest on the critical path"},
                   {.title = "type"},
                   {.title = "time", .align = Align::right},
                   {.title = "", .align = Align::right},
                   {.title = "split"}});
        for (const OpId op : longest) {
            const graph::Op& of = problem.graph().op(op);
            const Time time = bottleneck.on_path[op.index()];
            ops.add_row({shortened(of.name, kOpNameWidth), of.type, to_text(time),
                         share_of(time, whole),
                         config_text(problem, op, strategy.ops[op.index()])});
        }
        if (!ops.empty()) text += '\n' + ops.to_text();
        console.print(
            text +
            "\nexplain PLAN MODEL OP says why an op is split so, and what else it could be.\n");

        Json helps_json = Json::array();
        for (const Help& each : helps) {
            helps_json.push_back(
                {{"what", each.what}, {"value_ps", each.value.raw()}, {"ratio", each.ratio}});
        }
        Json ops_json = Json::array();
        for (const OpId op : longest) {
            ops_json.push_back({{"name", problem.graph().op(op).name},
                                {"time_ps", bottleneck.on_path[op.index()].raw()}});
        }
        const Json json = {{"value_ps", priced.evaluation.value.raw()},
                           {"strategy", strategy_json(problem, strategy)},
                           {"critical_path", time_parts_json(bottleneck.critical_path)},
                           {"devices", time_parts_json(bottleneck.devices)},
                           {"would_help", helps_json},
                           {"longest_ops", ops_json}};
        console.json(json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n');
    }

    static std::vector<OpId> longest_ops(const plan::Bottleneck& bottleneck) {
        std::vector<std::int64_t> times;
        for (const Time time : bottleneck.on_path) times.push_back(time.raw());
        std::vector<OpId> ops;
        for (const std::size_t i : largest(times, kMostOps)) {
            if (times[i] > 0) ops.emplace_back(i);
        }
        std::ranges::stable_sort(ops, std::greater{},
                                 [&](OpId op) { return bottleneck.on_path[op.index()]; });
        return ops;
    }

    /// The op of that name, or the only one whose name has it as a part; of a parameter or output, who
    /// computes with it. Throws UsageError naming some that are like it.
    [[nodiscard]] OpId find_op(const plan::Problem& problem) const {
        const graph::OpGraph& graph = problem.graph();
        std::optional<OpId> found = graph.find_op(name_);
        std::vector<std::string> similar;
        for (std::size_t i = 0; i < graph.op_count() && !found; ++i) {
            if (graph.op(OpId(i)).name.find(name_) != std::string::npos) {
                similar.push_back(graph.op(OpId(i)).name);
            }
        }
        if (similar.size() == 1) found = graph.find_op(similar[0]);
        if (!found) {
            constexpr std::size_t kMost = 5;
            const std::size_t more = similar.size() - std::min(similar.size(), kMost);
            similar.resize(std::min(similar.size(), kMost));
            throw UsageError(fmt::format(
                "{}: no op of that name. {}", name_,
                similar.empty() ? "`partita inspect MODEL --ops` lists all."
                                : fmt::format("Is it one of {}{}?", fmt::join(similar, ", "),
                                              more > 0 ? fmt::format(", and {} more", more) : "")));
        }
        if (problem.facts().has_forward(*found)) return *found;
        const graph::Op& op = graph.op(*found);
        std::vector<OpId> near;
        if (op.kind == graph::OpKind::output) {
            near.push_back(graph.tensor(op.inputs[0]).producer);
        } else {
            for (const graph::Use use : graph.uses(op.outputs[0])) near.push_back(use.op);
        }
        for (const OpId each : near) {
            if (problem.facts().has_forward(each)) return each;
        }
        throw UsageError(fmt::format("{}: nothing computes with it.", name_));
    }

    static std::vector<Message> messages_of(const plan::Problem& problem,
                                            const plan::TaskGraph& tasks, OpId op) {
        const graph::Op& of = problem.graph().op(op);
        std::vector<Message> messages;
        for (std::size_t i = 0; i < tasks.size(); ++i) {
            const plan::Task& task = tasks.tasks[i];
            if (!plan::is_communication(task) || !task.tensor.valid()) continue;
            const bool own = std::ranges::find(of.inputs, task.tensor) != of.inputs.end() ||
                             std::ranges::find(of.outputs, task.tensor) != of.outputs.end();
            if (!own) continue;
            std::string what = fmt::format("{}: {}", problem.graph().tensor(task.tensor).name,
                                           plan::moved_text(problem, task));
            const auto known = std::ranges::find(messages, what, &Message::what);
            if (known == messages.end()) {
                messages.push_back(
                    {std::move(what), tasks.copies_of(i), task.bytes, task.duration});
            } else {
                known->count += tasks.copies_of(i);
                known->bytes = std::max(known->bytes, task.bytes);
                known->time = std::max(known->time, task.duration);
            }
        }
        std::ranges::stable_sort(messages, std::greater{}, &Message::time);
        return messages;
    }

    /// Of the parts of an op in all micro-batches: how long one device computes.
    struct Work {
        plan::TaskKind kind;
        Time most;
    };
    static std::vector<Work> works_of(const plan::TaskGraph& tasks, OpId op) {
        std::vector<Work> works;
        for (const plan::TaskKind kind : {plan::TaskKind::forward, plan::TaskKind::recompute,
                                          plan::TaskKind::backward, plan::TaskKind::weights}) {
            std::vector<Time> of_device(static_cast<std::size_t>(tasks.device_count));
            for (const plan::Task& task : tasks.tasks) {
                if (task.op != op || task.kind != kind) continue;
                of_device[static_cast<std::size_t>(task.device)] += task.duration;
            }
            const Time most = std::ranges::max(of_device);
            if (most > Time{0}) works.push_back({kind, most});
        }
        return works;
    }

    void explain_op(const Planned& planned, const plan::Strategy& strategy,
                    const plan::Priced& priced, const plan::Bottleneck& bottleneck,
                    plan::Scheduler scheduler, Console& console) const {
        const plan::Problem& problem = *planned.loaded->problem;
        const OpId op = find_op(problem);
        const graph::Op& of = problem.graph().op(op);
        const Time whole = priced.timeline->makespan;
        const search::Alternatives alternatives = [&] {
            ProgressLine line(console);
            return search::alternatives_of(
                problem, strategy, op, scheduler, kMostAlternatives,
                [&](double share) { line.show(share, "what else it could be"); });
        }();
        const std::vector<Message> messages = messages_of(problem, priced.tasks, op);
        std::string text = fact_line(
            "op", fmt::format("{} ({}){}", of.name, of.type,
                              of.block.empty() ? "" : fmt::format(" of block {}", of.block)));
        text += fact_line("factors", factors_line(problem, op));
        text += fact_line("is", config_text(problem, op, strategy.ops[op.index()]));
        std::vector<std::string> works;
        for (const Work& work : works_of(priced.tasks, op)) {
            works.push_back(fmt::format("{} {}", name_of(work.kind), to_text(work.most)));
        }
        text += fact_line(
            "takes",
            fmt::format("{} on a device; {} of the critical path ({})",
                        works.empty() ? "nothing" : fmt::format("{}", fmt::join(works, ", ")),
                        to_text(bottleneck.on_path[op.index()]),
                        share_of(bottleneck.on_path[op.index()], whole)));
        std::vector<std::string> lines;
        for (const Message& message : messages) {
            if (lines.size() == kMostMessages) {
                lines.push_back(fmt::format("{} more", messages.size() - kMostMessages));
                break;
            }
            lines.push_back(fmt::format("{}, {} x {} in {}", message.what, message.count,
                                        to_text(message.bytes), to_text(message.time)));
        }
        text += fact_line("moves",
                          lines.empty() ? "nothing" : fmt::format("{}", fmt::join(lines, "\n")));
        console.print(text + '\n' + alternatives_table(problem, op, alternatives));
        console.json(op_json(problem, strategy, op, bottleneck, messages, alternatives)
                         .dump(2, ' ', false, Json::error_handler_t::replace) +
                     '\n');
    }

    static std::string factors_line(const plan::Problem& problem, OpId op) {
        std::vector<std::string> factors;
        for (const graph::Factor& factor : problem.facts().rule(op).factors) {
            factors.push_back(fmt::format("{} {}{}", factor.name, factor.extent,
                                          factor.reduction ? " (summed)" : ""));
        }
        return factors.empty() ? "none" : fmt::format("{}", fmt::join(factors, ", "));
    }

    static std::string alternatives_table(const plan::Problem& problem, OpId op,
                                          const search::Alternatives& alternatives) {
        Table table({{.title = "instead"},
                     {.title = "where"},
                     {.title = "ops changed", .align = Align::right},
                     {.title = "time", .align = Align::right},
                     {.title = "", .align = Align::right}});
        const std::string layers = alternatives.layers > 1
                                       ? fmt::format("all {} layers", alternatives.layers)
                                       : "with its group";
        for (const search::Alternative& each : alternatives.best) {
            table.add_row(
                {config_text(problem, op, {.config = each.config, .update = {}, .recompute = {}}),
                 each.in_equal_layers ? layers : "this op", with_commas(each.changed_ops),
                 time_text(each.score),
                 each.score.overflow > Bytes{0}
                     ? "-"
                     : saving(each.score.value / alternatives.now.value)});
        }
        return fmt::format("{}{} tried{}; as it is {}\n", table.empty() ? "" : table.to_text(),
                           count_of(alternatives.tried, "change"),
                           alternatives.all ? ", which are all that searches may make of it"
                                            : ", of more that there are",
                           to_text(alternatives.now.value));
    }

    static std::string time_text(const plan::Score& score) {
        if (!score.keeps_schedule) return "no pipeline";
        if (score.overflow > Bytes{0}) return to_text(score.overflow) + " too much";
        return to_text(score.value);
    }

    static Json op_json(const plan::Problem& problem, const plan::Strategy& strategy, OpId op,
                        const plan::Bottleneck& bottleneck, const std::vector<Message>& messages,
                        const search::Alternatives& alternatives) {
        Json moves = Json::array();
        for (const Message& message : messages) {
            moves.push_back({{"what", message.what},
                             {"count", message.count},
                             {"bytes", message.bytes.raw()},
                             {"time_ps", message.time.raw()}});
        }
        Json instead = Json::array();
        for (const search::Alternative& each : alternatives.best) {
            instead.push_back(
                {{"config",
                  config_text(problem, op, {.config = each.config, .update = {}, .recompute = {}})},
                 {"in_equal_layers", each.in_equal_layers},
                 {"changed_ops", each.changed_ops},
                 {"fits", each.score.overflow == Bytes{0}},
                 {"keeps_schedule", each.score.keeps_schedule},
                 {"value_ps", each.score.value.raw()}});
        }
        return {{"op", problem.graph().op(op).name},
                {"config", config_text(problem, op, strategy.ops[op.index()])},
                {"on_critical_path_ps", bottleneck.on_path[op.index()].raw()},
                {"moves", moves},
                {"value_ps", alternatives.now.value.raw()},
                {"equal_layers", alternatives.layers},
                {"tried", alternatives.tried},
                {"alternatives", instead}};
    }

    PlannedOptions options_;
    std::string name_;
};

}  // namespace

std::unique_ptr<Command> make_explain_command() {
    return std::make_unique<ExplainCommand>();
}

}  // namespace partita::cli
