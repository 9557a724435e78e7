// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "cost/collectives/collective.h"
#include "cost/machine/machine_file.h"
#include "plan/files/plan_file.h"

namespace partita::plan {

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr int kMostDegree = 1 << 20;

/// One of an enumeration's names.
template <class Enum, std::size_t n>
Enum choice(const JsonField& field, const std::array<Enum, n>& values) {
    std::string names;
    for (const Enum value : values) {
        names += (names.empty() ? "\"" : " or \"") + std::string(name_of(value)) + "\"";
    }
    const JsonExpectation expected{.what = names, .remedy = "Plan again with this version."};
    const std::string text = field.text(expected);
    for (const Enum value : values) {
        if (name_of(value) == text) return value;
    }
    field.fail(expected);
}

std::string digest_text(const JsonField& field) {
    const JsonExpectation expected{.what = "\"sha256:\" and 64 hexadecimal digits"};
    const std::string text = field.text(expected);
    const bool well_formed = text.size() == 71 && text.starts_with("sha256:") &&
                             text.find_first_not_of("0123456789abcdef", 7) == std::string::npos;
    if (!well_formed) field.fail(expected);
    return text;
}

/// A device of the embedded machine, which has `machine_devices` of them.
int device_number(const JsonField& field, int machine_devices) {
    const std::string what =
        "a device of the plan's machine, 0 to " + std::to_string(machine_devices - 1);
    return static_cast<int>(
        field.integer(0, machine_devices - 1, {.what = what, .remedy = "Plan again."}));
}

/// Bounded by the machine before anything is expanded: a few bytes may name many devices.
DeviceSet device_set(const JsonField& field, int machine_devices) {
    if (!field.is_object()) {
        std::vector<int> devices;
        for (const JsonField& item : field.items())
            devices.push_back(device_number(item, machine_devices));
        if (devices.empty()) field.fail({.what = "at least one device"});
        return DeviceSet::list(std::move(devices));
    }
    field.allow_only({"first", "count", "stride"});
    const int first = device_number(field["first"], machine_devices);
    const auto count = field["count"].integer(1, kMostDegree, {.what = "a number of devices >= 1"});
    const auto stride = field["stride"].integer(1, kMostDegree, {.what = "a stride >= 1"});
    if (first + (count - 1) * stride >= machine_devices) {
        field.reject("names devices beyond the plan's machine, which has " +
                     std::to_string(machine_devices) + ". Plan again.");
    }
    return DeviceSet::progression(first, static_cast<int>(count), static_cast<int>(stride));
}

PlannedConfig planned_config(const JsonField& field, int machine_devices) {
    PlannedConfig config;
    config.devices = device_set(field["devices"], machine_devices);
    const auto devices = static_cast<std::int64_t>(config.devices.size());
    std::int64_t parts = 1;  // at most 2^20 * 2^20 before it is compared
    for (const JsonField& pair : field["degrees"].items()) {
        const JsonExpectation expected{.what = "a pair [factor, degree >= 2]"};
        const std::vector<JsonField> items = pair.items();
        if (items.size() != 2) pair.fail(expected);
        config.degrees.push_back({items[0].text(expected),
                                  static_cast<int>(items[1].integer(2, kMostDegree, expected))});
        parts *= config.degrees.back().degree;
        if (parts > kMostDegree) field["degrees"].reject("too many parts. Plan again.");
    }
    if (parts != devices) {
        field["devices"].reject("names " + std::to_string(devices) + " devices for " +
                                std::to_string(parts) + " parts. Plan again.");
    }
    return config;
}

PlannedUpdate planned_update(const JsonField& field, int machine_devices) {
    field.allow_only({"degrees", "devices", "accumulate", "refetch"});
    PlannedUpdate update;
    if (field["devices"].present()) update.config = planned_config(field, machine_devices);
    const JsonExpectation expected{.what = "\"local\" or \"update\""};
    const std::string accumulate = field["accumulate"].text(expected);
    if (accumulate != "local" && accumulate != "update") field["accumulate"].fail(expected);
    update.accumulate_locally = accumulate == "local";
    update.refetch = field["refetch"].boolean();
    return update;
}

PlannedOp planned_op(const JsonField& field, int machine_devices) {
    field.allow_only({"name", "type", "degrees", "devices", "update", "recompute"});
    PlannedOp op;
    op.name = field["name"].text({.what = "the name of an op"}, 1 << 16);
    op.type = field["type"].text({.what = "an operator"});
    const JsonField called = field.called("'" + op.name + "'");
    op.config = planned_config(called, machine_devices);
    if (const JsonField update = called["update"]; update.present()) {
        op.update = planned_update(update, machine_devices);
    }
    if (const JsonField recompute = called["recompute"]; recompute.present()) {
        op.recompute = choice(recompute, std::array{Recompute::selective, Recompute::full});
    }
    return op;
}

constexpr std::array kAlgorithms = [] {
    std::array<cost::Algorithm, cost::kAlgorithmCount> all{};
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<cost::Algorithm>(i);
    return all;
}();
constexpr std::array kProtocols = {cost::Protocol::none, cost::Protocol::simple, cost::Protocol::ll,
                                   cost::Protocol::ll128};

PlannedCollective planned_collective(const JsonField& field) {
    field.allow_only({"task", "algorithm", "protocol"});
    return {.task = field["task"].text({.what = "the name of a task"}, 1 << 16),
            .algorithm = choice(field["algorithm"], kAlgorithms),
            .protocol = choice(field["protocol"], kProtocols)};
}

/// Each is held against every parameter or op. `many`: what they are, such as "globs".
std::vector<std::string> patterns(const JsonField& field, const JsonExpectation& expected,
                                  std::string_view many) {
    constexpr std::size_t kMostPatterns = 1'000;
    constexpr std::size_t kLongest = 1'000;
    const std::vector<JsonField> items = field.items();
    if (items.size() > kMostPatterns) {
        const std::string most = fmt::format("at most {} {}", kMostPatterns, many);
        field.fail({.what = most});
    }
    std::vector<std::string> texts;
    for (const JsonField& item : items) texts.push_back(item.text(expected, kLongest));
    return texts;
}

constexpr JsonExpectation kGlobOfParameters{.what = "a glob over names of parameters"};

void read_model(const JsonField& field, Plan& plan) {
    field.allow_only({"file", "digest", "bindings", "shapes", "unroll", "precision", "products",
                      "gradients", "untie", "fuse", "attention", "attention_blocks"});
    plan.model_file = field["file"].text({.what = "a file name"}, 1 << 16);
    plan.model_digest = digest_text(field["digest"]);
    const JsonField bindings = field["bindings"];
    for (const std::string& name : bindings.keys()) {
        plan.bindings[name] = bindings[name].integer(0, kMost, {.what = "an extent >= 0"});
    }
    if (const JsonField shapes = field["shapes"]; shapes.present()) {
        for (const std::string& name : shapes.keys()) {
            for (const JsonField& dim : shapes[name].items()) {
                plan.shapes[name].push_back(dim.integer(0, kMost, {.what = "an extent >= 0"}));
            }
        }
    }
    plan.unroll = field["unroll"].boolean();
    if (const JsonField precision = field["precision"]; precision.present()) {
        const JsonExpectation types{.what = "\"float32\", \"float16\" or \"bfloat16\""};
        plan.precision = graph::dtype_from_name(precision.text(types, 16));
        if (!plan.precision || !graph::is_precision(*plan.precision)) precision.fail(types);
    }
    if (const JsonField products = field["products"]; products.present()) {
        const JsonExpectation types{.what = "\"tf32\" or \"float8\""};
        plan.products = graph::product_type_from_name(products.text(types, 16));
        if (!plan.products) products.fail(types);
    }
    if (const JsonField untie = field["untie"]; untie.present()) {
        plan.untie = patterns(untie, kGlobOfParameters, "globs");
    }
    if (const JsonField fuse = field["fuse"]; fuse.present()) {
        plan.fuse = patterns(fuse, {.what = "a kernel of --fuse"}, "kernels");
    }
    if (const JsonField attention = field["attention"]; attention.present()) {
        const JsonExpectation fused{.what = "\"fused\""};
        if (attention.text(fused, 16) != "fused") attention.fail(fused);
        plan.fused_attention = true;
    }
    if (const JsonField blocks = field["attention_blocks"]; blocks.present()) {
        plan.attention_blocks = static_cast<int>(
            blocks.integer(2, kMostAttentionBlocks, {.what = "a number of blocks, 2 to 4096"}));
        if (!plan.fused_attention) blocks.reject("needs \"attention\": \"fused\" beside it");
    }
    if (const JsonField gradients = field["gradients"]; gradients.present()) {
        const JsonExpectation type{.what = "\"float32\""};
        if (gradients.text(type, 16) != "float32") gradients.fail(type);
        plan.float32_gradients = true;
    }
}

Policy read_policy(const JsonField& field) {
    field.allow_only({"micro_batches", "schedule", "optimizer", "loss", "gradient_sync", "frozen",
                      "recompute", "gather_again", "bucket_bytes", "host_time", "clip_norm"});
    Policy policy;
    policy.micro_batches = static_cast<int>(field["micro_batches"].integer(
        1, kMostMicroBatches, {.what = "a number of micro-batches"}));
    const std::string known_schedules = "one of " + schedule_names();
    const JsonExpectation schedules{.what = known_schedules};
    const auto schedule = schedule_from_text(field["schedule"].text(schedules, 64));
    if (!schedule) field["schedule"].fail(schedules);
    policy.schedule = *schedule;
    policy.optimizer = choice(field["optimizer"],
                              std::array{Optimizer::sgd, Optimizer::momentum, Optimizer::adam});
    policy.gradient_sync =
        choice(field["gradient_sync"],
               std::array{GradientSync::all_reduce, GradientSync::parameter_server});
    const JsonExpectation expected{.what =
                                       "\"sum\", \"mse\" or \"cross-entropy\", and optionally "
                                       "\":\" and the name of an output"};
    const std::string loss = field["loss"].text(expected, 1 << 16);
    const std::size_t colon = loss.find(':');
    bool known = false;
    for (const LossKind kind : {LossKind::sum, LossKind::mse, LossKind::cross_entropy}) {
        if (loss.substr(0, colon) != name_of(kind)) continue;
        policy.loss = kind;
        known = true;
    }
    if (!known) field["loss"].fail(expected);
    if (colon != std::string::npos) policy.loss_output = loss.substr(colon + 1);
    if (const JsonField frozen = field["frozen"]; frozen.present()) {
        policy.frozen = patterns(frozen, kGlobOfParameters, "globs");
    }
    if (const JsonField recompute = field["recompute"]; recompute.present()) {
        policy.recompute = choice(
            recompute, std::array{Recompute::selective, Recompute::full, Recompute::automatic});
    }
    if (const JsonField again = field["gather_again"]; again.present()) {
        policy.gather_again = again.boolean();
    }
    if (const JsonField bucket = field["bucket_bytes"]; bucket.present()) {
        const JsonExpectation bytes{.what = "an amount of bytes above 0, \"all\" or \"layer\""};
        policy.bucket_bytes = bucket.is_text() ? named_bucket(bucket.text(bytes, 8))
                                               : Bytes(bucket.integer(1, kMostBucket.raw(), bytes));
        if (!policy.bucket_bytes) bucket.fail(bytes);
    }
    if (const JsonField host = field["host_time"]; host.present()) {
        const JsonExpectation times{
            .what = "times of at most 1 ms, e.g. \"kernel=45us,communication=30us,update=0us\""};
        const auto host_time = host_time_from_text(host.text(times, 128));
        if (!host_time || !host_time->any()) host.fail(times);
        policy.host_time = *host_time;
    }
    if (const JsonField clip = field["clip_norm"]; clip.present()) {
        const JsonExpectation norm{.what = "a norm above 0 and at most 1e9"};
        policy.clip_norm = clip.number(0, kMostClipNorm, norm);
        if (policy.clip_norm == 0) clip.fail(norm);
    }
    return policy;
}

void read_prediction(const JsonField& field, Plan& plan) {
    field.allow_only({"value_ps", "lower_bound_ps", "devices"});
    const JsonExpectation time{.what = "a time in picoseconds >= 0"};
    const JsonExpectation bytes{.what = "an amount of bytes >= 0"};
    plan.value = Time(field["value_ps"].integer(0, kMost, time));
    const JsonField bound = field["lower_bound_ps"];
    if (!bound.present()) bound.fail(time);
    if (!bound.is_null()) plan.lower_bound = Time(bound.integer(0, kMost, time));
    const std::vector<JsonField> devices = field["devices"].items();
    if (std::cmp_not_equal(devices.size(), plan.machine->device_count())) {
        field["devices"].reject("lists " + std::to_string(devices.size()) +
                                " devices of a machine with " +
                                std::to_string(plan.machine->device_count()) + ". Plan again.");
    }
    for (const JsonField& device : devices) {
        device.allow_only({"busy_ps", "memory_bytes"});
        plan.devices.push_back({Time(device["busy_ps"].integer(0, kMost, time)),
                                Bytes(device["memory_bytes"].integer(0, kMost, bytes))});
    }
}

void read_order(const JsonField& field, Plan& plan) {
    field.allow_only({"task_graph", "folded", "commit"});
    plan.task_graph_digest = digest_text(field["task_graph"]);
    if (field["folded"].present()) plan.folded = field["folded"].boolean();
    const JsonField commit = field["commit"];
    if (!commit.present()) return;
    for (const JsonField& task : commit.items()) {
        const std::int64_t number = task.integer(0, std::numeric_limits<std::int32_t>::max(),
                                                 {.what = "the number of a task"});
        plan.commit_order.emplace_back(static_cast<std::size_t>(number));
    }
}

void read_provenance(const JsonField& root, Plan& plan) {
    const JsonField costs = root["costs"];
    costs.allow_only({"digest", "sources"});
    plan.costs_digest = digest_text(costs["digest"]);
    for (const JsonField& source : costs["sources"].items()) {
        plan.cost_sources.push_back(source.text({.what = "the name of a cost model"}));
    }
    const JsonField search = root["search"];
    search.allow_only({"searcher", "scheduler", "seed", "evaluations"});
    plan.searcher = search["searcher"].text({.what = "the name of a searcher"});
    plan.scheduler = search["scheduler"].text({.what = "the name of a scheduler"});
    plan.seed =
        static_cast<std::uint64_t>(search["seed"].integer(0, kMost, {.what = "a seed >= 0"}));
    plan.evaluations =
        search["evaluations"].integer(0, kMost, {.what = "a number of evaluations >= 0"});
}

}  // namespace

Plan parse_plan(std::string_view json, const std::string& context) {
    const JsonFile file(json, context);
    const JsonField root = file.root();
    root.allow_only({"format", "version", "model", "machine", "mode", "objective", "policy", "ops",
                     "collectives", "order", "prediction", "costs", "search"});
    const JsonExpectation format{.what = "\"partita-plan\"",
                                 .remedy = "Give a plan that `partita plan` wrote."};
    if (root["format"].text(format) != "partita-plan") root["format"].fail(format);
    (void)root["version"].integer(1, 1,
                                  {.what = "version 1", .remedy = "Plan again with this version."});
    Plan plan;
    plan.source = context;
    read_model(root["model"], plan);
    const JsonField machine = root["machine"];
    plan.machine_digest = digest_text(machine["digest"]);
    plan.machine = cost::parse_machine(machine);
    plan.mode = choice(root["mode"], std::array{Mode::inference, Mode::training});
    plan.objective = choice(root["objective"], std::array{Objective::latency, Objective::throughput,
                                                          Objective::step_time});
    plan.policy = read_policy(root["policy"]);
    for (const JsonField& op : root["ops"].items()) {
        plan.ops.push_back(planned_op(op, plan.machine->device_count()));
    }
    for (const JsonField& collective : root["collectives"].items()) {
        plan.collectives.push_back(planned_collective(collective));
    }
    read_order(root["order"], plan);
    read_prediction(root["prediction"], plan);
    read_provenance(root, plan);
    return plan;
}

}  // namespace partita::plan
