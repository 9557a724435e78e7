// SPDX-License-Identifier: Apache-2.0
#include "bench/collective_series.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "cost/machine/data_folder.h"

namespace partita::bench {

using cost::Collective;

namespace {

constexpr std::array kMachines = {
    MachineRow{"echo-ndv4", "a100_40g_ndv4_ib200", "nccl-a100", 300, 1.555, true},
    MachineRow{"vtrain-a100", "a100_node8_vtrain", "nccl-a100", 300, 2.039, true},
    MachineRow{"vtrain-v100", "v100_node8_vtrain", "nccl-v100", 150, 0.9, true},
    MachineRow{"galvatron-nvlink8", "nvlink8_galvatron", "nccl-a100", 300, 1.555, false},
    MachineRow{"aws-p5", "h100_p5_efa", "nccl-h100", 450, 3.35, true},
    MachineRow{"vidur-a100_dgx", "a100_dgx_vidur", "nccl-a100", 300, 2.039, false},
    MachineRow{"vidur-h100_dgx", "h100_dgx_vidur", "nccl-h100", 450, 3.35, false},
    // Not NCCL but RCCL: eight dies, joined by 1 to 4 links of Infinity Fabric.
    MachineRow{"nnscaler-mi200", "mi200_nnscaler", "", 50, 1.6, false}};

cost::NcclTuning tuning_of(const MachineRow& machine) {
    if (*machine.model == '\0') {
        return {cost::nccl_constants(),
                {.node_channels = 8,
                 .node_bandwidth = 100,
                 .nic_bandwidth = 24,
                 .links = {{2, 4}, {8, 2}}}};
    }
    const auto path =
        cost::data_folder() / "collectives" / "models" / (std::string(machine.model) + ".json");
    const JsonFile json(read_text_file(path), path.string());
    return {cost::nccl_constants(), cost::read_nccl_topology(json.root()["tuning"])};
}

}  // namespace

std::set<int> Series::rank_counts() const {
    std::set<int> counts;
    for (const Point& point : points) counts.insert(point.ranks);
    return counts;
}

bool Series::in_mean() const {
    return machine->nccl_tests && rank_counts().size() >= 3;
}

std::vector<Series> read_series() {
    const std::filesystem::path folder = cost::data_folder() / "collectives";
    std::vector<Series> all;
    for (const MachineRow& machine : kMachines) {
        const auto path = folder / (std::string(machine.file) + ".csv");
        std::map<Collective, std::vector<cost::MeasuredCollective>> by_kind;
        for (auto& row : cost::read_collective_log(read_text_file(path), path.string())) {
            // Start-up of the first size: see the README of the data.
            const bool first = row.set == "echo-ndv4" && row.ranks == 64 && row.bytes.raw() == 1024;
            if (row.bytes.raw() >= 1024 && !first) by_kind[row.kind].push_back(std::move(row));
        }
        for (auto& [kind, rows] : by_kind) {
            std::map<std::tuple<int, int, std::int64_t>, std::vector<double>> times;
            for (const auto& row : rows) {
                times[{row.ranks, row.nodes, row.bytes.raw()}].push_back(to_milliseconds(row.time) *
                                                                         1e3);
            }
            Series series{&machine, tuning_of(machine), kind, kind == Collective::broadcast,
                          {},       std::move(rows)};
            for (auto& [key, list] : times) {
                std::ranges::sort(list);
                const double median = (list[(list.size() - 1) / 2] + list[list.size() / 2]) / 2;
                const auto [ranks, nodes, bytes] = key;
                series.points.push_back({ranks, nodes, Bytes(bytes), median});
            }
            all.push_back(std::move(series));
        }
    }
    return all;
}

}  // namespace partita::bench
