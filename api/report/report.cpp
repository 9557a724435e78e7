// SPDX-License-Identifier: Apache-2.0
#include "api/report/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <map>
#include <string_view>

#include "api/report/report_html.h"
#include "base/json.h"
#include "graph/dtype.h"
#include "plan/description/bottleneck.h"
#include "plan/description/communication.h"
#include "plan/legality/stages.h"
#include "plan/simulation/peak_memory.h"

namespace partita::api {
namespace {
using graph::OpId;
using graph::OpKind;

template <class Range, class Cell>
std::string json_array(const Range& range, Cell cell) {
    std::string text = "[";
    for (const auto& item : range) {
        if (text.size() > 1) text += ',';
        text += cell(item);
    }
    return text + ']';
}

std::string texts(const std::vector<std::string>& items) {
    return json_array(items, json_quoted);
}

/// Parameters and constants follow their users and would hide the picture.
bool is_shown(const graph::Op& op) {
    return op.kind != OpKind::parameter && op.kind != OpKind::constant;
}

/// Bytes of each kind of memory, in their order.
std::string kinds_of(const plan::MemoryByKind& memory) {
    return json_array(plan::kMemoryKinds,
                      [&](plan::MemoryKind kind) { return std::to_string(memory[kind].raw()); });
}

std::string devices(const ReportInput& input) {
    std::vector<std::int64_t> ops(static_cast<std::size_t>(input.problem.device_count()), 0);
    for (std::size_t i = 0; i < input.problem.graph().op_count(); ++i) {
        if (!input.problem.facts().has_forward(OpId(i))) continue;
        const plan::DeviceSet& of = input.strategy.config(OpId(i)).devices;
        for (int part = 0; part < of.size(); ++part) ++ops[static_cast<std::size_t>(of[part])];
    }
    const plan::Pipeline pipeline = plan::pipeline_of(input.problem, input.strategy);
    const auto told = input.tasks == nullptr ? std::vector<std::int32_t>(ops.size(), 1)
                                             : plan::stands_for(*input.tasks);
    std::size_t d = 0;
    return json_array(input.problem.machine().devices(), [&](const cost::Device& device) {
        const plan::DeviceUse& use = input.evaluation.devices[d];
        const Bytes capacity = input.problem.constraints().memory_capacity(static_cast<int>(d));
        const std::string kinds = input.memory.empty() ? "[]" : kinds_of(input.memory[d]);
        const std::int32_t alike = told[d];
        const std::int32_t stage = pipeline.stage_of_device[d];
        const std::string measured =
            input.measured
                ? fmt::format(R"(,"measuredBusy":{},"measuredPeak":{})",
                              input.measured->busy[d].raw(), input.measured->memory[d].raw())
                : "";
        return fmt::format(
            R"({{"name":{},"busy":{},"peak":{},"capacity":{},"held":{},"ops":{},"alike":{},"stage":{}{}}})",
            json_quoted(device.name), use.busy.raw(), use.memory.raw(), capacity.raw(), kinds,
            ops[d++], alike, stage, measured);
    });
}

/// Texts by number: what many ops share is written once.
class Shared {
public:
    std::size_t number_of(const std::string& text) {
        const auto [known, is_new] = numbers_.emplace(text, texts_.size());
        if (is_new) texts_.push_back(text);
        return known->second;
    }
    [[nodiscard]] std::string json() const { return fmt::format("[{}]", fmt::join(texts_, ",")); }

private:
    std::map<std::string, std::size_t> numbers_;
    std::vector<std::string> texts_;
};

/// The devices of an op's parts as in plan.json.
std::string device_list(const plan::DeviceSet& devices) {
    if (!devices.is_list()) {
        return fmt::format(R"({{"first":{},"count":{},"stride":{}}})", devices.first(),
                           devices.size(), devices.stride());
    }
    std::vector<int> list;
    for (int part = 0; part < devices.size(); ++part) list.push_back(devices[part]);
    return fmt::format("[{}]", fmt::join(list, ","));
}

/// "n 2, k 4"; "" of a whole op.
std::string degrees(const graph::OpRule& rule, const plan::OpConfig& config) {
    std::string text;
    for (const plan::Axis& axis : config.axes) {
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(rule, axis), axis.degree);
    }
    return text;
}

/// "float32 [8 64], 2.00 KiB"; "" of what gives nothing.
std::string made_by(const graph::OpGraph& graph, const graph::Op& op) {
    if (op.outputs.empty() || !op.outputs.front().valid()) return "";
    const graph::Tensor& tensor = graph.tensor(op.outputs.front());
    return fmt::format("{} [{}], {}", graph::name_of(tensor.dtype), fmt::join(tensor.shape, " "),
                       to_text(tensor.bytes()));
}

/// Per op what it has moved: ["all-reduce of gradients", messages, bytes, ps], of all devices together,
/// each in the order in which it first goes.
std::vector<std::string> moves_of_ops(const ReportInput& input) {
    struct Sum {
        std::int64_t messages = 0;
        Int128 bytes = 0;
        Int128 time = 0;
    };
    std::vector<std::vector<std::pair<std::string, Sum>>> moves(input.problem.graph().op_count());
    for (std::size_t i = 0; input.tasks != nullptr && i < input.tasks->size(); ++i) {
        const plan::Task& task = input.tasks->tasks[i];
        if (!is_communication(task)) continue;
        auto& of_op = moves[task.op.index()];
        const std::string what = plan::moved_text(input.problem, task);
        auto known = std::ranges::find(of_op, what, [](const auto& each) { return each.first; });
        if (known == of_op.end()) known = of_op.insert(known, {what, {}});
        const std::int32_t copies = input.tasks->copies_of(i);
        known->second.messages += copies;
        known->second.bytes += Int128{copies} * task.bytes.raw();
        known->second.time += Int128{copies} * task.duration.raw();
    }
    std::vector<std::string> texts;
    for (const auto& of_op : moves) {
        texts.push_back(json_array(of_op, [](const auto& each) {
            return fmt::format("[{},{},{:.0f},{:.0f}]", json_quoted(each.first),
                               each.second.messages, static_cast<double>(each.second.bytes),
                               static_cast<double>(each.second.time));
        }));
    }
    return texts;
}

/// Per op what its work takes of the critical path, in picoseconds; empty: there is no timeline.
std::vector<std::int64_t> path_of_ops(const ReportInput& input) {
    if (input.timeline == nullptr) return {};
    std::vector<std::int64_t> path;
    for (const Time time :
         plan::bottleneck_of(input.problem, *input.tasks, *input.timeline).on_path) {
        path.push_back(time.raw());
    }
    return path;
}

/// Column by column: half the size of one object per op.
std::string ops(const ReportInput& input) {
    const auto list = input.problem.graph().ops();
    Shared places;
    Shared splits;
    Shared makes;
    Shared moves;
    const std::vector<std::string> moved_by_op = moves_of_ops(input);
    std::vector<std::size_t> moved;
    std::vector<std::string> flops;
    std::vector<std::size_t> place;
    std::vector<std::size_t> made;
    std::vector<std::size_t> split;
    std::vector<std::int64_t> time;
    for (std::size_t i = 0; i < list.size(); ++i) {
        const plan::OpConfig& config = input.strategy.config(OpId(i));
        place.push_back(places.number_of(device_list(config.devices)));
        split.push_back(
            splits.number_of(json_quoted(degrees(input.problem.facts().rule(OpId(i)), config))));
        made.push_back(makes.number_of(json_quoted(made_by(input.problem.graph(), list[i]))));
        moved.push_back(moves.number_of(moved_by_op[i]));
        flops.push_back(fmt::format(
            "{:.0f}", static_cast<double>(input.problem.facts().rule(OpId(i)).flops.raw())));
        time.push_back(input.problem.prices().total_time(OpId(i), config.devices[0]).raw());
    }
    return fmt::format(
        R"({{"name":{},"type":{},"block":{},"compute":{},"shown":{},"place":[{}],"split":[{}],)"
        R"("made":[{}],"time":[{}],"flops":[{}],"moved":[{}],"path":[{}],)"
        R"("places":{},"splits":{},"makes":{},"moves":{}}})",
        json_array(list, [](const graph::Op& op) { return json_quoted(op.name); }),
        json_array(list, [](const graph::Op& op) { return json_quoted(op.type); }),
        json_array(list, [](const graph::Op& op) { return json_quoted(op.block); }),
        json_array(list,
                   [](const graph::Op& op) { return op.kind == OpKind::compute ? "1" : "0"; }),
        json_array(list, [](const graph::Op& op) { return is_shown(op) ? "1" : "0"; }),
        fmt::join(place, ","), fmt::join(split, ","), fmt::join(made, ","), fmt::join(time, ","),
        fmt::join(flops, ","), fmt::join(moved, ","), fmt::join(path_of_ops(input), ","),
        places.json(), splits.json(), makes.json(), moves.json());
}

/// from, to, from, to, ...
std::string edges(const graph::OpGraph& graph) {
    std::string text = "[";
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        if (!is_shown(graph.op(OpId(i)))) continue;
        for (const OpId next : graph.successors(OpId(i))) {
            if (text.size() > 1) text += ',';
            fmt::format_to(std::back_inserter(text), "{},{}", i, next.value);
        }
    }
    return text + ']';
}

/// [kind, op, device, to, start, duration] in order of commit, so starts rise; op -1: of none. Of what
/// devices do together `to` is the list of ranks, and of a collective its name comes last.
std::string tasks(const ReportInput& input) {
    if (input.tasks == nullptr) return "[]";
    return json_array(input.timeline->commit_order, [&](plan::TaskId id) {
        const std::size_t index = id.index();
        const plan::Task& task = input.tasks->tasks[index];
        std::string to = std::to_string(task.to);
        std::string name;
        if (task.ranks >= 0) {
            const auto ranks = input.tasks->ranks[static_cast<std::size_t>(task.ranks)];
            to = fmt::format("[{}]", fmt::join(ranks, ","));
        }
        if (task.kind == plan::TaskKind::collective)
            name = fmt::format(",\"{}\"", cost::name_of(task.collective));
        const bool of_op = task.kind != plan::TaskKind::clip;
        return fmt::format("[{},{},{},{},{},{}{}]", static_cast<int>(task.kind),
                           of_op ? static_cast<std::int64_t>(task.op.value) : -1, task.device, to,
                           input.timeline->start[index].raw(), task.duration.raw(), name);
    });
}

/// [number among tasks(), device, start, duration], starts rise.
std::string measured(const ReportInput& input) {
    if (!input.measured) return "[]";
    std::vector<std::size_t> place(input.tasks->size());
    for (std::size_t i = 0; i < input.timeline->commit_order.size(); ++i) {
        place[input.timeline->commit_order[i].index()] = i;
    }
    std::vector<plan::TaskRun> runs(input.measured->runs.begin(), input.measured->runs.end());
    std::ranges::stable_sort(runs, {}, &plan::TaskRun::start);
    return json_array(runs, [&](const plan::TaskRun& run) {
        return fmt::format("[{},{},{},{}]", place[run.task.index()], run.device, run.start.raw(),
                           (run.end - run.start).raw());
    });
}

/// Per device: time, bytes, time, bytes, ...
std::string memory(const ReportInput& input) {
    std::vector<std::string> courses(static_cast<std::size_t>(input.problem.device_count()));
    if (input.tasks != nullptr) {
        for (const auto& step : plan::memory_course(*input.tasks, input.timeline->commit_order)) {
            const Time time =
                step.task.valid() ? input.timeline->start[step.task.index()] : Time{0};
            std::string& course = courses[static_cast<std::size_t>(step.device)];
            fmt::format_to(std::back_inserter(course), "{}{},{}", course.empty() ? "" : ",",
                           time.raw(), step.bytes.raw());
        }
    }
    return json_array(courses, [](const std::string& course) { return '[' + course + ']'; });
}

std::string data(const ReportInput& input) {
    using plan::TaskKind;
    constexpr TaskKind kKinds[] = {TaskKind::forward,    TaskKind::loss,       TaskKind::backward,
                                   TaskKind::accumulate, TaskKind::pack,       TaskKind::update,
                                   TaskKind::copy,       TaskKind::collective, TaskKind::recompute,
                                   TaskKind::weights,    TaskKind::clip};
    const Time whole =
        input.timeline == nullptr ? input.evaluation.value : input.timeline->makespan;
    return fmt::format(
        R"({{"title":{},"subtitle":{},"facts":{},"compared":{{"heading":{},"titles":{},"rows":{}}},)"
        R"("whole":{},"devices":{},"ops":{},"edges":{},"kinds":{},"tasks":{},"measured":{},"memory":{},)"
        R"("memoryKinds":{}}})",
        json_quoted(input.title), json_quoted(input.subtitle),
        json_array(input.facts,
                   [](const auto& fact) {
                       return texts({fact.first, fact.second});
                   }),
        json_quoted(input.compared_heading), texts(input.compared_titles),
        json_array(input.compared_rows, texts), whole.raw(), devices(input), ops(input),
        edges(input.problem.graph()),
        json_array(kKinds, [](TaskKind kind) { return json_quoted(name_of(kind)); }), tasks(input),
        measured(input), memory(input), json_array(plan::kMemoryKinds, [](plan::MemoryKind kind) {
            return json_quoted(name_of(kind));
        }));
}

}  // namespace

std::string report_page(const ReportInput& input) {
    constexpr std::string_view kMarker = "@PARTITA_DATA@";
    const auto marker = kReportHtml.find(kMarker);
    assert(marker != std::string_view::npos);
    std::string page(kReportHtml.substr(0, marker));
    for (const char c : data(input)) {
        if (c == '<') {
            page += "\\u003c";
        } else {
            page += c;
        }
    }
    return page.append(kReportHtml.substr(marker + kMarker.size()));
}

}  // namespace partita::api
