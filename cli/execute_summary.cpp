// SPDX-License-Identifier: Apache-2.0
#include "cli/execute_summary.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/report/report.h"
#include "base/statistics.h"
#include "cli/summary.h"
#include "cli/table.h"

namespace partita::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWorstTasks = 5;
constexpr std::size_t kNameWidth = 60;

Time predicted(const Executed& executed) {
    return executed.priced.timeline ? executed.priced.timeline->makespan
                                    : executed.priced.evaluation.value;
}

Time median(const Executed& executed) {
    return quantile(executed.result.iterations, 0.5);
}

/// predicted / measured - 1.
double error_of(Time predicted, Time measured) {
    return measured > Time{0} ? predicted / measured - 1.0 : 0.0;
}

std::string signed_percent(double ratio) {
    return (ratio >= 0 ? "+" : "-") + percent(std::abs(ratio));
}

/// Tasks by how far off their prediction is, in time.
std::vector<std::size_t> worst_tasks(const Executed& executed) {
    const auto& tasks = executed.priced.tasks.tasks;
    std::vector<std::size_t> order(tasks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto gap = [&](std::size_t t) {
        return std::abs(tasks[t].duration.raw() - executed.result.times[t].median.raw());
    };
    std::ranges::stable_sort(order, std::greater{}, gap);
    order.resize(std::min(order.size(), kWorstTasks));
    return order;
}

/// Task, device, predicted, measured, error.
std::vector<std::vector<std::string>> worst_rows(const Executed& executed) {
    std::vector<std::vector<std::string>> rows;
    for (const std::size_t t : worst_tasks(executed)) {
        const plan::Task& task = executed.priced.tasks.tasks[t];
        const Time measured = executed.result.times[t].median;
        rows.push_back({shortened(task_name(executed.problem, task), kNameWidth),
                        executed.problem.machine().device(task.device).name, to_text(task.duration),
                        to_text(measured), signed_percent(error_of(task.duration, measured))});
    }
    return rows;
}

std::string worst_table(const Executed& executed) {
    Table table({{"largest errors"},
                 {"device"},
                 {"predicted", Align::right},
                 {"measured", Align::right},
                 {"error", Align::right}});
    for (std::vector<std::string>& row : worst_rows(executed)) table.add_row(std::move(row));
    return table.to_text();
}

/// Measured: per device, computing.
std::vector<Time> busy_times(const Executed& executed) {
    std::vector<Time> busy(executed.priced.evaluation.devices.size());
    for (std::size_t t = 0; t < executed.priced.tasks.size(); ++t) {
        const plan::Task& task = executed.priced.tasks.tasks[t];
        if (is_communication(task)) continue;
        busy[static_cast<std::size_t>(task.device)] += executed.result.times[t].median;
    }
    return busy;
}

std::string memory_table(const Executed& executed) {
    Table table({{"device"},
                 {"busy, predicted", Align::right},
                 {"busy, measured", Align::right},
                 {"memory, predicted", Align::right},
                 {"memory, measured", Align::right}});
    const auto& uses = executed.priced.evaluation.devices;
    const std::vector<Time> busy = busy_times(executed);
    for (std::size_t d = 0; d < uses.size(); ++d) {
        table.add_row({executed.problem.machine().device(static_cast<int>(d)).name,
                       to_text(uses[d].busy), to_text(busy[d]), to_text(uses[d].memory),
                       to_text(executed.result.memory[d])});
    }
    return table.to_text();
}

const runtime::Difference* worst_difference(const runtime::ExecuteResult& result) {
    const auto worst =
        std::ranges::max_element(result.differences, {}, [](const runtime::Difference& each) {
            return each.ok() ? each.relative : each.relative + 1e6;
        });
    return worst == result.differences.end() ? nullptr : &*worst;
}

std::string check_text(const runtime::ExecuteResult& result) {
    const runtime::Difference* const worst = worst_difference(result);
    const std::string most = fmt::format("largest relative difference {:.2g} (at most {:.2g}), {}",
                                         worst->relative, worst->tolerance, worst->what);
    const auto compared = count_of(static_cast<std::int64_t>(result.differences.size()), "tensor");
    return check_passed(result) ? fmt::format("passed, {}; {}", compared, most)
                                : fmt::format("FAILED, {}; {}", compared, most);
}

/// Label and value.
std::vector<std::pair<std::string, std::string>> facts(const Executed& executed) {
    const runtime::ExecuteResult& result = executed.result;
    std::vector<std::pair<std::string, std::string>> facts{
        {"measured",
         fmt::format("{} median, {} p95, {} p99 of {} after {} to warm up",
                     to_text(median(executed)), to_text(quantile(result.iterations, 0.95)),
                     to_text(quantile(result.iterations, 0.99)),
                     count_of(static_cast<std::int64_t>(result.iterations.size()), "iteration"),
                     executed.warmup)},
        {"predicted", fmt::format("{} ({} of the median)", to_text(predicted(executed)),
                                  signed_percent(error_of(predicted(executed), median(executed))))},
        {"devices", result.hardware.text}};
    if (result.loss) facts.emplace_back("loss", fmt::format("{:.6g}", *result.loss));
    if (!result.differences.empty()) facts.emplace_back("check", check_text(result));
    return facts;
}

}  // namespace

bool check_passed(const runtime::ExecuteResult& result) {
    return std::ranges::all_of(result.differences, &runtime::Difference::ok);
}

std::string execute_text(const Executed& executed) {
    std::string text;
    for (const auto& [label, value] : facts(executed)) text += fact_line(label, value);
    text += '\n' + memory_table(executed) + '\n' + worst_table(executed);
    return text;
}

std::string execute_page(const Executed& executed, const plan::Strategy& strategy,
                         const std::string& title) {
    const plan::Priced& priced = executed.priced;
    return api::report_page({.problem = executed.problem,
                             .strategy = strategy,
                             .evaluation = priced.evaluation,
                             .tasks = &priced.tasks,
                             .timeline = &*priced.timeline,
                             .memory = priced.memory,
                             .title = title,
                             .subtitle = "executed: predicted above measured, of one iteration",
                             .facts = facts(executed),
                             .measured = api::ReportMeasured{.runs = executed.result.runs,
                                                             .busy = busy_times(executed),
                                                             .memory = executed.result.memory},
                             .compared_heading = "Largest errors",
                             .compared_titles = {"", "device", "predicted", "measured", "error"},
                             .compared_rows = worst_rows(executed)});
}

std::string execute_json(const Executed& executed) {
    const runtime::ExecuteResult& result = executed.result;
    Json devices = Json::array();
    Bytes predicted_bytes{0};
    Bytes measured_bytes{0};
    for (std::size_t d = 0; d < executed.priced.evaluation.devices.size(); ++d) {
        const plan::DeviceUse& use = executed.priced.evaluation.devices[d];
        predicted_bytes = std::max(predicted_bytes, use.memory);
        measured_bytes = std::max(measured_bytes, result.memory[d]);
        devices.push_back({{"name", executed.problem.machine().device(static_cast<int>(d)).name},
                           {"predicted_bytes", use.memory.raw()},
                           {"measured_bytes", result.memory[d].raw()}});
    }
    Json json = {
        {"predicted_ps", predicted(executed).raw()},
        {"measured_ps",
         {{"median", median(executed).raw()},
          {"p95", quantile(result.iterations, 0.95).raw()},
          {"p99", quantile(result.iterations, 0.99).raw()}}},
        {"error", error_of(predicted(executed), median(executed))},
        {"memory",
         {{"predicted_bytes", predicted_bytes.raw()}, {"measured_bytes", measured_bytes.raw()}}},
        {"tasks", executed.priced.tasks.size()},
        {"check", nullptr},
        {"loss", nullptr},
        {"devices", devices}};
    if (result.loss) json["loss"] = *result.loss;
    json["outputs"] = Json::array();
    for (const std::filesystem::path& file : executed.outputs) {
        json["outputs"].push_back(file.string());
    }
    if (!result.differences.empty()) {
        double absolute = 0.0;
        double relative = 0.0;
        for (const runtime::Difference& each : result.differences) {
            absolute = std::max(absolute, each.absolute);
            relative = std::max(relative, each.relative);
        }
        json["check"] = {
            {"max_abs_error", absolute}, {"max_rel_error", relative}, {"ok", check_passed(result)}};
    }
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace partita::cli
