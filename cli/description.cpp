// SPDX-License-Identifier: Apache-2.0
#include "cli/description.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include <fmt/ranges.h>

#include "cli/model_facts.h"
#include "cli/table.h"

namespace partita::cli {
namespace {

using Json = nlohmann::ordered_json;

Json known(double value) {
    return value > 0 ? Json(value) : Json(nullptr);
}

/// "gpu3", "gpu0 .. gpu7", "gpu0, gpu4, ... (4)".
std::string devices_text(const cost::Machine& machine, const plan::DeviceSet& devices) {
    const std::string& first = machine.device(devices[0]).name;
    if (devices.size() == 1) return first;
    const std::string& last = machine.device(devices[devices.size() - 1]).name;
    if (!devices.is_list() && devices.stride() == 1) return fmt::format("{} .. {}", first, last);
    return fmt::format("{}, {}{} ({})", first, machine.device(devices[1]).name,
                       devices.size() > 2 ? ", ..." : "", devices.size());
}

}  // namespace

std::string throughput_line(const plan::Throughput& throughput) {
    std::vector<std::string> parts;
    if (throughput.samples > 0) parts.push_back(figure_text(throughput.samples) + " samples/s");
    if (throughput.tokens > 0) {
        parts.push_back(fmt::format("{} tokens/s", figure_text(throughput.tokens)));
        if (throughput.devices > 1) {
            parts.back() += fmt::format(" ({} per device)",
                                        figure_text(throughput.tokens / throughput.devices));
        }
    }
    if (throughput.mfu > 0) {
        const Flops rate(std::llround(throughput.flops_per_device));
        parts.push_back(fmt::format("{}/s per device, {} of the peak (MFU)", flops_text(rate),
                                    percent(throughput.mfu)));
    }
    return fmt::format("{}", fmt::join(parts, ", "));
}

Json throughput_json(const plan::Throughput& throughput) {
    return {{"devices", throughput.devices},
            {"samples_per_s", known(throughput.samples)},
            {"tokens_per_s", known(throughput.tokens)},
            {"tflops_per_device", known(throughput.flops_per_device / 1e12)},
            {"mfu", known(throughput.mfu)}};
}

std::string strategy_lines(const plan::Problem& problem, const plan::Strategy& strategy) {
    const std::vector<std::string> lines =
        plan::lines_of(plan::parallelism_of(problem, strategy), strategy.policy);
    return fmt::format("{}", fmt::join(lines, "\n"));
}

Json strategy_json(const plan::Problem& problem, const plan::Strategy& strategy) {
    const plan::Parallelism parallelism = plan::parallelism_of(problem, strategy);
    const plan::Policy& policy = strategy.policy;
    return {{"devices", parallelism.devices},
            {"stages", parallelism.stages.size()},
            {"chunks", parallelism.chunks},
            {"dp", parallelism.data},
            {"tp", parallelism.tensor},
            {"cp", parallelism.context},
            {"ep", parallelism.experts},
            {"replicas", parallelism.replicas},
            {"zero", static_cast<int>(parallelism.zero)},
            {"micro_batches", policy.micro_batches},
            {"schedule", to_text(policy.schedule)},
            {"share", parallelism.share},
            {"regular", parallelism.regular(policy)},
            {"lines", plan::lines_of(parallelism, policy)}};
}

std::string config_text(const plan::Problem& problem, graph::OpId op,
                        const plan::OpDecision& decision) {
    const auto text_of = [&](const plan::OpConfig& config) {
        std::vector<std::string> axes;
        for (const plan::Axis& axis : config.axes) {
            axes.push_back(
                fmt::format("{} {}", name_of(problem.facts().rule(op), axis), axis.degree));
        }
        return fmt::format("{} on {}",
                           axes.empty() ? "whole" : fmt::format("{}", fmt::join(axes, ", ")),
                           devices_text(problem.machine(), config.devices));
    };
    std::string text = text_of(decision.config);
    if (!decision.update.update.devices.empty()) {
        text += "; updated " + text_of(decision.update.update);
    }
    if (decision.recompute != plan::Recompute::none) {
        text += fmt::format("; {} recomputation", name_of(decision.recompute));
    }
    return text;
}

std::string communication_line(const std::vector<plan::Communication>& communication) {
    constexpr std::size_t kMost = 3;
    std::vector<std::string> lines;
    for (const plan::Communication& each : communication) {
        if (lines.size() == kMost) {
            lines.push_back(
                count_of(static_cast<std::int64_t>(communication.size() - kMost), "other kind"));
            break;
        }
        const std::string size =
            each.bytes_per_device > Bytes{0} ? to_text(each.bytes_per_device) + " " : std::string();
        lines.push_back(fmt::format("{}{} of {} in {}", size, each.kind, name_of(each.moved),
                                    to_text(each.time_per_device)));
    }
    return fmt::format("{}", fmt::join(lines, "; "));
}

Json communication_json(const std::vector<plan::Communication>& communication) {
    Json json = Json::array();
    for (const plan::Communication& each : communication) {
        json.push_back({{"kind", each.kind},
                        {"of", name_of(each.moved)},
                        {"messages", each.messages},
                        {"bytes_per_device", each.bytes_per_device.raw()},
                        {"time_ps_per_device", each.time_per_device.raw()}});
    }
    return json;
}

std::string share_of(Time time, Time whole) {
    return whole > Time{0} ? percent(time / whole) : "-";
}

std::string time_parts_line(const std::vector<plan::TimeOf>& parts, Time whole) {
    constexpr std::size_t kMost = 6;
    std::vector<std::string> texts;
    Time rest;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (i < kMost) {
            texts.push_back(fmt::format("{} {}", parts[i].what, share_of(parts[i].time, whole)));
        } else {
            rest += parts[i].time;
        }
    }
    if (rest > Time{0}) texts.push_back(fmt::format("the rest {}", share_of(rest, whole)));
    return fmt::format("{}", fmt::join(texts, ", "));
}

Json time_parts_json(const std::vector<plan::TimeOf>& parts) {
    Json json = Json::array();
    for (const plan::TimeOf& part : parts) {
        json.push_back({{"what", part.what}, {"time_ps", part.time.raw()}});
    }
    return json;
}

std::string waits_line(const plan::Problem& problem, const plan::Priced& priced) {
    if (!priced.timeline) return "";
    const plan::Bottleneck bottleneck =
        plan::bottleneck_of(problem, priced.tasks, *priced.timeline);
    if (bottleneck.devices.size() < 2) return "";
    return time_parts_line(bottleneck.devices, priced.timeline->makespan);
}

}  // namespace partita::cli
