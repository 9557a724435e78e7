// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
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

class PlanCommand final : public Command {
public:
    void add_options(CLI::App& app) override {
        add_model_options(app, model_);
        add_machine_option(app, machine_);
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
        search::EngineOptions options = api::engine_options(asked_);
        api::check_learning(asked_, options.searchers);
        const rl::LearnOptions learn = api::learn_options(asked_);
        api::check_outputs(outputs(learn), {model_.file, machine_, asked_.fix, asked_.profile,
                                            start_, learn.load_policy});
        const auto loaded = load_problem(model_, machine_, what_if_, asked_, console);
        const plan::Problem& problem = *loaded->problem;
        if (default_output()) check_holds_no_other_plan(plan_file_, loaded->model.graph);
        if (!trace_file_.empty() && !api::has_timeline(problem)) {
            throw UsageError(
                "--trace: a plan of given costs has loads and no timeline. Leave it out; --report "
                "writes a page with the loads.");
        }
        if (!start_.empty()) {
            options.start = plan::strategy_of(plan::read_plan(start_), problem);
        }
        std::optional<api::MeasuredReward> reward;
        if (asked_.reward == Reward::measured) {
            reward.emplace(api::load_runtime(), problem, loaded->model.source.get(),
                           options.scheduler);
            options.measure = [&reward](const plan::Strategy& each) { return reward->time(each); };
            console.detail(fmt::format("candidates run on {}", reward->hardware()));
        }
        const auto learned = api::load_learned(learn, options.searchers);
        options.learned = learned.get();

        const Interrupt interrupt;
        console.detail("searching; Ctrl-C ends the search with the best plan so far");
        const search::SearchResult result =
            run_search(problem, std::move(options), interrupt, console);
        if (reward) note_failures(*reward, result, console);
        PlanSummary summary(*loaded, result);
        if (!result.has_plan()) {
            console.json(summary.json("", nullptr));
            for (const std::string& note : result.notes) console.note(note);
            return report_no_plan(result, interrupt.flag(), console);
        }
        if (interrupt.flag()) console.note("interrupted: this is the best plan so far.");
        const plan::Priced priced =
            plan::price(problem, result.strategy, result.scheduler, api::listed(asked_));
        const plan::Plan plan =
            api::make_plan(loaded->model, problem, result, priced, loaded->costs);
        const plan::ExportInput planned{.problem = problem,
                                        .strategy = result.strategy,
                                        .tasks = &priced.tasks,
                                        .timeline = priced.timeline ? &*priced.timeline : nullptr};
        write_files(plan, planned, report_file_.empty() ? std::string() : summary.page(priced));
        console.json(summary.json(plan_file_.string(), &priced));
        console.print(summary.text(priced, Console::stdout_terminal()));
        for (const auto& file : {plan_file_, trace_file_, report_file_}) {
            if (!file.empty()) console.print(fmt::format("wrote {}\n", file.string()));
        }
        return ExitCode::done;
    }

private:
    [[nodiscard]] bool default_output() const { return output_->count() == 0; }

    [[nodiscard]] std::vector<api::Output> outputs(const rl::LearnOptions& learn) const {
        std::vector<api::Output> outputs = api::outputs_of(learn);
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
    cost::WhatIf what_if_;
    PlanOptions asked_;
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
