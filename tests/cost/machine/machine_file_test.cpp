// SPDX-License-Identifier: Apache-2.0
//
// machine.json: what is written comes back, bad files are refused with the exact message, and every
// preset is whole and says where its figures come from.
#include "cost/machine/machine_file.h"
#include "base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "cost/machine/workload_machine.h"
#include "tests/golden_errors.h"
#include "tests/support/paths.h"

namespace partita::cost {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

const std::filesystem::path kRoot = tests::repository();

std::string usage_error(const std::string& spec) {
    try {
        static_cast<void>(load_machine(spec));
    } catch (const UsageError& error) {
        return error.what();
    }
    return "accepted";
}

TEST(MachineFile, BadFilesAreRefusedWithTheExactMessage) {
    tests::expect_golden_errors(kRoot / "tests/data/bad_machines",
                                [](std::string_view text, const std::string& name) {
                                    static_cast<void>(parse_machine(text, name));
                                });
}

TEST(MachineFile, WritingAndReadingIsAFixpoint) {
    std::vector<Machine> machines{load_machine((kRoot / "examples/machines/lab.json").string()),
                                  make_workload_machine({}, 2, 1, Bytes{10})};
    for (const Preset& preset : presets()) machines.push_back(load_machine(preset.name));
    for (const char* many : {"dgx-h100:64", "p100-cluster:100x3", "cpu:300", "tpu-v5p:8x8x8"}) {
        machines.push_back(load_machine(many));
    }
    for (const Machine& machine : machines) {
        const std::string text = to_json(machine);
        const Machine again = parse_machine(text, "again.json");
        EXPECT_EQ(to_json(again), text) << machine.name();
        EXPECT_EQ(digest(again), digest(machine)) << machine.name();
    }
}

TEST(MachineFile, OfManyDevicesSaysWhatItsNodesAreOnce) {
    EXPECT_LT(to_json(load_machine("dgx-h100:2048")).size(), 10'000U);
    EXPECT_THAT(to_json(load_machine("dgx-h100:33")), HasSubstr("\"nodes\": ["));
    EXPECT_THAT(to_json(load_machine("dgx-h100:32")), HasSubstr("node31/gpu7"));
    // Names of another scheme than the form's are listed.
    const Machine machine = load_machine("dgx-h100:64");
    std::vector<Device> devices(machine.devices().begin(), machine.devices().end());
    devices[100].name = "the broken one";
    const std::string listed = to_json({"other",
                                        std::move(devices),
                                        {machine.switches().begin(), machine.switches().end()},
                                        {machine.links().begin(), machine.links().end()}});
    EXPECT_THAT(listed, HasSubstr("the broken one"));
}

TEST(MachineFile, IndentMovesAllLinesButTheFirst) {
    const Machine machine = load_machine("cpu:2");
    const std::string flat = to_json(machine);
    std::string indented = to_json(machine, 3);
    std::size_t lines = 0;
    for (std::size_t at = indented.find('\n'); at != std::string::npos;
         at = indented.find('\n', at + 1), ++lines) {
        ASSERT_EQ(indented.substr(at + 1, 3), "   ");
        indented.erase(at + 1, 3);
    }
    EXPECT_EQ(lines, 8U);  // "devices" and 2, "switches" and 1, "links" and 2
    EXPECT_EQ(indented, flat);
}

TEST(MachineFile, AFigureWithItsUnitIsTheNumberItStandsFor) {
    const std::string text = read_text_file(kRoot / "examples/machines/lab.json");
    const auto digest_with = [&](const char* pointer, const nlohmann::json& value) {
        nlohmann::json changed = nlohmann::json::parse(text);
        changed[nlohmann::json::json_pointer(pointer)] = value;
        return digest(parse_machine(changed.dump(), "changed.json"));
    };
    struct Case {
        const char* pointer;
        const char* with_unit;
        std::int64_t number;
    };
    for (const Case& each :
         {Case{"/devices/0/memory_bytes", "80GiB", 85'899'345'920},
          Case{"/devices/0/memory_bytes", "16 GB", 16'000'000'000},
          Case{"/devices/0/memory_bandwidth", "3.35TB/s", 3'350'000'000'000},
          Case{"/devices/0/launch_interval_ps", "0.7us", 700'000},
          Case{"/devices/0/matrix_flops/float16", "989TFLOP/s", 989'000'000'000'000},
          Case{"/devices/0/vector_flops", "67 TFLOPS", 67'000'000'000'000},
          Case{"/links/0/bandwidth", "900GB/s", 900'000'000'000},
          Case{"/links/0/bandwidth", "100 Gb/s", 12'500'000'000},
          Case{"/links/0/latency_ps", "300ns", 300'000}}) {
        EXPECT_EQ(digest_with(each.pointer, each.with_unit), digest_with(each.pointer, each.number))
            << each.pointer << ' ' << each.with_unit;
    }
    for (const char* wrong : {"900GB", "900 apples", "1us", "", "-1GB/s", "nanGB/s", "1e30B/s"}) {
        EXPECT_THROW(static_cast<void>(digest_with("/links/0/bandwidth", wrong)), InputError)
            << wrong;
    }
}

TEST(MachineFile, TheDigestKnowsEveryFigureButNoSource) {
    const std::string text = read_text_file(kRoot / "examples/machines/lab.json");
    const std::string whole = digest(parse_machine(text, "lab.json"));
    nlohmann::json json = nlohmann::json::parse(text);
    const auto digest_with = [&](const char* pointer, const nlohmann::json& value) {
        nlohmann::json changed = json;
        changed[nlohmann::json::json_pointer(pointer)] = value;
        return digest(parse_machine(changed.dump(), "changed.json"));
    };
    EXPECT_EQ(digest_with("/devices/0/source", "elsewhere"), whole);
    EXPECT_EQ(digest_with("/links/0/source", "elsewhere"), whole);
    EXPECT_NE(digest_with("/collectives", {{"model", "nccl-a100"}}), whole);
    EXPECT_EQ(digest_with("/collectives", {{"model", "nccl-a100"}, {"source", "here"}}),
              digest_with("/collectives", {{"model", "nccl-a100"}}));
    EXPECT_NE(digest_with("/switches/0/reduces", true), whole);
    EXPECT_EQ(digest_with("/switches/0/reduces", false), whole);
    EXPECT_EQ(digest_with("/summary", "another"), whole);
    EXPECT_EQ(digest_with("/devices/0/price_per_hour", 3.5), whole) << "no plan depends on it";
    const std::vector<std::pair<const char*, nlohmann::json>> changes = {
        {"/name", "other"},
        {"/devices/2/model", "other"},
        {"/devices/2/kind", "gpu"},
        {"/devices/0/node", 1},
        {"/devices/2/threads", 4},
        {"/devices/0/memory_bytes", 1},
        {"/devices/0/reserved_bytes", 1},
        {"/devices/0/memory_bandwidth", 1},
        {"/devices/0/launch_interval_ps", 1},
        {"/devices/0/matrix_flops/float16", 1},
        {"/devices/0/vector_flops", 1},
        {"/devices/0/compute_efficiency", 0.71},
        {"/devices/0/memory_efficiency", 0.71},
        {"/links/0/name", "other"},
        {"/links/0/to", "gpu1"},
        {"/links/0/bandwidth", 1},
        {"/links/0/latency_ps", 1},
        {"/links/0/mode", "shared"},
        {"/links/0/efficiency", 0.71}};
    for (const auto& [pointer, value] : changes) {
        EXPECT_NE(digest_with(pointer, value), whole) << pointer;
    }
    json["devices"][0]["name"] = "gpu9";
    json["links"][0]["from"] = "gpu9";
    EXPECT_NE(digest(parse_machine(json.dump(), "renamed.json")), whole);
}

TEST(MachineFile, ATwentiethOfAGpusMemoryIsReservedUnlessItSays) {
    nlohmann::json json =
        nlohmann::json::parse(read_text_file(kRoot / "examples/machines/lab.json"));
    for (nlohmann::json& device : json["devices"]) {
        device["memory_bytes"] = "80GiB";
        device["kind"] = device["name"] == "gpu1" ? "cpu" : "gpu";
    }
    json["devices"][2]["reserved_bytes"] = "3GiB";
    const Machine machine = parse_machine(json.dump(), "reserved.json");
    EXPECT_EQ(machine.device(0).reserved, Bytes{std::int64_t{4} << 30});
    EXPECT_EQ(machine.device(1).reserved, Bytes{0});
    EXPECT_EQ(machine.device(2).reserved, Bytes{std::int64_t{3} << 30});
}

TEST(LoadMachine, TakesSoManyDevicesByTheirName) {
    EXPECT_EQ(to_json(load_machine("8xH200")), to_json(load_machine("dgx-h200:1")));
    EXPECT_EQ(load_machine("8xH100").name(), "dgx-h100:1");  // not a cloud's
    EXPECT_EQ(load_machine("8xA10G").name(), "g5.48xlarge:1");
    EXPECT_EQ(load_machine("36xGB200").name(), "gb200-nvl72:1x36");
    EXPECT_EQ(to_json(load_machine("32xh100")), to_json(load_machine("dgx-h100:4")));
    EXPECT_EQ(to_json(load_machine("4xA100")), to_json(load_machine("dgx-a100:1x4")));
    EXPECT_EQ(to_json(load_machine("8xT4")), to_json(load_machine("g4dn.12xlarge:2")));
    const auto message = [](const std::string& spec) -> std::string {
        try {
            static_cast<void>(load_machine(spec));
        } catch (const UsageError& error) {
            return error.what();
        }
        return "";
    };
    EXPECT_THAT(message("12xH100"), testing::HasSubstr("nodes of dgx-h100 have 8 of them"));
    EXPECT_THAT(message("8xH900"), testing::HasSubstr("no preset has nodes of 'H900' alone"));
    EXPECT_THAT(message("0xH100"), testing::HasSubstr("unknown preset"));
    EXPECT_THAT(message("dgx-h10"), testing::HasSubstr("unknown preset. Is it 'dgx-h100'?"));
}

TEST(MachineFile, PricesSurviveWritingAndReading) {
    nlohmann::json json =
        nlohmann::json::parse(read_text_file(kRoot / "examples/machines/lab.json"));
    json["devices"][1]["price_per_hour"] = 2.49;
    const Machine machine = parse_machine(json.dump(), "priced.json");
    EXPECT_EQ(machine.device(0).price_per_hour, 0);
    EXPECT_EQ(machine.device(1).price_per_hour, 2.49);
    EXPECT_EQ(parse_machine(to_json(machine), "again.json").device(1).price_per_hour, 2.49);
    json["devices"][1]["price_per_hour"] = -1;
    EXPECT_THROW(static_cast<void>(parse_machine(json.dump(), "priced.json")), InputError);
}

TEST(MachineFile, AnEmbeddedMachineNamesItsPlace) {
    const JsonFile file(R"({"machine": {"format": "partita-machine", "version": 1,
        "name": "x", "devices": [{"model": 7}]}})",
                        "plan.json");
    try {
        static_cast<void>(parse_machine(file.root()["machine"]));
        FAIL() << "accepted";
    } catch (const InputError& error) {
        EXPECT_STREQ(error.what(),
                     "plan.json: machine.devices[0].model: expected the model of the device, a "
                     "text, got 7. Correct it.");
    }
}

TEST(Presets, AreThoseThatTheDocumentationNames) {
    std::vector<std::string> names;
    for (const Preset& preset : presets()) {
        names.push_back(preset.name);
        EXPECT_THAT(preset.summary, Not(IsEmpty()));
        EXPECT_EQ(load_machine(preset.name).name(), preset.name);
    }
    EXPECT_THAT(names, testing::ElementsAre(
                           "a100-t4", "a3-megagpu-8g", "cpu", "dgx-1-v100", "dgx-a100", "dgx-b200",
                           "dgx-h100", "dgx-h200", "g4dn.12xlarge", "g5.48xlarge", "gb200-nvl72",
                           "k80-cluster", "l40s-server", "mayer-50", "mi300x-platform",
                           "nd-h100-v5", "p100-cluster", "p3-g4dn", "p3.8xlarge", "p4d.24xlarge",
                           "p5.48xlarge", "rtx4090-workstation", "tpu-v5e", "tpu-v5p"));
}

TEST(Presets, GiveASourceForEveryFigure) {
    const std::vector<std::string> no_figure = {"model", "kind", "mode", "source"};
    for (const Preset& preset : presets()) {
        const auto json = nlohmann::json::parse(read_text_file(preset.file));
        for (const char* types : {"device_types", "link_types"}) {
            for (const auto& [name, type] : json.at(types).items()) {
                for (const auto& [figure, value] : type.items()) {
                    if (testing::Value(no_figure, testing::Contains(figure))) continue;
                    const std::string source = type.at("source").value(figure, "");
                    EXPECT_THAT(source, Not(IsEmpty()))
                        << preset.name << " " << name << " " << figure;
                }
            }
        }
        const Machine machine = load_machine(preset.name);
        for (const Device& device : machine.devices()) EXPECT_THAT(device.source, Not(IsEmpty()));
        for (const Link& link : machine.links()) EXPECT_THAT(link.source, Not(IsEmpty()));
    }
}

TEST(Presets, HaveTheDevicesTheirNamesPromise) {
    const auto devices = [](const char* spec) { return load_machine(spec).device_count(); };
    EXPECT_EQ(devices("a100-t4"), 8);
    EXPECT_EQ(devices("cpu"), 1);
    EXPECT_EQ(devices("cpu:2"), 2);
    EXPECT_EQ(devices("cpu:4096"), 4096);
    EXPECT_EQ(devices("dgx-1-v100"), 8);
    EXPECT_EQ(devices("dgx-a100"), 8);
    EXPECT_EQ(devices("dgx-b200"), 8);
    EXPECT_EQ(devices("dgx-h100:4"), 32);
    EXPECT_EQ(devices("g4dn.12xlarge:4"), 16);
    EXPECT_EQ(devices("p5.48xlarge:2"), 16);
    EXPECT_EQ(devices("gb200-nvl72:2"), 144);
    EXPECT_EQ(devices("mi300x-platform"), 8);
    EXPECT_EQ(devices("rtx4090-workstation"), 4);
    EXPECT_EQ(devices("k80-cluster"), 64);
    EXPECT_EQ(devices("mayer-50"), 50);
    EXPECT_EQ(devices("p100-cluster"), 16);
    EXPECT_EQ(devices("p100-cluster:2x4"), 8);
    EXPECT_EQ(devices("p100-cluster:1x3"), 3);
    EXPECT_EQ(devices("p3-g4dn"), 16);
    EXPECT_EQ(devices("p3.8xlarge:2"), 8);
}

TEST(Presets, NumberTheirNodes) {
    const Machine machine = load_machine("p100-cluster:2x2");
    EXPECT_EQ(machine.name(), "p100-cluster:2x2");
    ASSERT_THAT(machine.devices(), SizeIs(4));
    EXPECT_EQ(machine.device(2).name, "node1/gpu0");
    EXPECT_EQ(machine.device(2).node, 1);
    EXPECT_EQ(load_machine("dgx-a100").device(7).name, "gpu7");
}

// 4 GPUs: 6 pairs by NVLink, 4 to the host, the host to the network; with 2 GPUs 1 + 2 + 1.
TEST(Presets, JoinEachPairOfAGroupOnce) {
    EXPECT_THAT(load_machine("p100-cluster:1x4").links(), SizeIs(11));
    EXPECT_THAT(load_machine("p100-cluster:3x2").links(), SizeIs(12));
}

TEST(Presets, RefuseSizesTheyCannotHave) {
    for (const char* spec : {"cpu:0", "cpu:", "cpu:-1", "cpu:2x", "cpu:x2", "cpu:65537", "cpu:1e3",
                             "cpu:99999999999999999999", "cpu: 2", "cpu:2 "}) {
        EXPECT_THAT(usage_error(spec), HasSubstr("expected a size such as 4 or 2x4")) << spec;
    }
    EXPECT_EQ(usage_error("cpu:2x2"),
              "machine 'cpu' has one node. Write the number of devices, e.g. cpu:2.");
    EXPECT_EQ(usage_error("mayer-50:2"), "machine 'mayer-50' has one size only. Write mayer-50.");
    EXPECT_EQ(usage_error("p100-cluster:2x5"),
              "machine 'p100-cluster': its nodes have 4 devices, got 5. Write at most "
              "p100-cluster:2x4.");
    EXPECT_EQ(usage_error("dgx-h100:8193"),
              "machine 'dgx-h100:8193': 65544 devices and 8194 switches. A machine has at most "
              "65536 of each.");
    EXPECT_EQ(usage_error("dgx-9"),
              "machine 'dgx-9': unknown preset. Known are a100-t4, a3-megagpu-8g, cpu, dgx-1-v100, "
              "dgx-a100, dgx-b200, dgx-h100, dgx-h200, g4dn.12xlarge, g5.48xlarge, gb200-nvl72, "
              "k80-cluster, l40s-server, mayer-50, mi300x-platform, nd-h100-v5, p100-cluster, "
              "p3-g4dn, p3.8xlarge, p4d.24xlarge, p5.48xlarge, rtx4090-workstation, tpu-v5e, "
              "tpu-v5p; a machine file ends in .json.");
    EXPECT_EQ(usage_error("tpu-v5e:16"),
              "machine 'tpu-v5e': expected 2 extents, got 16. Write them as tpu-v5e:4x4.");
    EXPECT_EQ(usage_error("tpu-v5p:64x64x64"),
              "machine 'tpu-v5p': 64x64x64 are more than 65536 devices. Write smaller extents.");
    EXPECT_EQ(
        usage_error("dgx-h100:1x2x3"),
        "machine 'dgx-h100': expected a number of nodes, or nodes x devices, got 1x2x3. Write "
        "e.g. dgx-h100:2 or dgx-h100:2x4.");
    EXPECT_EQ(usage_error("../machines/cpu").substr(0, 41),
              "machine '../machines/cpu': unknown preset");
}

TEST(Presets, KeepTheRatiosOfMayersMachine) {
    const Machine machine = load_machine("mayer-50");
    int fast = 0;
    int slow = 0;
    int cpus = 0;
    const double fastest = static_cast<double>(machine.device(0).vector_flops);
    for (const Device& device : machine.devices()) {
        const double share = static_cast<double>(device.vector_flops) / fastest;
        if (share == 1.0) ++fast;
        if (std::abs(share - 1.0 / 3) < 1e-9) ++slow;
        if (std::abs(share - 1.0 / 20) < 1e-9 && device.kind == DeviceKind::cpu) ++cpus;
    }
    EXPECT_EQ(fast, 10);
    EXPECT_EQ(slow, 20);
    EXPECT_EQ(cpus, 20);
    for (const Channel& channel : machine.channels()) EXPECT_EQ(channel.bandwidth, 1'250'000'000);
}

// Chip 5 of 4 x 4 is at (1, 1): 1 and 9 are its neighbours along the first axis, 4 and 6 along the second.
TEST(Presets, JoinTheChipsOfATorusAlongEachAxis) {
    const auto neighbours = [](const Machine& machine, int chip) {
        std::vector<int> found;
        for (const Link& link : machine.links()) {
            if (link.from == chip) found.push_back(link.to);
            if (link.to == chip) found.push_back(link.from);
        }
        std::ranges::sort(found);
        return found;
    };
    const Machine grid = load_machine("tpu-v5e:4x4");
    EXPECT_THAT(grid.collectives().torus, testing::ElementsAre(4, 4));
    EXPECT_THAT(neighbours(grid, 5), testing::ElementsAre(1, 4, 6, 9));
    EXPECT_THAT(neighbours(grid, 0), testing::ElementsAre(1, 4));
    const Machine closed = load_machine("tpu-v5e:2x16");
    EXPECT_EQ(closed.name(), "tpu-v5e:2x16");
    EXPECT_THAT(neighbours(closed, 0), testing::ElementsAre(1, 15, 16));
    EXPECT_THAT(neighbours(load_machine("tpu-v5p:2x4x4"), 0), testing::ElementsAre(1, 4, 16));
    EXPECT_THAT(neighbours(load_machine("tpu-v5p:4x4x4"), 0),
                testing::ElementsAre(1, 3, 4, 12, 16, 48));
}

TEST(Presets, JoinTheV100sOfADgx1ByTheirSixLinks) {
    const Machine machine = load_machine("dgx-1-v100");
    std::vector<std::int64_t> nvlink(8);
    for (const Link& link : machine.links()) {
        if (link.to >= 8) continue;
        nvlink[static_cast<std::size_t>(link.from)] += link.bandwidth;
        nvlink[static_cast<std::size_t>(link.to)] += link.bandwidth;
    }
    EXPECT_THAT(nvlink, testing::Each(6 * 25'000'000'000));
}

}  // namespace
}  // namespace partita::cost
