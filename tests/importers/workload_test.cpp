// SPDX-License-Identifier: Apache-2.0
//
// Workload files: the published ones come in whole, and bad ones are refused with the exact
// message.
#include "importers/workload/workload.h"
#include "base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "cost/machine/workload_machine.h"
#include "tests/golden_errors.h"
#include "tests/support/paths.h"

namespace partita::importers {
namespace {

const std::filesystem::path kRoot = tests::repository();
const std::filesystem::path kWorkloads = kRoot / "examples/workloads";

struct Published {
    const char* file;
    std::size_t nodes;
    std::size_t forward;
    std::size_t edges;
    int accelerators;
    double one_device_ms;
};

// Source: the table of known best values in REFERENCES.md 8.
constexpr Published kPublished[] = {
    {"throughput/layer_bert24_inference", 32, 32, 55, 6, 92.406},
    {"throughput/layer_bert24_training", 64, 32, 110, 6, 217.813},
    {"throughput/layer_gnmt_inference", 96, 96, 122, 6, 182.563},
    {"throughput/layer_gnmt_training", 192, 96, 244, 6, 520.453},
    {"throughput/layer_resnet50_inference", 177, 177, 193, 6, 201.45},
    {"throughput/layer_resnet50_training", 354, 177, 386, 6, 462.381},
    {"throughput/op_bert_l-3_inference", 235, 235, 250, 3, 49.3525689463},
    {"throughput/op_bert_l-3_training", 600, 235, 817, 3, 122.9872238459},
    {"throughput/op_resnet50_inference", 604, 604, 619, 6, 325.1319894609},
    {"throughput/op_resnet50_training", 1243, 604, 1806, 6, 684.8905557650},
    {"latency/bert24_inference", 32, 32, 55, 5, 92.406},
    {"latency/gnmt_inference", 96, 96, 122, 6, 182.563},
    {"latency/op_bert_l-3_inference", 235, 235, 250, 4, 49.3525689463},
    {"latency/op_resnet50_inference", 604, 604, 619, 9, 325.1319894609},
};

WorkloadModel load(const char* name) {
    return import_workload(kWorkloads / (std::string(name) + ".json"));
}

TEST(Workload, PublishedFilesHaveThePublishedCountsAndTimes) {
    for (const Published& expected : kPublished) {
        SCOPED_TRACE(expected.file);
        const WorkloadModel model = load(expected.file);
        check(model.graph);
        std::size_t edges = 0;
        std::size_t forward = 0;
        Time total;
        for (const graph::Op& op : model.graph.ops()) {
            edges += op.inputs.size();
            forward += op.given->backward ? 0 : 1;
            total += op.given->accelerator_time;
        }
        EXPECT_EQ(model.graph.op_count(), expected.nodes);
        EXPECT_EQ(forward, expected.forward);
        EXPECT_EQ(edges, expected.edges);
        EXPECT_EQ(model.accelerators, expected.accelerators);
        EXPECT_LT(std::abs(to_milliseconds(total) / expected.one_device_ms - 1), 1e-9);
    }
}

TEST(Workload, EachNodeKeepsWhatTheFileGives) {
    const WorkloadModel model = parse_workload(R"({
        "maxSizePerFPGA": 1000.5, "maxFPGAs": 2, "maxCPUs": 1,
        "nodes": [
            {"id": 7, "cpuLatency": 10, "fpgaLatency": 0.1, "size": 99.5, "colorClass": 4,
             "isBackwardNode": 1, "name": "debug", "layerId": "x"},
            {"id": -3, "cpuLatency": 0.0000000004, "fpgaLatency": 1.5, "supportedOnFpga": 1,
             "colorClass": null},
            {"id": 5, "cpuLatency": 2, "supportedOnFpga": 0}],
        "edges": [{"sourceId": -3, "destId": 7, "cost": 0.25, "size": 12},
                  {"sourceId": -3, "destId": 5, "cost": 0.2500001, "size": 11.5}]})",
                                               "w.json");
    ASSERT_EQ(model.graph.op_count(), 3U);
    EXPECT_EQ(model.accelerators, 2);
    EXPECT_EQ(model.cpus, 1);
    EXPECT_EQ(model.accelerator_memory, Bytes{1000});
    // -3 first; then 5 and 7 are ready: the smaller id wins.
    const graph::Op& first = model.graph.ops()[0];
    const graph::Op& second = model.graph.ops()[1];
    const graph::Op& third = model.graph.ops()[2];
    EXPECT_EQ(first.name, "-3");
    EXPECT_EQ(first.given->id, -3);
    EXPECT_EQ(first.given->cpu_time, Time{0});  // 0.4 ps
    EXPECT_EQ(first.given->accelerator_time, microseconds(1500));
    EXPECT_EQ(first.given->communication_time, microseconds(250));  // the first edge wins
    EXPECT_EQ(first.given->color_class, std::nullopt);
    EXPECT_TRUE(first.given->on_accelerator);
    EXPECT_EQ(model.graph.tensor(first.outputs[0]).bytes(), Bytes{12});
    EXPECT_EQ(second.name, "5");
    EXPECT_FALSE(second.given->on_accelerator);
    EXPECT_EQ(second.given->communication_time, Time{0});
    EXPECT_EQ(second.inputs, first.outputs);
    EXPECT_EQ(third.name, "7");
    EXPECT_TRUE(third.given->backward);
    EXPECT_EQ(third.given->memory, Bytes{100});
    EXPECT_EQ(third.given->color_class, 4);
}

TEST(Workload, TheOrderInTheFileDoesNotMatter) {
    const char* file = "throughput/op_bert_l-3_training";
    auto json = nlohmann::json::parse(read_text_file(kWorkloads / (std::string(file) + ".json")));
    std::ranges::reverse(json["nodes"].get_ref<nlohmann::json::array_t&>());
    const auto digest = [](std::string_view text) {
        WorkloadModel model = parse_workload(text, "w.json");
        return graph::digest(model.graph);
    };
    const std::string original = read_text_file(kWorkloads / (std::string(file) + ".json"));
    EXPECT_EQ(digest(json.dump()), digest(original));
}

TEST(Workload, NodesOfAnEmptyGraphAreNone) {
    const WorkloadModel model = parse_workload(
        R"({"maxSizePerFPGA": 0, "maxFPGAs": 0, "maxCPUs": 1, "nodes": [], "edges": []})",
        "w.json");
    EXPECT_EQ(model.graph.op_count(), 0U);
}

TEST(Workload, BadFilesAreRefusedWithTheExactMessage) {
    tests::expect_golden_errors(kRoot / "tests/data/bad_workloads",
                                [](std::string_view text, const std::string& name) {
                                    static_cast<void>(parse_workload(text, name));
                                });
}

TEST(WorkloadMachine, HasAcceleratorsThenCpusWithRoomForAll) {
    const WorkloadModel model = load("latency/op_resnet50_inference");
    const cost::Machine machine = cost::make_workload_machine(model.graph, model.accelerators,
                                                              model.cpus, model.accelerator_memory);
    ASSERT_EQ(machine.device_count(), 17);
    Bytes all;
    for (const graph::Op& op : model.graph.ops()) all += op.given->memory;
    for (const cost::Device& device : machine.devices()) {
        const bool cpu = device.name.starts_with("cpu");
        EXPECT_EQ(device.kind, cpu ? cost::DeviceKind::cpu : cost::DeviceKind::gpu);
        EXPECT_EQ(device.memory, cpu ? all : Bytes{629'145'600});
    }
    EXPECT_EQ(machine.device(8).name, "accelerator8");
    EXPECT_EQ(machine.device(9).name, "cpu0");
    EXPECT_EQ(machine.copy_time(0, 16, Bytes{0}), Time{0});
    // A CPU takes 23 times as long in this file.
    EXPECT_NEAR(static_cast<double>(machine.device(0).vector_flops) /
                    static_cast<double>(machine.device(9).vector_flops),
                23.0, 1e-3);
}

}  // namespace
}  // namespace partita::importers
