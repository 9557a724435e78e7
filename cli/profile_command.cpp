// SPDX-License-Identifier: Apache-2.0
#include "cli/profile_command.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/imported_times.h"
#include "api/plan_options.h"
#include "api/pricing.h"
#include "api/profiler.h"
#include "api/runtime_library.h"
#include "api/transfer_probes.h"
#include "base/error.h"
#include "base/files.h"
#include "cli/import_summary.h"
#include "cli/interrupt.h"
#include "cli/load.h"
#include "cli/plan_summary.h"
#include "cli/planned.h"
#include "cli/profile_summary.h"
#include "cli/progress.h"
#include "cli/progress_line.h"
#include "cli/shared_options.h"
#include "cli/summary.h"
#include "cli/table.h"
#include "cost/profile/profile_database.h"
#include "plan/files/verify.h"
#include "search/portfolio/search_run.h"
#include "search/profiling/covering_strategies.h"

namespace partita::cli {
namespace {

class ProfileCommand final : public Command {
public:
    void add_options(CLI::App& app) override {
        add_model_options(app, model_);
        add_machine_option(app, machine_);
        add_plan_options(app, asked_, {api::OptionSet::framework, api::OptionSet::training});
        strategy_ = add_plan_option(app, asked_, "strategy",
                                    "measure only what the best plan of that form needs, by what "
                                    "is known before: dp=N, tp=N, pp=N, ... as of `plan`");
        app.add_option("--plan", plan_, "measure only what this plan needs, on its machine")
            ->excludes(strategy_)
            ->type_name("PLAN");
        CLI::Option* device =
            app.add_option("--device", device_,
                           "what to measure on: cpu:N or cuda:I,J,... (default: the machine's)")
                ->type_name("D");
        app.add_option("--db", database_, "the database; what it has is not measured again")
            ->type_name("FILE")
            ->capture_default_str();
        CLI::Option* repeat = app.add_flag("--repeat", repeat_, "measure what it has too");
        CLI::Option* iterations =
            app.add_option("--iterations", iterations_, "of each run, at most")
                ->check(CLI::Range(1, 1'000'000))
                ->capture_default_str();
        CLI::Option* rounds =
            app.add_option(
                   "--rounds", rounds_,
                   "in which all runs are repeated; the quickest counts, and runs wait while "
                   "the host is slower than it was (for hosts that others use too)")
                ->check(CLI::Range(1, 1'000))
                ->capture_default_str();
        add_options_of_others(app, {device, repeat, iterations, rounds});
    }

    ExitCode run(Console& console) override {
        const auto start = std::chrono::steady_clock::now();
        apply_framework(model_, asked_);
        if (strategy_->count() > 0) api::check_form(asked_, false);
        Subject subject = load(console);
        const plan::Problem& problem = *subject.loaded->problem;
        if (subject.loaded->model.is_workload()) {
            throw UsageError(
                fmt::format("{}: a workload has costs and no operators. Profile an "
                            "ONNX model.",
                            model_.file.string()));
        }
        if (!import_.empty() || !export_works_.empty()) return run_elsewhere(subject, console);
        runtime::Runtime& runtime = api::load_runtime();
        runtime.check(problem.graph());
        const runtime::Hardware hardware = runtime.hardware(device_, problem.machine());
        note_threads(problem.machine(), hardware, console);
        const Interrupt interrupt;
        if (const auto ended = find_strategy(subject, interrupt, console)) return *ended;
        cost::ProfileDatabase database = cost::ProfileDatabase::create(database_);
        ProgressLine line(console);
        api::ProfilerOptions options{.devices = device_,
                                     .sources = {.model = subject.loaded->model.source.get(),
                                                 .random_weights = 1,
                                                 .inputs = {}},
                                     .repeat = repeat_,
                                     .iterations = iterations_,
                                     .rounds = rounds_,
                                     .cancelled = &interrupt.flag()};
        std::string what;
        options.progress = [&](double share, const std::string& text) {
            line.show(share, what + text);
        };
        api::Profiler profiler(runtime, database, std::move(options));
        if (hardware.is_own && problem.device_count() > 1 && !subject.strategy) {
            what = "copies and collectives, ";
            api::measure_transfers(profiler, problem.machine());
        }
        what = subject.loaded->model.file.filename().string() + ", ";
        if (subject.strategy) {
            profiler.measure(problem, *subject.strategy, *subject.priced);
        } else {
            profiler.measure(problem, search::covering_strategies(problem));
        }
        const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
        const api::ProfileReport report = profiler.report();
        const Profiled profiled{.report = report,
                                .database = database_,
                                .hardware = hardware,
                                .seconds = elapsed.count()};
        if (profiled.report.interrupted) {
            console.note("interrupted: the same command goes on where it was.");
        }
        console.json(profile_json(profiled));
        console.print(profile_text(profiled));
        return ExitCode::done;
    }

private:
    /// `here`: of measuring, which these leave to others.
    void add_options_of_others(CLI::App& app, std::initializer_list<CLI::Option*> here) {
        CLI::Option* times =
            app.add_option("--import", import_,
                           "measure nothing: take the times of operators from a trace of "
                           "torch.profiler (.json), a table of nsys or of your own (.csv; "
                           "docs/file-formats.md)")
                ->type_name("FILE");
        CLI::Option* works =
            app.add_option(
                   "--export-works", export_works_,
                   "measure nothing: write what there is to measure, for --import to read once "
                   "its times are filled in")
                ->type_name("FILE");
        for (CLI::Option* each : here) {
            times->excludes(each);
            works->excludes(each);
        }
    }

    /// What is measured: all that plans of the model need, or one plan.
    struct Subject {
        std::unique_ptr<Loaded> loaded;
        std::optional<plan::Strategy> strategy;
        std::optional<plan::Priced> priced;
    };

    /// With --strategy the best plan of that form, by the costs that there are without measuring.
    /// The exit code, where that is the end.
    std::optional<ExitCode> find_strategy(Subject& subject, const Interrupt& interrupt,
                                          Console& console) const {
        if (strategy_->count() == 0) return std::nullopt;
        const plan::Problem& problem = *subject.loaded->problem;
        const search::SearchResult result =
            run_search(problem, api::engine_options(asked_), interrupt, console);
        if (!result.has_plan()) return report_no_plan(result, interrupt.flag(), console);
        if (interrupt.flag()) {
            console.note("interrupted: nothing was measured.");
            return ExitCode::done;
        }
        subject.priced = plan::price(problem, result.strategy, result.scheduler, plan::Listed::all);
        subject.strategy = result.strategy;
        return std::nullopt;
    }

    /// --export-works and --import: who measures is somebody else.
    ExitCode run_elsewhere(Subject& subject, Console& console) const {
        const Interrupt interrupt;
        if (const auto ended = find_strategy(subject, interrupt, console)) return *ended;
        const plan::Problem& problem = *subject.loaded->problem;
        const std::vector<plan::Strategy> strategies = subject.strategy
                                                           ? std::vector{*subject.strategy}
                                                           : search::covering_strategies(problem);
        const api::WantedWorks wanted = api::wanted_works(problem, strategies);
        if (!export_works_.empty()) {
            write_file(export_works_, api::works_table(wanted));
            console.print(fact_line("works", fmt::format("{}: {}, for {}", export_works_.string(),
                                                         count_of(std::ssize(wanted.works), "work"),
                                                         wanted.device.model)));
        }
        if (import_.empty()) {
            console.json(exported_json(wanted, export_works_));
            return ExitCode::done;
        }
        const api::ImportedTimes times = api::import_times(import_, wanted, std::time(nullptr));
        const ImportReport report = api::add_to(database_, import_, wanted, times);
        if (report.unknown > 0) {
            console.note(fmt::format("{}: {} of works that plans of this model do not have.",
                                     import_.string(), count_of(report.unknown, "time")));
        }
        console.json(import_json(report, import_, database_));
        console.print(import_text(report, import_, database_));
        return ExitCode::done;
    }

    static void note_threads(const cost::Machine& machine, const runtime::Hardware& hardware,
                             Console& console) {
        const auto other = std::ranges::find_if(machine.devices(), [&](const cost::Device& device) {
            return device.kind == cost::DeviceKind::cpu && device.threads != hardware.threads;
        });
        if (other == machine.devices().end()) return;
        console.note(
            fmt::format("this measures {}; plans for '{}' will not use it: {} has {} there. Leave "
                        "--device out, "
                        "or give a machine file with \"threads\": {}.",
                        hardware.text, machine.name(), other->name,
                        count_of(other->threads, "thread"), hardware.threads));
    }

    Subject load(Console& console) const {
        if (plan_.empty()) {
            return {.loaded = load_problem(model_, machine_, {}, asked_, console),
                    .strategy = {},
                    .priced = {}};
        }
        Planned planned = load_planned(
            {.plan = plan_, .model = model_, .machine = machine_, .asked = {}}, console);
        const auto findings =
            plan::verify(*planned.loaded->problem, planned.plan,
                         {.ignore_digests = !machine_.empty(), .ignore_costs = true});
        if (!findings.empty()) {
            throw MismatchError(fmt::format("{}: not legal: {}", plan_.string(), findings[0]));
        }
        Subject subject{.loaded = std::move(planned.loaded), .strategy = {}, .priced = {}};
        const plan::Problem& problem = *subject.loaded->problem;
        subject.strategy = plan::strategy_of(planned.plan, problem);
        subject.priced =
            api::price_as_planned(problem, *subject.strategy, planned.plan, plan::Listed::all);
        return subject;
    }

    ModelOptions model_;
    std::string machine_;
    PlanOptions asked_;
    CLI::Option* strategy_ = nullptr;
    std::filesystem::path plan_;
    std::string device_;
    std::filesystem::path database_ = "profile.sqlite";
    bool repeat_ = false;
    int iterations_ = 20;
    int rounds_ = 1;
    std::filesystem::path import_;
    std::filesystem::path export_works_;
};

}  // namespace

std::unique_ptr<Command> make_profile_command() {
    return std::make_unique<ProfileCommand>();
}

}  // namespace partita::cli
