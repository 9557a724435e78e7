// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "api/report/report.h"
#include "cli/description.h"
#include "cli/device_json.h"
#include "cli/summary.h"
#include "cli/table.h"

namespace partita::cli {
namespace {

using Json = nlohmann::ordered_json;

double to_seconds(search::Duration duration) {
    return std::chrono::duration<double>(duration).count();
}

template <class T>
Json or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

Json baselines_json(const search::SearchResult& result) {
    Json json = Json::array();
    for (const search::Baseline& baseline : result.baselines) {
        json.push_back(
            {{"name", baseline.name},
             {"configuration", baseline.configuration},
             {"value_ps", baseline.value ? Json(baseline.value->raw()) : Json(nullptr)}});
    }
    return json;
}

Json costs_json(const plan::CostCounts& counts) {
    Json json = Json::object();
    for (const auto& [source, count] : named_counts(counts)) json[std::string(source)] = count;
    return json;
}

Json numerical_json(const std::optional<search::NumericalBound>& bound) {
    if (!bound) return nullptr;
    return {
        {"lower_bound_ps", bound->value.raw()}, {"gap", or_null(bound->gap)}, {"by", bound->by}};
}

/// Why the search is over.
std::string words_of(search::Status status, bool improving) {
    switch (status) {
    case search::Status::found:
        return improving ? "the search came to its end, still improving: --time-limit 60 goes on"
                         : "the search came to its end";
    case search::Status::budget_exhausted:
        return improving ? "the budget is spent, and plans were still improving: --time-limit 60"
                         : "the budget is spent; its last quarter gained less than 1 %";
    default: return std::string(name_of(status));
    }
}

std::string one_line(std::string_view text) {
    std::string line;
    for (const char c : text) {
        if (c != '\n') {
            line += c;
        } else {
            line += line.ends_with('.') ? " " : ", ";
        }
    }
    return line;
}

Json accuracy_json(const std::optional<plan::PriceErrors>& errors) {
    if (!errors) return nullptr;
    return {{"fitted_share", errors->fitted}, {"error", errors->error}};
}

}  // namespace

PlanSummary::PlanSummary(const Loaded& loaded, const search::SearchResult& result)
    : loaded_(loaded), result_(result) {
    facts_ = facts_of(loaded.problem->graph(), rules_of(*loaded.problem));
}

std::string PlanSummary::result_line() const {
    const std::string value = to_text(result_.evaluation.value);
    if (result_.status == search::Status::optimal) {
        return fmt::format("{} (optimal), no {} plan is better", value,
                           result_.contiguous ? "contiguous" : "legal");
    }
    std::string text = fmt::format("{}, lower bound {}", value, to_text(result_.lower_bound));
    if (result_.gap) {
        text += fmt::format(", gap {}: no plan saves more than {} of its time",
                            percent(*result_.gap), percent(*result_.gap / (1 + *result_.gap)));
    }
    return text;
}

std::string PlanSummary::numerical_line() const {
    const search::NumericalBound& bound = *result_.numerical_bound;
    std::string text = fmt::format("no plan is below {}", to_text(bound.value));
    if (bound.gap) text += fmt::format(", gap {:.4f} %", 100 * *bound.gap);
    return text + fmt::format(", says {} in floating point, which is no proof", bound.by);
}

std::string PlanSummary::search_line(const plan::TaskGraph& graph) const {
    std::string tasks = count_of(graph.whole_size(), "task");
    if (graph.is_folded())
        tasks += fmt::format(" folded into {}", with_commas(std::ssize(graph.tasks)));
    std::string text =
        fmt::format("found by {} with {}; {} in {:.2f} s, {}, seed {}", result_.searcher,
                    name_of(result_.scheduler), count_of(result_.evaluations, "evaluation"),
                    to_seconds(result_.elapsed), tasks, result_.seed);
    if (result_.status == search::Status::optimal) return text;
    return text + "; " + words_of(result_.status, result_.improving);
}

std::string PlanSummary::measured_line() const {
    return fmt::format("{}, {:.2f} times what was predicted; the least of {}",
                       to_text(*result_.measured), *result_.measured / result_.evaluation.value,
                       count_of(result_.measurements, "plan"));
}

std::string PlanSummary::notes_lines() const {
    return fmt::format("{}", fmt::join(result_.notes, "\n"));
}

std::string PlanSummary::baselines_line() const {
    std::string text;
    for (const search::Baseline& baseline : result_.baselines) {
        text += text.empty() ? "" : "\n";
        if (!baseline.value) {
            text += baseline.name + ": none (does not fit, or is not allowed)";
            continue;
        }
        text += fmt::format("{} {} on {}", baseline.name, to_text(*baseline.value),
                            baseline.configuration);
        if (result_.evaluation.value > Time{0}) {
            text += fmt::format(" ({:.2f} times this plan)",
                                *baseline.value / result_.evaluation.value);
        }
    }
    return text;
}

std::string PlanSummary::text(const plan::Priced& priced, const Console& console) const {
    const plan::Problem& problem = *loaded_.problem;
    const std::string unsupported = unsupported_line(facts_);
    std::string text = fact_line("model", model_line(loaded_.model, facts_));
    text += fact_line("machine", machine_line(loaded_.machine));
    text += fact_line("objective",
                      goal_line(problem.objective(), problem.mode(), result_.strategy.policy));
    text += fact_line("strategy", strategy_text());
    text += fact_line("plan", result_line() + "\n" + search_line(priced.tasks));
    const std::string throughput = throughput_line(this->throughput());
    if (!throughput.empty()) text += fact_line("throughput", throughput);
    const std::string moved = communication_line(communication_of(problem, priced.tasks));
    if (!moved.empty()) text += fact_line("per device", moved);
    const std::string waits = waits_line(problem, priced);
    if (!waits.empty()) text += fact_line("a device", waits);
    if (result_.measured) text += fact_line("measured", measured_line());
    if (result_.status != search::Status::optimal && !result_.limited_by.empty()) {
        text += fact_line("limited by", result_.limited_by);
    }
    if (result_.numerical_bound) text += fact_line("solver", numerical_line());
    if (!result_.notes.empty()) text += fact_line("notes", notes_lines());
    if (!result_.baselines.empty()) text += fact_line("baselines", baselines_line());
    text += fact_line("costs", costs_line(loaded_, counts_of(priced)));
    if (const auto errors = price_errors_of(loaded_, result_.strategy)) {
        text += fact_line("accuracy", accuracy_line(*errors, result_.evaluation.value));
    }
    if (!unsupported.empty()) text += fact_line("unknown", unsupported);
    const std::string precision = precision_line(problem);
    if (!precision.empty()) text += fact_line("precision", precision);
    const std::string attention = attention_line(loaded_.model.products_as_attention);
    if (!attention.empty()) text += fact_line("attention", attention);
    const std::string recompute = recompute_line(problem, result_.strategy);
    if (!recompute.empty()) text += fact_line("recompute", recompute);
    return text +
           devices_text(problem, result_.strategy, priced, Console::stdout_terminal(),
                        lines_below(text, console)) +
           '\n';
}

std::string PlanSummary::strategy_text() const {
    std::string text = strategy_lines(*loaded_.problem, result_.strategy);
    if (!result_.configuration.empty()) text += "\n--strategy " + result_.configuration;
    return text;
}

plan::Throughput PlanSummary::throughput() const {
    return plan::throughput_of(*loaded_.problem, result_.strategy, result_.evaluation.value);
}

plan::CostCounts PlanSummary::counts_of(const plan::Priced& priced) const {
    return count_costs(loaded_, result_.strategy, priced.tasks);
}

Json PlanSummary::json(const std::string& plan_file, const plan::Priced* priced) const {
    const plan::Problem& problem = *loaded_.problem;
    const bool found = result_.has_plan();
    const plan::Policy& policy = result_.strategy.policy;
    const double seconds = to_seconds(result_.elapsed);
    const Json rate =
        seconds > 0 ? Json(static_cast<double>(result_.evaluations) / seconds) : Json(nullptr);
    const auto memory = priced ? priced->memory : std::vector<plan::MemoryByKind>{};
    Json unsupported = Json::object();
    for (const auto& [type, count] : facts_.unsupported) unsupported[type] = count;
    Json json = {
        {"status", name_of(result_.status)},
        {"objective", name_of(problem.objective())},
        {"value_ps", found ? Json(result_.evaluation.value.raw()) : Json(nullptr)},
        {"measured_ps", result_.measured ? Json(result_.measured->raw()) : Json(nullptr)},
        {"improving", result_.improving},
        {"lower_bound_ps", result_.lower_bound.raw()},
        {"gap", or_null(result_.gap)},
        {"limited_by", result_.limited_by},
        {"numerical_bound", numerical_json(result_.numerical_bound)},
        {"searcher", result_.searcher},
        {"configuration",
         result_.configuration.empty() ? Json(nullptr) : Json(result_.configuration)},
        {"scheduler", name_of(result_.scheduler)},
        {"seed", result_.seed},
        {"micro_batches", found ? Json(policy.micro_batches) : Json(nullptr)},
        {"schedule", found ? Json(to_text(policy.schedule)) : Json(nullptr)},
        {"notes", result_.notes},
        {"strategy", found ? strategy_json(problem, result_.strategy) : Json(nullptr)},
        {"communication",
         priced ? communication_json(communication_of(problem, priced->tasks)) : Json(nullptr)},
        {"throughput", found ? throughput_json(throughput()) : Json(nullptr)},
        {"evaluations", result_.evaluations},
        {"elapsed_s", seconds},
        {"evaluations_per_s", rate},
        {"tasks", priced ? priced->tasks.whole_size() : 0},
        {"acceptance_rate", or_null(result_.acceptance_rate)},
        {"baselines", baselines_json(result_)},
        {"devices", devices_json(problem, result_.evaluation, memory)},
        {"costs", costs_json(priced ? counts_of(*priced) : plan::CostCounts{})},
        {"accuracy",
         found ? accuracy_json(price_errors_of(loaded_, result_.strategy)) : Json(nullptr)},
        {"unsupported_ops", unsupported},
        {"plan", plan_file.empty() ? Json(nullptr) : Json(plan_file)}};
    if (!found) json["shortage"] = result_.shortage;
    if (problem.policy().recompute != plan::Recompute::none && found) {
        const RecomputedBlocks count = recomputed_blocks(problem, result_.strategy);
        json["recompute"] = {
            {"blocks", count.blocks}, {"selective", count.selective}, {"full", count.full}};
    }
    return json;
}

std::string PlanSummary::page(const plan::Priced& priced) const {
    const plan::Problem& problem = *loaded_.problem;
    api::ReportInput input{.problem = problem,
                           .strategy = result_.strategy,
                           .evaluation = priced.evaluation,
                           .tasks = priced.timeline ? &priced.tasks : nullptr,
                           .timeline = priced.timeline ? &*priced.timeline : nullptr,
                           .memory = priced.memory,
                           .title = fmt::format("{} on {}", loaded_.model.file.filename().string(),
                                                loaded_.machine.name()),
                           .subtitle = one_line(model_line(loaded_.model, facts_)),
                           .facts = {},
                           .compared_titles = {"", "value", "of this plan"},
                           .compared_rows = {}};
    input.facts = {{std::string(name_of(problem.objective())), to_text(result_.evaluation.value)},
                   {"lower bound", to_text(result_.lower_bound)},
                   {"gap", result_.gap ? percent(*result_.gap) : "-"},
                   {"limited by", result_.limited_by},
                   {"status", std::string(name_of(result_.status))},
                   {"searcher", result_.searcher},
                   {"scheduler", std::string(name_of(result_.scheduler))},
                   {"evaluations", with_commas(result_.evaluations)},
                   {"mode", std::string(name_of(problem.mode()))},
                   {"costs", costs_line(loaded_, counts_of(priced))}};
    if (const auto errors = price_errors_of(loaded_, result_.strategy)) {
        input.facts.emplace_back("accuracy", accuracy_line(*errors, result_.evaluation.value));
    }
    const std::string throughput = throughput_line(this->throughput());
    if (!throughput.empty()) input.facts.emplace_back("throughput", throughput);
    input.facts.emplace_back("strategy", one_line(strategy_text()));
    const std::string moved = communication_line(communication_of(problem, priced.tasks));
    if (!moved.empty()) input.facts.emplace_back("moved per device", one_line(moved));
    if (priced.timeline) {
        const Time whole = priced.timeline->makespan;
        const plan::Bottleneck bottleneck =
            plan::bottleneck_of(problem, priced.tasks, *priced.timeline);
        input.facts.emplace_back("critical path", time_parts_line(bottleneck.critical_path, whole));
        input.facts.emplace_back("a device on average", time_parts_line(bottleneck.devices, whole));
    }
    if (result_.numerical_bound) input.facts.emplace_back("solver", numerical_line());
    const plan::Policy& policy = result_.strategy.policy;
    if (policy.micro_batches > 1) {
        input.facts.emplace_back("micro-batches", std::to_string(policy.micro_batches));
        input.facts.emplace_back("schedule", to_text(policy.schedule));
    }
    const std::string recompute = recompute_line(problem, result_.strategy);
    if (!recompute.empty()) input.facts.emplace_back("recompute", recompute);
    const std::string unsupported = unsupported_line(facts_);
    if (!unsupported.empty()) input.facts.emplace_back("unknown ops", unsupported);

    const auto add_row = [&](const std::string& name, std::optional<Time> value) {
        const Time mine = result_.evaluation.value;
        input.compared_rows.push_back({name, value ? to_text(*value) : "does not fit",
                                       value && mine > Time{0} ? percent(*value / mine) : "-"});
    };
    add_row("this plan (" + result_.searcher + ")", result_.evaluation.value);
    for (const search::Baseline& baseline : result_.baselines) {
        const bool named = !baseline.configuration.empty();
        add_row(
            named ? fmt::format("{} ({})", baseline.name, baseline.configuration) : baseline.name,
            baseline.value);
    }
    add_row("lower bound", result_.lower_bound);
    return api::report_page(input);
}

ExitCode report_no_plan(const search::SearchResult& result, bool interrupted, Console& console) {
    const std::string shortage = printable(result.shortage);
    if (interrupted && result.status != search::Status::infeasible) {
        console.err() << fmt::format("partita: interrupted: {}\n", shortage);
        return ExitCode::interrupted;
    }
    console.err() << fmt::format("partita: {}\n", search::why_no_plan(result.status, shortage));
    return ExitCode::infeasible;
}

}  // namespace partita::cli
