// SPDX-License-Identifier: Apache-2.0
#include "cli/simulate_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "api/names.h"
#include "api/outputs.h"
#include "api/plan_options.h"
#include "api/pricing.h"
#include "base/error.h"
#include "base/files.h"
#include "cli/description.h"
#include "cli/device_json.h"
#include "cli/planned.h"
#include "cli/summary.h"
#include "cli/table.h"
#include "plan/evaluation/evaluator.h"
#include "plan/exporters/exporter.h"
#include "plan/legality/config_legality.h"

namespace partita::cli {
namespace {

using Json = nlohmann::ordered_json;

class SimulateCommand final : public Command {
public:
    void add_options(CLI::App& app) override {
        add_planned_options(app, options_);
        add_what_if_options(app, options_.what_if);
        add_plan_options(app, options_.asked, {api::OptionSet::training});
        scheduler_ = add_plan_option(
            app, options_.asked, "scheduler",
            "order the tasks anew by fifo, rank, pct or msr; default: the plan's order");
        add_plan_options(app, options_.asked, {api::OptionSet::output});
        app.add_option("--trace", trace_file_, "the timeline for ui.perfetto.dev")
            ->type_name("FILE")
            ->group("Output");
    }

    ExitCode run(Console& console) override {
        api::check_outputs({{"--trace", trace_file_}}, {options_.plan, options_.model.file,
                                                        options_.machine, options_.asked.profile});
        const Planned planned = load_planned(options_, console);
        note_costs(planned, console);
        const plan::Problem& problem = *planned.loaded->problem;
        plan::Strategy strategy = plan::strategy_of(planned.plan, problem);
        check_policy(planned.plan.policy, problem.policy());
        strategy.policy = problem.policy();
        if (const auto fault = plan::find_fault(problem, strategy)) {
            throw UsageError(
                fmt::format("{} cannot run that way: {}. Plan again with these options.",
                            options_.plan.string(), *fault));
        }
        const plan::Priced priced = price(planned, strategy, console);
        if (!trace_file_.empty()) {
            write_file(trace_file_, plan::export_as("chrome-trace",
                                                    {.problem = problem,
                                                     .strategy = strategy,
                                                     .tasks = &priced.tasks,
                                                     .timeline = priced.timeline ? &*priced.timeline
                                                                                 : nullptr}));
        }
        console.json(json(planned, strategy, priced));
        console.print(text(planned, strategy, priced, console));
        if (!trace_file_.empty()) console.print(fmt::format("wrote {}\n", trace_file_.string()));
        if (priced.evaluation.feasible()) return ExitCode::done;
        console.err() << fmt::format("partita: infeasible: {}\n",
                                     plan::why_infeasible(problem, strategy, priced.evaluation));
        return ExitCode::infeasible;
    }

private:
    void note_costs(const Planned& planned, Console& console) const {
        const std::string measured = api::measured_costs_of(planned.plan);
        if (measured.empty() || !options_.asked.profile.empty()) return;
        console.note(fmt::format(
            "the plan was made with measured costs of {}. Give --profile to price it by them.",
            measured));
    }

    /// How gradients are summed is part of where a plan puts parameters and updates.
    static void check_policy(const plan::Policy& planned, const plan::Policy& wanted) {
        if (wanted.gradient_sync == planned.gradient_sync) return;
        throw UsageError(fmt::format(
            "--gradient-sync {}: the plan was made for {}, and its placement says so. Plan again.",
            name_of(wanted.gradient_sync), name_of(planned.gradient_sync)));
    }

    [[nodiscard]] plan::Listed listed() const { return api::listed(options_.asked); }

    /// In the plan's order, unless a new one is asked for, or needed because the tasks are others.
    plan::Priced price(const Planned& planned, const plan::Strategy& strategy,
                       Console& console) const {
        const plan::Problem& problem = *planned.loaded->problem;
        if (scheduler_->count() > 0) {
            return plan::price(problem, strategy, api::to_internal(options_.asked.scheduler),
                               listed());
        }
        const auto named = plan::scheduler_from_name(planned.plan.scheduler);
        if (problem.mode() != planned.plan.mode && named) {
            console.note(fmt::format("--mode {}: the plan is for {}, its tasks are ordered anew.",
                                     name_of(problem.mode()), name_of(planned.plan.mode)));
            return plan::price(problem, strategy, *named, listed());
        }
        const plan::Policy& policy = problem.policy();
        const plan::Policy& own = planned.plan.policy;
        if (named &&
            (policy.micro_batches != own.micro_batches || policy.schedule != own.schedule)) {
            console.note(
                fmt::format("micro-batches {}, schedule {}: the plan has {} and {}, its tasks are "
                            "ordered anew.",
                            policy.micro_batches, to_text(policy.schedule), own.micro_batches,
                            to_text(own.schedule)));
            return plan::price(problem, strategy, *named, listed());
        }
        if (named && has_other_tasks(policy, own)) {
            console.note(
                "the plan is for other --bucket-bytes, --clip-norm or --frozen, its tasks are "
                "ordered anew.");
            return plan::price(problem, strategy, *named, listed());
        }
        return api::price_as_planned(problem, strategy, planned.plan, listed());
    }

    /// Beside those of micro-batches and schedules.
    static bool has_other_tasks(const plan::Policy& a, const plan::Policy& b) {
        return a.bucket_bytes != b.bucket_bytes || a.frozen != b.frozen ||
               (a.clip_norm > 0) != (b.clip_norm > 0);
    }

    static std::string text(const Planned& planned, const plan::Strategy& strategy,
                            const plan::Priced& priced, const Console& console) {
        const plan::Problem& problem = *planned.loaded->problem;
        const ModelFacts facts = facts_of(problem.graph(), rules_of(problem));
        std::string value = to_text(priced.evaluation.value);
        if (planned.plan.value > Time{0}) {
            value += fmt::format(" (the plan says {}: {:.3f} times)", to_text(planned.plan.value),
                                 priced.evaluation.value / planned.plan.value);
        }
        std::string result = fact_line("model", model_line(planned.loaded->model, facts));
        result += fact_line("machine", machine_line(planned.loaded->machine));
        result += fact_line("objective", goal_line(problem));
        result += fact_line("strategy", strategy_lines(problem, strategy));
        result += fact_line("simulated", value);
        const std::string throughput =
            throughput_line(plan::throughput_of(problem, strategy, priced.evaluation.value));
        if (!throughput.empty()) result += fact_line("throughput", throughput);
        const std::string moved = communication_line(communication_of(problem, priced.tasks));
        if (!moved.empty()) result += fact_line("per device", moved);
        const std::string waits = waits_line(problem, priced);
        if (!waits.empty()) result += fact_line("a device", waits);
        if (!planned.loaded->costs.measured.empty()) {
            const auto counts = count_costs(*planned.loaded, strategy, priced.tasks);
            result += fact_line("costs", costs_line(*planned.loaded, counts));
        }
        return result + devices_text(problem, strategy, priced, Console::stdout_terminal(),
                                     lines_below(result, console));
    }

    static std::string json(const Planned& planned, const plan::Strategy& strategy,
                            const plan::Priced& priced) {
        const plan::Problem& problem = *planned.loaded->problem;
        Json costs = Json::object();
        for (const auto& [source, count] :
             named_counts(count_costs(*planned.loaded, strategy, priced.tasks))) {
            costs[std::string(source)] = count;
        }
        const Json json = {
            {"objective", name_of(problem.objective())},
            {"value_ps", priced.evaluation.value.raw()},
            {"planned_ps", planned.plan.value.raw()},
            {"strategy", strategy_json(problem, strategy)},
            {"communication", communication_json(communication_of(problem, priced.tasks))},
            {"throughput",
             throughput_json(plan::throughput_of(problem, strategy, priced.evaluation.value))},
            {"fits", priced.evaluation.feasible()},
            {"machine", problem.machine().name()},
            {"tasks", priced.tasks.whole_size()},
            {"costs", costs},
            {"devices", devices_json(problem, priced.evaluation, priced.memory)}};
        return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
    }

    PlannedOptions options_;
    CLI::Option* scheduler_ = nullptr;
    std::filesystem::path trace_file_;
};

}  // namespace

std::unique_ptr<Command> make_simulate_command() {
    return std::make_unique<SimulateCommand>();
}

}  // namespace partita::cli
