// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/json.h"
#include "cost/machine/machine_file.h"
#include "plan/files/plan_file.h"

namespace partita::plan {

namespace {

template <class Range, class Text>
std::string joined(const Range& range, Text text, std::string_view separator = ", ") {
    std::string out;
    for (const auto& item : range) {
        if (!out.empty()) out += separator;
        out += text(item);
    }
    return out;
}

std::string number(std::int64_t value) {
    return std::to_string(value);
}

std::string to_json(const DeviceSet& devices) {
    if (devices.is_list() || devices.size() <= 1) {
        std::string out;
        for (int i = 0; i < devices.size(); ++i) {
            out += (i == 0 ? "" : ", ") + std::to_string(devices[i]);
        }
        return "[" + out + "]";
    }
    return fmt::format(R"({{"first": {}, "count": {}, "stride": {}}})", devices.first(),
                       devices.size(), devices.stride());
}

std::string degrees_json(const PlannedConfig& config) {
    return joined(config.degrees, [](const PlannedAxis& axis) {
        return fmt::format("[{}, {}]", json_quoted(axis.factor), axis.degree);
    });
}

/// Nothing for an update as the parameter lies.
std::string to_json(const PlannedUpdate& update) {
    if (update == PlannedUpdate{}) return {};
    std::string text;
    if (!update.config.devices.empty()) {
        text = fmt::format(R"("degrees": [{}], "devices": {}, )", degrees_json(update.config),
                           to_json(update.config.devices));
    }
    return fmt::format(R"(, "update": {{{}"accumulate": "{}", "refetch": {}}})", text,
                       update.accumulate_locally ? "local" : "update", update.refetch);
}

/// Nothing where nothing is recomputed.
std::string recompute_json(Recompute recompute) {
    if (recompute == Recompute::none) return {};
    return fmt::format(R"(, "recompute": "{}")", name_of(recompute));
}

std::string to_json(const PlannedOp& op) {
    return fmt::format(R"({{"name": {}, "type": {}, "degrees": [{}], "devices": {}{}{}}})",
                       json_quoted(op.name), json_quoted(op.type), degrees_json(op.config),
                       to_json(op.config.devices), to_json(op.update),
                       recompute_json(op.recompute));
}

std::string to_json(const PlannedCollective& collective) {
    return fmt::format(R"({{"task": {}, "algorithm": {}, "protocol": {}}})",
                       json_quoted(collective.task),
                       json_quoted(cost::name_of(collective.algorithm)),
                       json_quoted(cost::name_of(collective.protocol)));
}

std::string model_json(const Plan& plan) {
    const std::string bindings = joined(plan.bindings, [](const auto& binding) {
        return json_quoted(binding.first) + ": " + number(binding.second);
    });
    std::string shapes = joined(plan.shapes, [](const auto& shape) {
        return json_quoted(shape.first) + ": [" + joined(shape.second, number) + "]";
    });
    if (!shapes.empty()) shapes = ", \"shapes\": {" + shapes + "}";
    const auto list = [](const char* key, const std::vector<std::string>& texts) {
        return texts.empty() ? "" : fmt::format(R"(, "{}": [{}])", key, joined(texts, json_quoted));
    };
    const std::string precision =
        plan.precision ? fmt::format(R"(, "precision": "{}")", graph::name_of(*plan.precision))
                       : "";
    const std::string products =
        plan.products ? fmt::format(R"(, "products": "{}")", graph::name_of(*plan.products)) : "";
    const std::string blocks =
        plan.attention_blocks > 1
            ? fmt::format(R"(, "attention_blocks": {})", plan.attention_blocks)
            : "";
    return fmt::format(
        R"({{"file": {}, "digest": {}, "bindings": {{{}}}{}, "unroll": {}{}{}{}{}{}{}}})",
        json_quoted(plan.model_file), json_quoted(plan.model_digest), bindings, shapes, plan.unroll,
        precision, products, plan.float32_gradients ? R"(, "gradients": "float32")" : "",
        list("untie", plan.untie), list("fuse", plan.fuse),
        plan.fused_attention ? R"(, "attention": "fused")" + blocks : "");
}

/// The machine's own object, with its digest as first member.
std::string machine_json(const Plan& plan) {
    const std::string machine = plan.machine ? cost::to_json(*plan.machine, 1) : "{}";
    return fmt::format(R"({{"digest": {}, {})", json_quoted(plan.machine_digest),
                       std::string_view(machine).substr(1));
}

std::string policy_json(const Policy& policy) {
    std::string loss(name_of(policy.loss));
    if (!policy.loss_output.empty()) loss += ":" + policy.loss_output;
    std::string frozen;
    if (!policy.frozen.empty()) {
        frozen = fmt::format(R"(, "frozen": [{}])", joined(policy.frozen, json_quoted));
    }
    std::string buckets;
    if (policy.bucket_bytes) {
        const std::string size = bucket_text(*policy.bucket_bytes);
        buckets =
            fmt::format(R"(, "bucket_bytes": {})", named_bucket(size) ? json_quoted(size) : size);
    }
    return fmt::format(
        R"({{"micro_batches": {}, "schedule": "{}", "optimizer": "{}", "loss": {}, )"
        R"("gradient_sync": "{}"{}{}{}{}{}{}}})",
        policy.micro_batches, to_text(policy.schedule), name_of(policy.optimizer),
        json_quoted(loss), name_of(policy.gradient_sync), frozen, recompute_json(policy.recompute),
        policy.gather_again ? R"(, "gather_again": true)" : "", buckets,
        policy.host_time.any()
            ? fmt::format(R"(, "host_time": {})", json_quoted(to_text(policy.host_time)))
            : "",
        policy.clip_norm > 0 ? fmt::format(R"(, "clip_norm": {})", clip_norm_text(policy.clip_norm))
                             : "");
}

std::string order_json(const Plan& plan) {
    const std::string commit =
        plan.commit_order.empty()
            ? ""
            : fmt::format(R"(, "commit": [{}])",
                          joined(plan.commit_order, [](TaskId id) { return number(id.value); }));
    return fmt::format(R"({{"task_graph": {}{}{}}})", json_quoted(plan.task_graph_digest),
                       plan.folded ? R"(, "folded": true)" : "", commit);
}

std::string prediction_json(const Plan& plan) {
    const std::string devices = joined(plan.devices, [](const DeviceUse& use) {
        return fmt::format(R"({{"busy_ps": {}, "memory_bytes": {}}})", use.busy.raw(),
                           use.memory.raw());
    });
    const std::string bound = plan.lower_bound ? number(plan.lower_bound->raw()) : "null";
    return fmt::format(R"({{"value_ps": {}, "lower_bound_ps": {}, "devices": [{}]}})",
                       plan.value.raw(), bound, devices);
}

}  // namespace

std::string to_json(const Plan& plan) {
    std::string out = "{\"format\": \"partita-plan\", \"version\": 1,\n";
    out += " \"model\": " + model_json(plan) + ",\n";
    out += " \"machine\": " + machine_json(plan) + ",\n";
    out += fmt::format(" \"mode\": \"{}\", \"objective\": \"{}\",\n", name_of(plan.mode),
                       name_of(plan.objective));
    out += " \"policy\": " + policy_json(plan.policy) + ",\n";
    out += " \"ops\": [";
    out += joined(
        plan.ops, [](const PlannedOp& op) { return "\n  " + to_json(op); }, ",");
    out += "],\n \"collectives\": [";
    out += joined(
        plan.collectives, [](const PlannedCollective& c) { return "\n  " + to_json(c); }, ",");
    out += "],\n";
    out += " \"order\": " + order_json(plan) + ",\n";
    out += " \"prediction\": " + prediction_json(plan) + ",\n";
    out += fmt::format(" \"costs\": {{\"digest\": {}, \"sources\": [{}]}},\n",
                       json_quoted(plan.costs_digest), joined(plan.cost_sources, json_quoted));
    out += fmt::format(
        " \"search\": {{\"searcher\": {}, \"scheduler\": {}, \"seed\": {}, \"evaluations\": "
        "{}}}}}\n",
        json_quoted(plan.searcher), json_quoted(plan.scheduler), plan.seed, plan.evaluations);
    return out;
}

}  // namespace partita::plan
