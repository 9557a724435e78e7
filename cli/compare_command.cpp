// SPDX-License-Identifier: Apache-2.0
#include "cli/compare_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/framework.h"
#include "api/learned_library.h"
#include "api/plan_options.h"
#include "base/error.h"
#include "cli/interrupt.h"
#include "cli/load.h"
#include "cli/plan_comparison.h"
#include "cli/plan_summary.h"
#include "cli/progress.h"
#include "cli/shared_options.h"
#include "cli/summary.h"
#include "cli/table.h"
#include "search/portfolio/search_run.h"
#include "search/portfolio/searcher_table.h"

namespace partita::cli {
namespace {

using Json = nlohmann::ordered_json;

/// A searcher, or degrees of parallelism (--strategies).
struct Contender {
    std::string name;
    PlanOptions asked;
};

struct Row {
    std::string name;
    search::SearchResult result;
    std::string refused = {};  ///< why there is no plan of that form; "": there is a result

    [[nodiscard]] bool feasible() const { return refused.empty() && result.has_plan(); }
    [[nodiscard]] std::string status() const {
        return refused.empty() ? std::string(name_of(result.status)) : "refused";
    }
    [[nodiscard]] Bytes memory() const { return most_memory(result.evaluation); }
    [[nodiscard]] double seconds() const {
        return std::chrono::duration<double>(result.elapsed).count();
    }
};

/// All that are cheap enough for `auto`.
std::vector<std::string> cheap_searchers() {
    std::vector<std::string> names;
    for (const search::SearcherRow& row : search::searcher_table()) {
        if (row.in_auto) names.emplace_back(row.name);
    }
    return names;
}

class CompareCommand final : public Command {
public:
    void add_options(CLI::App& app) override {
        app.add_option("MODEL", files_,
                       "an .onnx model, or a workload .json; behind two plans of it, these are "
                       "compared: PLAN PLAN MODEL")
            ->required()
            ->expected(1, 3)
            ->type_name("");
        add_binding_options(app, model_);
        add_machine_option(app, machine_);
        add_what_if_options(app, what_if_);
        using api::OptionSet;
        add_plan_options(app, asked_,
                         {OptionSet::framework, OptionSet::training, OptionSet::objective,
                          OptionSet::constraints, OptionSet::costs});
        auto* const searchers =
            app.add_option("--searchers", searchers_, "default: all that are cheap")
                ->type_name("A,B,...")
                ->group("Search");
        app.add_option(
               "--strategies", strategies_,
               "instead: degrees of parallelism, each as `plan --strategy` takes them, or a "
               "searcher")
            ->type_name("DEGREES")
            ->excludes(searchers)
            ->group("Search");
        add_plan_options(app, asked_, {OptionSet::budget});
    }

    ExitCode run(Console& console) override {
        if (files_.size() == 2) {
            throw UsageError(
                "compare: expected a model, or two plans and their model (PLAN PLAN MODEL).");
        }
        if (files_.size() == 3) return compare_plans(console);
        model_.file = files_[0];
        const std::vector<Contender> contenders = this->contenders();
        model_.framework = asked_.framework;
        // The framework's form of plans is for rows of degrees, which have their own below.
        PlanOptions asked = api::with_framework(asked_);
        asked.strategy = asked_.strategy;
        // Degrees that are said open choices that all of the table share.
        for (const Contender& contender : contenders) {
            if (asked.strategy.empty()) asked.strategy = contender.asked.strategy;
        }
        const auto loaded = load_problem(model_, machine_, what_if_, asked, console);
        const bool any_searcher = std::ranges::any_of(contenders, [](const Contender& contender) {
            return contender.asked.strategy.empty();
        });
        if (!asked_.framework.empty() && any_searcher) {
            console.note(
                fmt::format("--framework {}: rows of searchers keep to its kernels, not to its "
                            "form of plans; rows of --strategies do.",
                            asked_.framework.string()));
        }
        const Interrupt interrupt;
        std::vector<Row> rows;
        for (const Contender& contender : contenders) {
            if (interrupt.flag()) break;
            rows.push_back(run(contender, *loaded->problem, interrupt, console));
        }
        console.json(json(*loaded->problem, rows));
        console.print(text(*loaded, rows));
        std::vector<std::string> refused;
        for (const Row& row : rows) {
            if (!row.refused.empty()) refused.push_back(row.refused);
        }
        const auto tried = std::ranges::find(rows, std::string(), &Row::refused);
        if (tried == rows.end() && !rows.empty()) {
            throw UsageError(
                fmt::format("--strategies: all are refused.\n{}", fmt::join(refused, "\n")));
        }
        for (const std::string& why : refused) console.note(why);
        const bool any = std::ranges::any_of(rows, &Row::feasible);
        if (any || rows.empty()) return ExitCode::done;
        return report_no_plan(tried->result, interrupt.flag(), console);
    }

private:
    /// By the plans' own options, on the plans' machines unless --machine says otherwise.
    ExitCode compare_plans(Console& console) {
        if (!searchers_.empty() || !strategies_.empty()) {
            throw UsageError(
                "--searchers, --strategies: are of a model, and two plans were given. Leave them "
                "out.");
        }
        model_.file = files_[2];
        model_.framework = asked_.framework;
        const auto compared = [&](const std::filesystem::path& plan) {
            return compared_plan({.plan = plan,
                                  .model = model_,
                                  .machine = machine_,
                                  .what_if = what_if_,
                                  .asked = asked_,
                                  .ignore_digest = false},
                                 console);
        };
        const ComparedPlan first = compared(files_[0]);
        const ComparedPlan second = compared(files_[1]);
        const PlanComparison comparison(first, second);
        console.json(comparison.json().dump(2, ' ', false, Json::error_handler_t::replace) + '\n');
        console.print(comparison.text(console));
        return ExitCode::done;
    }

    [[nodiscard]] std::vector<Contender> contenders() const {
        std::vector<std::string> names = strategies_;
        if (names.empty()) {
            names = searchers_.empty() ? cheap_searchers() : search::parse_searchers(searchers_);
        }
        std::vector<Contender> contenders;
        for (const std::string& name : names) {
            Contender contender{name, asked_};
            const bool degrees = name.find('=') != std::string::npos || name == "sp";
            if (!degrees) {
                contender.asked.searchers = search::parse_searchers(name);
            } else {
                contender.asked.set("strategy", name);
                contender.asked = api::with_framework(std::move(contender.asked));
            }
            api::check_form(contender.asked, false);
            contenders.push_back(std::move(contender));
        }
        return contenders;
    }

    /// A form that the model cannot have is a row too.
    static Row run(const Contender& contender, const plan::Problem& problem,
                   const Interrupt& interrupt, Console& console) {
        search::EngineOptions options = api::engine_options(contender.asked);
        const auto learned = api::load_learned({}, options.searchers);
        options.learned = learned.get();
        try {
            return {contender.name, run_search(problem, std::move(options), interrupt, console)};
        } catch (const UsageError& error) {
            if (contender.asked.strategy.empty()) throw;
            return {.name = contender.name, .result = {}, .refused = error.what()};
        }
    }

    /// Searchers may prove more than is known to all; it holds for all.
    static Time best_bound(const std::vector<Row>& rows) {
        Time bound;
        for (const Row& row : rows) bound = std::max(bound, row.result.lower_bound);
        return bound;
    }

    static std::optional<double> gap(const Row& row, Time bound) {
        if (!row.feasible() || bound <= Time{0}) return row.result.gap;
        return row.result.evaluation.value / bound - 1;
    }

    static std::string gap_text(const Row& row, Time bound) {
        const std::optional<double> value = gap(row, bound);
        return value ? percent(*value) : "-";
    }

    [[nodiscard]] std::string text(const Loaded& loaded, const std::vector<Row>& rows) const {
        const plan::Problem& problem = *loaded.problem;
        const ModelFacts facts = facts_of(problem.graph(), rules_of(problem));
        const Time bound = best_bound(rows);
        Table table({{.title = strategies_.empty() ? "searcher" : "strategy"},
                     {.title = std::string(name_of(problem.objective())), .align = Align::right},
                     {.title = "gap", .align = Align::right},
                     {.title = "memory", .align = Align::right},
                     {.title = "seconds", .align = Align::right},
                     {.title = "evaluations", .align = Align::right},
                     {.title = "status"},
                     {.title = strategies_.empty() ? "" : "configuration"}});
        for (const Row& row : rows) {
            table.add_row({row.name, row.feasible() ? to_text(row.result.evaluation.value) : "-",
                           gap_text(row, bound), row.feasible() ? to_text(row.memory()) : "-",
                           fmt::format("{:.3f}", row.seconds()),
                           with_commas(row.result.evaluations), row.status(),
                           row.result.configuration});
        }
        std::string result = fact_line("model", model_line(loaded.model, facts));
        result += fact_line("machine", machine_line(loaded.machine));
        result += fact_line("objective", goal_line(problem));
        if (!loaded.costs.measured.empty()) result += fact_line("costs", loaded.costs.measured);
        if (bound > Time{0}) result += fact_line("bound", to_text(bound));
        return result + '\n' + table.to_text();
    }

    static std::string json(const plan::Problem& problem, const std::vector<Row>& rows) {
        const Time bound = best_bound(rows);
        Json searchers = Json::array();
        for (const Row& row : rows) {
            const search::SearchResult& result = row.result;
            searchers.push_back(
                {{"searcher", row.name},
                 {"status", row.status()},
                 {"configuration",
                  result.configuration.empty() ? Json(nullptr) : Json(result.configuration)},
                 {"memory_bytes", row.feasible() ? Json(row.memory().raw()) : Json(nullptr)},
                 {"value_ps", row.feasible() ? Json(result.evaluation.value.raw()) : Json(nullptr)},
                 {"gap", gap(row, bound) ? Json(*gap(row, bound)) : Json(nullptr)},
                 {"elapsed_s", row.seconds()},
                 {"evaluations", result.evaluations}});
        }
        const Json json = {{"objective", name_of(problem.objective())},
                           {"lower_bound_ps", rows.empty() ? Json(nullptr) : Json(bound.raw())},
                           {"searchers", searchers}};
        return json.dump(2) + '\n';
    }

    std::vector<std::filesystem::path> files_;
    ModelOptions model_;
    std::string machine_;
    cost::WhatIf what_if_;
    PlanOptions asked_;
    std::string searchers_;
    std::vector<std::string> strategies_;
};

}  // namespace

std::unique_ptr<Command> make_compare_command() {
    return std::make_unique<CompareCommand>();
}

}  // namespace partita::cli
