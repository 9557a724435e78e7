// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/learned_library.h"
#include "api/measured_reward.h"
#include "api/outputs.h"
#include "api/plan_options.h"
#include "api/pricing.h"
#include "api/request.h"
#include "api/runtime_library.h"
#include "base/error.h"
#include "base/files.h"
#include "cli/interrupt.h"
#include "cli/load.h"
#include "cli/plan_summary.h"
#include "cli/progress.h"
#include "cli/shared_options.h"
#include "cli/size_table.h"
#include "cli/sizes.h"
#include "cost/machine/machine_file.h"
#include "plan/exporters/exporter.h"
#include "plan/files/plan_file.h"
#include "plan/problem/loss_graph.h"
#include "search/portfolio/search_run.h"

namespace partita::cli {
namespace {

/// What nobody named is written over only where it is a plan of the same ops.
void check_holds_no_other_plan(const std::filesystem::path& file, const graph::OpGraph& model) {
    if (!std::filesystem::exists(file)) return;
    std::string what;
    try {
        plan::Plan plan = plan::read_plan(file);
        std::erase_if(plan.ops, [&](const plan::PlannedOp& op) {
            return plan::is_added_by_loss(model, op.name, op.type);
        });
        const auto same_op = [](const plan::PlannedOp& planned, const graph::Op& op) {
            return planned.name == op.name && planned.type == op.type;
        };
        if (std::ranges::equal(plan.ops, model.ops(), same_op)) return;
        what = fmt::format("a plan of another model, {}", plan.model_file);
    } catch (const InputError&) {
        what = "something that is no plan";
    }
    throw UsageError(
        fmt::format("{} holds {}. Say where the plan goes (-o FILE; -o {} writes over it).",
                    file.string(), what, file.string()));
}

std::string dumped(const nlohmann::ordered_json& json) {
    return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

class PlanCommand final : public Command {
public:
    void add_options(CLI::App& app) override {
        add_model_options(app, model_, &sizes_.batches);
        add_machine_option(app, machine_, /*several=*/true);
        add_size_options(app, sizes_);
        add_what_if_options(app, what_if_);
        using api::OptionSet;
        add_plan_options(
            app, asked_,
            {OptionSet::framework, OptionSet::training, OptionSet::objective,
             OptionSet::constraints, OptionSet::costs, OptionSet::searchers, OptionSet::budget});
        app.add_option("--import-plan", start_, "start the search from this plan")
            ->type_name("FILE")
            ->group("Search");
        add_plan_options(app, asked_, {OptionSet::learning});
        output_ = app.add_option("-o,--output", plan_file_,
                                 "the plan (default plan.json, if that is no other model's)")
                      ->type_name("FILE")
                      ->group("Output");
        add_plan_options(app, asked_, {OptionSet::output});
        app.add_option("--trace", trace_file_, "the timeline for ui.perfetto.dev")
            ->type_name("FILE")
            ->group("Output");
        app.add_option("--report", report_file_, "a page with graph, timeline, memory and tables")
            ->type_name("FILE.html")
            ->group("Output");
    }

    ExitCode run(Console& console) override {
        apply_framework(model_, asked_);
        api::check_form(asked_, !start_.empty());
        api::check_learning(asked_, api::engine_options(asked_).searchers);
        learn_ = api::learn_options(asked_);
        if (asks_for_table(machine_, sizes_)) return run_sizes(console);
        api::check_outputs(outputs(), {model_.file, machine_, asked_.fix, asked_.profile, start_,
                                       learn_.load_policy});
        Found found = find({machine_, model_.batch}, console);
        if (!found.result.has_plan()) {
            console.json(dumped(PlanSummary(*found.loaded, found.result).json("", nullptr)));
            return without_plan(found.result, console);
        }
        return write(found, nullptr, console);
    }

private:
    [[nodiscard]] bool default_output() const { return output_->count() == 0; }

    struct Found {
        std::unique_ptr<Loaded> loaded;
        search::SearchResult result;
    };

    /// With the options of this size. `label`: of the progress bar.
    Found find(const Size& size, Console& console, const std::string& label = "") {
        model_.batch = size.batch;
        Found found{.loaded = load_problem(model_, size.machine, what_if_, asked_, console),
                    .result = {}};
        const plan::Problem& problem = *found.loaded->problem;
        if (default_output()) check_holds_no_other_plan(plan_file_, found.loaded->model.graph);
        if (!trace_file_.empty() && !api::has_timeline(problem)) {
            throw UsageError(
                "--trace: a plan of given costs has loads and no timeline. Leave it out; --report "
                "writes a page with the loads.");
        }
        search::EngineOptions options = api::engine_options(asked_);
        if (!start_.empty()) {
            options.start = plan::strategy_of(plan::read_plan(start_), problem);
        }
        std::optional<api::MeasuredReward> reward;
        if (asked_.reward == Reward::measured) {
            reward.emplace(api::load_runtime(), problem, found.loaded->model.source.get(),
                           options.scheduler);
            options.measure = [&reward](const plan::Strategy& each) { return reward->time(each); };
            console.detail(fmt::format("candidates run on {}", reward->hardware()));
        }
        const auto learned = api::load_learned(learn_, options.searchers);
        options.learned = learned.get();
        if (!interrupt_) interrupt_.emplace();
        console.detail("searching; Ctrl-C ends the search with the best plan so far");
        found.result = run_search(problem, std::move(options), *interrupt_, console, label);
        if (reward) note_failures(*reward, found.result, console);
        return found;
    }

    [[nodiscard]] bool interrupted() const { return interrupt_ && interrupt_->flag(); }

    ExitCode without_plan(const search::SearchResult& result, Console& console) const {
        for (const std::string& note : result.notes) console.note(note);
        return report_no_plan(result, interrupted(), console);
    }

    /// Prices what was found, writes all that was asked for, and says so. `table`: of all sizes.
    ExitCode write(Found& found, const SizeTable* table, Console& console) {
        const Loaded& loaded = *found.loaded;
        const search::SearchResult& result = found.result;
        const plan::Problem& problem = *loaded.problem;
        PlanSummary summary(loaded, result);
        if (interrupted()) console.note("interrupted: this is the best plan so far.");
        const plan::Priced priced =
            plan::price(problem, result.strategy, result.scheduler, api::listed(asked_),
                        std::exchange(found.result.folded_tasks, std::nullopt));
        const plan::Plan plan = api::make_plan(loaded.model, problem, result, priced, loaded.costs);
        const plan::ExportInput planned{.problem = problem,
                                        .strategy = result.strategy,
                                        .tasks = &priced.tasks,
                                        .timeline = priced.timeline ? &*priced.timeline : nullptr};
        write_files(plan, planned, report_file_.empty() ? std::string() : summary.page(priced));
        auto json = summary.json(plan_file_.string(), &priced);
        if (table != nullptr) json["sizes"] = table->json();
        console.json(dumped(json));
        if (table != nullptr) console.print(table->text(Console::stdout_terminal()) + '\n');
        console.print(summary.text(priced, console));
        for (const auto& file : {plan_file_, trace_file_, report_file_}) {
            if (!file.empty()) console.print(fmt::format("wrote {}\n", file.string()));
        }
        return ExitCode::done;
    }

    /// Searches each size, with all of --time-limit, and writes the plan of the best one.
    ExitCode run_sizes(Console& console) {
        refuse_one_size_only();
        const std::vector<Size> sizes = sizes_of(machine_, sizes_);
        api::check_outputs(outputs(), {model_.file, asked_.fix, asked_.profile});
        SizeTable table(sizes_.most_time);
        Found best;
        Found without;  // the last that is not
        for (std::size_t i = 0; i < sizes.size() && !interrupted(); ++i) {
            const std::string label =
                fmt::format("{} of {}, {}: ", i + 1, sizes.size(), size_text(sizes[i]));
            try {
                Found found = find(sizes[i], console, label);
                table.add(sizes[i], *found.loaded, found.result);
                const bool is_best = table.best() == table.rows().size() - 1;
                (is_best ? best : without) = std::move(found);
            } catch (const UsageError& error) {
                if (asked_.strategy.empty() || sizes[i].machine.empty()) throw;
                console.note(fmt::format("{}: {}", size_text(sizes[i]), error.what()));
                table.add_refused(sizes[i], cost::load_machine(sizes[i].machine));
            }
        }
        if (best.loaded) return write(best, &table, console);
        console.print(table.text(Console::stdout_terminal()) + '\n');
        if (!without.loaded) {
            throw UsageError("--strategy: no machine of the table can have it.");
        }
        auto json = PlanSummary(*without.loaded, without.result).json("", nullptr);
        json["sizes"] = table.json();
        console.json(dumped(json));
        return without_plan(without.result, console);
    }

    /// Throws UsageError for options that mean one machine, or write a file for each search.
    void refuse_one_size_only() const {
        const auto refuse = [](bool given, std::string_view option) {
            if (!given) return;
            throw UsageError(
                fmt::format("{}: is of one size, and a table of sizes was asked for. Say one "
                            "machine and one batch.",
                            option));
        };
        refuse(!start_.empty(), "--import-plan");
        refuse(!learn_.save_policy.empty(), "--save-policy");
        refuse(!asked_.learning_curve.empty(), "--learning-curve");
        refuse(asked_.reward == Reward::measured, "--reward measured");
    }

    [[nodiscard]] std::vector<api::Output> outputs() const {
        std::vector<api::Output> outputs = api::outputs_of(learn_);
        outputs.insert(outputs.begin(),
                       {{"-o", plan_file_}, {"--trace", trace_file_}, {"--report", report_file_}});
        return outputs;
    }

    static void note_failures(const api::MeasuredReward& reward, const search::SearchResult& result,
                              Console& console) {
        if (reward.failures() == 0) return;
        console.note(
            fmt::format("{} of {} candidates that ran failed, or took too long. The last: {}",
                        reward.failures(), result.measurements, reward.last_failure()));
        if (result.measured) return;
        console.note("none ran to its end: this is the best plan by prediction.");
    }

    /// The plan last: where there is a new one, the others are new too.
    void write_files(const plan::Plan& plan, const plan::ExportInput& planned,
                     const std::string& page) const {
        if (!trace_file_.empty()) {
            write_file(trace_file_, plan::export_as("chrome-trace", planned));
        }
        if (!report_file_.empty()) write_file(report_file_, page);
        write_file(plan_file_, plan::to_json(plan));
    }

    ModelOptions model_;
    std::string machine_;
    SizeOptions sizes_;
    cost::WhatIf what_if_;
    PlanOptions asked_;
    rl::LearnOptions learn_;
    /// From the first search on: while a model is read, Ctrl-C ends the program.
    std::optional<Interrupt> interrupt_;
    std::filesystem::path start_;
    CLI::Option* output_ = nullptr;
    std::filesystem::path plan_file_ = "plan.json";
    std::filesystem::path trace_file_;
    std::filesystem::path report_file_;
};

}  // namespace

std::unique_ptr<Command> make_plan_command() {
    return std::make_unique<PlanCommand>();
}

}  // namespace partita::cli
