// SPDX-License-Identifier: Apache-2.0
#include "cli/execute_command.h"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/measured_rows.h"
#include "api/outputs.h"
#include "api/pricing.h"
#include "api/runtime_library.h"
#include "base/error.h"
#include "base/files.h"
#include "base/sha256.h"
#include "cli/execute_summary.h"
#include "cli/planned.h"
#include "cli/table.h"
#include "cost/profile/profile_database.h"
#include "importers/onnx/tensor_file.h"
#include "importers/onnx/tensor_files.h"
#include "plan/exporters/chrome_trace.h"
#include "plan/files/verify.h"
#include "runtime/communicate/launch.h"

namespace partita::cli {
namespace {

/// CLI::Range lets NaN pass, which is neither below nor above.
CLI::Validator finite_range(double least, double most) {
    return {[=](std::string& text) {
                double value = 0;
                const bool number = CLI::detail::lexical_cast(text, value);
                if (number && value >= least && value <= most) return std::string();
                return fmt::format("expected a number from {} to {}, got {}", least, most, text);
            },
            "", "finite range"};
}

using graph::HostTensor;
using graph::OpKind;

constexpr const char* kSeveralProcesses =
    "\n\nOne process drives all devices of the plan. Started by mpirun, srun or torchrun it is one "
    "rank "
    "of many:\neach drives a block of the devices, all of its node when there are as many "
    "processes as "
    "nodes. The ranks\ncompare plan, model and task graph first; rank 0 reports. When one dies, "
    "hangs, or "
    "carries another plan,\nthe others name it and end with exit code 5 within the time-out.";

/// Names of what ops of that kind hold, in order: of inputs or outputs.
std::vector<std::string> names_of(const graph::OpGraph& graph, OpKind kind) {
    std::vector<std::string> names;
    for (const graph::Op& op : graph.ops()) {
        if (op.kind != kind) continue;
        names.push_back(graph.tensor(kind == OpKind::output ? op.inputs[0] : op.outputs[0]).name);
    }
    return names;
}

/// Of tasks, edges and resource sets. What they cost is for rank 0 to predict: others may know
/// other prices.
std::string digest_without_prices(plan::TaskGraph tasks) {
    for (plan::Task& task : tasks.tasks) task.duration = Time{};
    return plan::digest(tasks);
}

class ExecuteCommand final : public Command {
public:
    void add_options(CLI::App& app) override {
        add_planned_options(app, options_);
        app.description(app.get_description() + kSeveralProcesses);
        app.add_option("--devices", devices_,
                       "cpu:N or cuda:I,J,... (default: the plan's machine); of several processes, "
                       "those of this one")
            ->type_name("D");
        app.add_option("--random-weights", random_weights_,
                       "make up the weights, when the model comes without")
            ->type_name("SEED");
        app.add_flag("--check", check_, "run the model on one device too, and compare");
        app.add_option("--iterations", iterations_, "how often it is measured")
            ->check(CLI::Range(1, 1'000'000))
            ->capture_default_str();
        app.add_option("--warmup", warmup_, "iterations before that")
            ->check(CLI::Range(0, 1'000'000))
            ->capture_default_str();
        app.add_option("--learning-rate", learning_rate_,
                       "of the optimizer (default 0.01; of a sum, over what it sums up)")
            ->check(finite_range(0, 1e6));
        app.add_option("--timeout", timeout_,
                       "seconds that a task may wait for another device or process")
            ->check(finite_range(0.001, 1e6))
            ->capture_default_str();
        app.add_option("--update-profile", database_,
                       "write the measured times of tasks into this database")
            ->type_name("DB")
            ->group("Output");
        app.add_option("--outputs", outputs_,
                       "write what the model gives, with its own weights, into this folder, one "
                       "array of numpy's each (NAME.npy)")
            ->type_name("DIR")
            ->group("Output");
        app.add_option("--report", report_file_,
                       "a page with graph and timeline, predicted above measured")
            ->type_name("FILE")
            ->group("Output");
        app.add_option("--trace", trace_file_,
                       "predicted and measured timeline for ui.perfetto.dev")
            ->type_name("FILE")
            ->group("Output");
    }

    ExitCode run(Console& console) override {
        api::check_outputs(
            {{"--trace", trace_file_}, {"--report", report_file_}, {"--update-profile", database_}},
            {options_.plan, options_.model.file, options_.machine});
        check_database();
        check_folder();
        runtime::Ranks* const ranks = join(console);
        const Planned planned = load(console);
        const plan::Problem& problem = *planned.loaded->problem;
        check_plan(planned);
        if (planned.plan.costs_digest != problem.costs_digest()) {
            console.note(
                "the plan was made with other costs; what is predicted here is by those given "
                "now.");
        }
        const plan::Strategy strategy = plan::strategy_of(planned.plan, problem);
        const plan::Priced priced =
            api::price_as_planned(problem, strategy, planned.plan, plan::Listed::all);
        const runtime::ExecuteResult result = execute(planned, strategy, priced, ranks, console);
        if (ranks != nullptr && ranks->rank() != 0) return ExitCode::done;
        if (!trace_file_.empty()) {
            write_file(trace_file_, plan::chrome_trace({.problem = problem,
                                                        .strategy = strategy,
                                                        .tasks = &priced.tasks,
                                                        .timeline = &*priced.timeline},
                                                       result.runs));
        }
        if (!database_.empty()) update_profile({problem, strategy, priced.tasks, result}, console);
        std::vector<std::filesystem::path> arrays;
        if (!outputs_.empty()) arrays = importers::write_tensor_files(outputs_, result.outputs);
        const Executed executed{problem, priced, result, warmup_, arrays};
        if (!report_file_.empty()) {
            const std::string title =
                fmt::format("{} on {}", planned.loaded->model.file.filename().string(),
                            planned.loaded->machine.name());
            write_file(report_file_, execute_page(executed, strategy, title));
        }
        console.json(execute_json(executed));
        console.print(execute_text(executed));
        for (const std::filesystem::path& file : {trace_file_, report_file_}) {
            if (!file.empty()) console.print(fmt::format("wrote {}\n", file.string()));
        }
        for (const std::filesystem::path& array : arrays) {
            console.print(fmt::format("wrote {}\n", array.string()));
        }
        return check_passed(result) ? ExitCode::done : failed(result, console);
    }

private:
    /// With the other processes; null when this one is alone. What fails from then on they are
    /// told.
    runtime::Ranks* join(Console& console) const {
        const runtime::Launch launch = runtime::read_launch();
        if (launch.size == 1) return nullptr;
        console.options.silent = launch.rank != 0;
        runtime::Runtime& runtime = api::load_runtime();
        // Threads may hang in a library that waits for the others: nothing is destroyed.
        console.at_failure = [](int code, const std::string& /*why*/) { std::_Exit(code); };
        const std::shared_ptr<runtime::Ranks> ranks = runtime.join(launch, timeout());
        console.at_failure = [ranks](int code, const std::string& why) { ranks->fail(code, why); };
        return ranks.get();
    }

    [[nodiscard]] std::chrono::milliseconds timeout() const {
        return std::chrono::milliseconds(static_cast<std::int64_t>(timeout_ * 1e3));
    }

    /// What must be the same for all processes.
    [[nodiscard]] std::vector<std::pair<std::string, std::string>> common(
        const plan::Plan& plan, const plan::Priced& priced) const {
        return {{"version", PARTITA_VERSION},
                {"plan", "sha256:" + Sha256().add(plan::to_json(plan)).finish()},
                {"model", plan.model_digest},
                {"task graph", digest_without_prices(priced.tasks)},
                {"command",
                 fmt::format("iterations {}, warmup {}, check {}, weights {}, learning rate {}, "
                             "inputs {}, outputs {}",
                             iterations_, warmup_, check_,
                             random_weights_ ? std::to_string(*random_weights_) : "of the model",
                             learning_rate_ ? std::to_string(*learning_rate_) : "default",
                             options_.model.inputs.empty() ? "made up" : "given",
                             outputs_.empty() ? "not taken" : "taken")}};
    }

    /// The plan says which model it is of; a data set binds dims only where the plan was made with
    /// it.
    Planned load(Console& console) const {
        PlannedOptions without = options_;
        without.model.inputs.clear();
        try {
            return load_planned(without, console);
        } catch (const MismatchError&) {
            if (options_.model.inputs.empty()) throw;
            return load_planned(options_, console);
        }
    }

    void check_plan(const Planned& planned) const {
        if (planned.loaded->model.is_workload()) {
            throw UsageError(
                fmt::format("{}: a workload has costs and no operators. Execute the "
                            "plan of an ONNX model.",
                            options_.model.file.string()));
        }
        const auto findings =
            plan::verify(*planned.loaded->problem, planned.plan,
                         {.ignore_digests = options_.ignore_digest, .ignore_costs = true});
        if (findings.empty()) return;
        throw MismatchError(fmt::format("{}: not legal: {}{}", options_.plan.string(), findings[0],
                                        findings.size() == 1
                                            ? ""
                                            : fmt::format(" And {} more: `partita verify` lists "
                                                          "them.",
                                                          findings.size() - 1)));
    }

    runtime::ExecuteResult execute(const Planned& planned, const plan::Strategy& strategy,
                                   const plan::Priced& priced, runtime::Ranks* ranks,
                                   Console& console) const {
        runtime::ExecuteRequest request{.problem = &*planned.loaded->problem,
                                        .strategy = &strategy,
                                        .tasks = &priced.tasks,
                                        .order = priced.timeline->commit_order,
                                        .devices = devices_,
                                        .sources = {},
                                        .warmup = warmup_,
                                        .iterations = iterations_,
                                        .learning_rate = learning_rate_,
                                        .check = check_,
                                        .expected = {}};
        request.wants_outputs = !outputs_.empty();
        request.timeout = timeout();
        request.sources.model = planned.loaded->model.source.get();
        request.sources.random_weights = random_weights_;
        read_data_set(planned.loaded->model.graph, request);
        if (ranks != nullptr) {
            request.ranks = ranks;
            request.same = common(planned.plan, priced);
        }
        request.tell = [&](std::string_view text) { console.detail(text); };
        runtime::Runtime& runtime = api::load_runtime();
        console.detail(fmt::format("loaded the runtime: {}", runtime.versions()));
        return runtime.execute(request);
    }

    void read_data_set(const graph::OpGraph& graph, runtime::ExecuteRequest& request) const {
        const std::filesystem::path& place = options_.model.inputs;
        if (place.empty()) return;
        const importers::TensorFiles files(place);
        const auto named = [&](std::string_view stem, OpKind kind) {
            const std::vector<std::string> names = names_of(graph, kind);
            std::vector<HostTensor> tensors = files.read(stem, names);
            if (tensors.size() != names.size() && (kind == OpKind::input || !tensors.empty())) {
                const bool lacks = tensors.size() < names.size();
                throw UsageError(fmt::format(
                    "--inputs {}: expected {} of {}, there are {}. {}.", place.string(),
                    count_of(std::ssize(names), "file"), stem, tensors.size(),
                    lacks ? fmt::format("Write {} for '{}'",
                                        importers::array_file_name(names[tensors.size()]),
                                        names[tensors.size()])
                          : "Remove the others"));
            }
            for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].name = names[i];
            return tensors;
        };
        for (HostTensor& input : named("input", OpKind::input)) {
            std::string name = input.name;
            request.sources.inputs.emplace(std::move(name), std::move(input));
        }
        if (request.problem->mode() == plan::Mode::inference) {
            request.expected = named("output", OpKind::output);
        }
    }

    /// Before a run whose times it could not take.
    void check_database() const {
        if (database_.empty() || !std::filesystem::exists(database_)) return;
        (void)cost::ProfileDatabase::create(database_);
    }

    /// The same of outputs.
    void check_folder() const {
        if (outputs_.empty() || !std::filesystem::exists(outputs_)) return;
        if (std::filesystem::is_directory(outputs_)) return;
        throw UsageError(fmt::format("--outputs {}: is a file. Name a folder.", outputs_.string()));
    }

    void update_profile(const api::MeasuredRun& run, Console& console) const {
        cost::ProfileDatabase database = cost::ProfileDatabase::create(database_);
        const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
            std::chrono::system_clock::now().time_since_epoch());
        const api::RowCount count = api::add_rows(
            database, api::measured_rows(run, api::load_runtime().versions(), seconds.count()));
        console.print(fmt::format("wrote {}: {}, {}\n", database_.string(),
                                  count_of(count.works, "work"),
                                  count_of(count.transfers, "transfer")));
    }

    static ExitCode failed(const runtime::ExecuteResult& result, Console& console) {
        Table table({{"differs"},
                     {"largest", Align::right},
                     {"relative", Align::right},
                     {"at most", Align::right}});
        for (const runtime::Difference& each : result.differences) {
            if (each.ok()) continue;
            table.add_row({each.what, fmt::format("{:.3g}", each.absolute),
                           fmt::format("{:.3g}", each.relative),
                           fmt::format("{:.3g}", each.tolerance)});
        }
        console.err() << "partita: the check failed\n" << table.to_text(2);
        return ExitCode::check_failed;
    }

    PlannedOptions options_;
    std::string devices_;
    std::optional<std::uint64_t> random_weights_;
    bool check_ = false;
    int iterations_ = 10;
    int warmup_ = 3;
    std::optional<double> learning_rate_;
    double timeout_ = 60.0;
    std::filesystem::path database_;
    std::filesystem::path trace_file_;
    std::filesystem::path report_file_;
    std::filesystem::path outputs_;
};

}  // namespace

std::unique_ptr<Command> make_execute_command() {
    return std::make_unique<ExecuteCommand>();
}

}  // namespace partita::cli
