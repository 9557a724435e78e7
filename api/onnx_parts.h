// SPDX-License-Identifier: Apache-2.0
//
// A model cut into ONNX files, one for what a device runs in one go, of a plan whose ops are whole:
//
//     gpu0          gpu1          gpu0             parts/gpu0.onnx      in: x           out: a, b
//     [x a b] ─b─▶ [c d] ──d──▶ [e y]              parts/gpu1.onnx      in: b           out: d
//        └──────────a───────────▶                  parts/gpu0.2.onnx    in: a, d        out: y
//                                                  parts/parts.json     files in an order that works
//
// What is sent is an output of one file and an input of another, under its name in the model. A device
// has a second file where it waits for another that waits for it. Nodes that are no ops of the plan,
// such as those that compute shapes, run where their operands are; constants go to every file that
// reads them. It is the forward: what the file computes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::api {

struct OnnxPart {
    std::string file;  ///< "gpu1.onnx"
    int device = 0;
    std::vector<std::string> inputs;
    std::vector<std::string> outputs;
    std::string bytes;
};

/// Writes them into a folder that is empty or not there, with parts.json, and with the model's external
/// data as links or copies. In an order in which each has what it reads. Throws UsageError, naming an
/// op that is split or what cannot be written; InputError when `model` cannot be read.
std::vector<OnnxPart> write_onnx_parts(const std::filesystem::path& model,
                                       const std::filesystem::path& output,
                                       const plan::Problem& problem,
                                       const plan::Strategy& strategy);

}  // namespace partita::api
