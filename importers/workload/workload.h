// SPDX-License-Identifier: Apache-2.0
//
// Workload files: graphs whose nodes come with their costs, in the JSON format of the public
// dnn-partitioning workloads (docs/file-formats.md).
//
//     {"maxSizePerFPGA": 17185374208.0, "maxFPGAs": 6, "maxCPUs": 1,
//      "nodes": [{"id": 4, "supportedOnFpga": true, "cpuLatency": 1.4, "fpgaLatency": 0.14,
//                 "isBackwardNode": false, "colorClass": 4, "size": 145489920.0}, ...],
//      "edges": [{"sourceId": 4, "destId": 5, "cost": 0.0122}, ...]}
//
// Each node becomes one compute op, named by its id, of type "Given", with one result tensor and
// GivenCosts. Latencies and costs are milliseconds, rounded to picoseconds. Ops are in topological
// order, ties by id, so that the order in the file does not matter. Fields that the format does not
// have are ignored: the published files carry some for debugging.
//
// Threads: pure. Errors: InputError naming field and id, for what is missing, negative, repeated,
// dangling or cyclic, and for an edge from a backward to a forward node.
// Source: Tarnawski et al., Efficient Algorithms for Device Placement of DNN Graph Operators,
// NeurIPS 2020; REFERENCES.md 8.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "graph/ids.h"
#include "graph/op_graph.h"

namespace partita::importers {

struct WorkloadModel {
    graph::OpGraph graph;
    // the machine that the file asks for; accelerators + cpus >= 1
    int accelerators = 0;
    int cpus = 0;
    Bytes accelerator_memory;  ///< of each; CPUs have no limit
};

WorkloadModel import_workload(const std::filesystem::path& file);

/// `name` stands in front of every message and becomes the graph's name.
WorkloadModel parse_workload(std::string_view json, const std::string& name);

/// The nodes of each colour class with more than one, in order of class; rising. They share a
/// device.
std::vector<std::vector<graph::OpId>> color_classes(const graph::OpGraph& graph);

}  // namespace partita::importers
